"""Follows decisions of administrators and managers: holds, priorities and time limits of jobs, stops, and the groups of
users. All are in SQL. The scheduler follows them by the change log; with the database away the last known ones apply.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.changes import Change
from t9ksched.store.errors import StoreError
from t9ksched.store.job_overrides import PREEMPTION, SCHEDULING, JobControl, Stop
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

_LATE = 0.05
"""Seconds after the time that is over: clocks differ a little."""
_AGAIN = 5.0
_RECORDED = 15.0
"""Seconds after which a decision that was about to be recorded is on record."""
_LONGEST = 24 * 3600.0
_AT_ONCE = 500
"""Decisions about so many jobs are taken in before the event loop does other work."""


class Overrides:
    """Brings decisions about jobs and groups of users into the state and stops into the loop.

    `clock` gives nanoseconds since the epoch; `on_stop` is called when another set of stops is in force.
    """

    def __init__(
        self,
        store: Store,
        state: ClusterState,
        loop: Loop,
        clock: Callable[[], int],
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_stop = on_stop
        self._store = store
        self._state = state
        self._loop = loop
        self._clock = clock
        self._stops: list[Stop] = []
        self._stops_end = _Alarm(self._read_stops)
        self._groups_end = _Alarm(self._read_groups)
        self._supposed: dict[str, datetime] = {}
        """Since when a decision is supposed, by UID of the job."""
        self._check = _Alarm(self._read_supposed)

    async def load(self) -> None:
        """Read all of them.

        Raises:
            StoreError: the database is away.
        """
        self._state.direct({control.uid: control for control in await self._store.controls.all()})
        await self._read_groups()
        await self._read_stops()

    async def take(self, changes: list[Change]) -> None:
        """Read what changed.

        Raises:
            StoreError: the database is away.
        """
        uids = [change.key for change in changes if change.table == "job_control"]
        if uids:
            await self._read(uids)
        if any(change.table == "stop" for change in changes):
            await self._read_stops()
        if any(change.table == "api_token" for change in changes):
            await self._read_groups()

    async def _read(self, uids: Sequence[str]) -> None:
        """Read what is decided about these jobs; of thousands a part counts while the others are being read."""
        for start in range(0, len(uids), _AT_ONCE):
            some = uids[start : start + _AT_ONCE]
            found = await self._store.controls.of(some)
            self._state.redirect({uid: found.get(uid) for uid in some})
            await asyncio.sleep(0)

    def suppose(self, uid: str, seconds: int, by: str) -> None:
        """A job is about to be given this limit by a manager, 0 for none: it counts from now on, before it can be read,
        so that no start is planned meanwhile that relies on the limit of before. If it is not on record in a while, it
        counts no more.
        """
        now = self._time()
        control = self._state.controls.get(uid) or JobControl(uid)
        given = replace(control, time_limit_seconds=seconds, limited_at=now, by=by, at=now)
        self._state.redirect({uid: given})
        self._supposed[uid] = now
        self._check.set((min(self._supposed.values()) - now).total_seconds() + _RECORDED)

    async def _read_supposed(self) -> None:
        """Read again what was supposed a while ago."""
        now = self._time()
        over = [uid for uid, at in self._supposed.items() if (now - at).total_seconds() >= _RECORDED]
        await self._read(over)
        for uid in over:
            del self._supposed[uid]
        if self._supposed:
            self._check.set((min(self._supposed.values()) - now).total_seconds() + _RECORDED)

    async def _read_groups(self) -> None:
        now = self._time()
        groups, end = await self._store.tokens.groups_until(now)
        self._state.group(groups)
        self._groups_end.set(None if end is None else (end - now).total_seconds())

    async def _read_stops(self) -> None:
        self._obey(self._stops)  # a decision ends by time even while the database is away
        self._obey(await self._store.stops.list(self._time()))

    def _obey(self, stops: list[Stop]) -> None:
        now = self._time()
        in_force = [stop for stop in stops if stop.holds(now)]
        what = {stop.what for stop in in_force}
        self._loop.paused = SCHEDULING in what
        self._loop.may_evict = PREEMPTION not in what and SCHEDULING not in what
        self._state.obey(tuple(in_force))
        for stop in in_force:
            if stop not in self._stops:
                until = stop.until and stop.until.isoformat()
                log.info("stopped", what=stop.what, until=until, by=stop.by, why=stop.why)
        if in_force != self._stops:
            self._stops = in_force
            self._state.feed.queues.note_all(self._state.queues)
            self._on_stop()
        ends = [stop.until for stop in in_force if stop.until is not None]
        self._stops_end.set((min(ends) - now).total_seconds() if ends else None)
        self._loop.wake()

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self._clock() / 1e9, UTC)

    def stop(self) -> None:
        """Drop the timers."""
        self._stops_end.cancel()
        self._groups_end.cancel()
        self._check.cancel()


class _Alarm:
    """Reads again when the time of a decision is over; while the database is away, every few seconds."""

    def __init__(self, read: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None

    def set(self, seconds: float | None) -> None:
        """Read again after so many seconds, or not at all with None; replaces what was set before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            pause = min(max(0.0, seconds) + _LATE, _LONGEST)
            self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def _ring(self) -> None:
        self._reading = asyncio.create_task(self._try())

    async def _try(self) -> None:
        try:
            await self._read()
        except StoreError as error:
            log.warning("what is over by time waits for the database", error=str(error))
            self.set(_AGAIN)

    def cancel(self) -> None:
        """Cancel the timer."""
        self.set(None)
        if self._reading is not None:
            self._reading.cancel()
