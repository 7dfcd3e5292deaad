"""What people told the scheduler: which jobs to hold or to move up, and what to stop for a while.

Both stand in SQL. The scheduler follows them by the change log; with the database away the last ones known hold.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from t9ksched.scheduler.loop import Loop
from t9ksched.scheduler.state import ClusterState
from t9ksched.store.changes import Change
from t9ksched.store.controls import PREEMPTION, SCHEDULING
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)


class Directions:
    """Brings decisions about jobs into the state and stops into the loop; `clock` gives nanoseconds since the epoch."""

    def __init__(self, store: Store, state: ClusterState, loop: Loop, clock: Callable[[], int]) -> None:
        self._store = store
        self._state = state
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read everything that stands.

        Raises:
            StoreError: the database is away.
        """
        self._state.direct({control.uid: control for control in await self._store.controls.all()})
        await self._read_stops()

    async def take(self, changes: list[Change]) -> None:
        """Take over what changed.

        Raises:
            StoreError: the database is away.
        """
        uids = [change.key for change in changes if change.table == "job_control"]
        if uids:
            known = dict(self._state.controls)
            for uid in uids:
                known.pop(uid, None)
            self._state.direct(known | await self._store.controls.of(uids))
        if any(change.table == "stop" for change in changes):
            await self._read_stops()

    async def _read_stops(self) -> None:
        now = datetime.fromtimestamp(self._clock() / 1e9, UTC)
        stops = {stop.what: stop for stop in await self._store.stops.list(now)}
        self._loop.paused = SCHEDULING in stops
        self._loop.may_evict = PREEMPTION not in stops and SCHEDULING not in stops
        for stop in stops.values():
            log.info("stopped", what=stop.what, until=stop.until and stop.until.isoformat(), by=stop.by, why=stop.why)
        if self._timer is not None:
            self._timer.cancel()
        ends = [stop.until for stop in stops.values() if stop.until is not None]
        if ends:
            pause = max(0.0, (min(ends) - now).total_seconds()) + 0.05
            self._timer = asyncio.get_running_loop().call_later(pause, self._over)
        self._loop.wake()

    def _over(self) -> None:
        """A stop's time is over."""
        self._reading = asyncio.create_task(self._read_stops())

    def stop(self) -> None:
        """Drop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
