"""Work by the clock, run by APScheduler: sweeps over deadlines and clean-up. Never the scheduling loop itself.

Every job here may run late, twice or not at all without harm: all facts are in the state and in SQL, a timer only
checks them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store

log = structlog.get_logger(__name__)

_ANY_NUMBER: Final = 1_000_000
_A_SLICE: Final = 2000
"""Records examined before other tasks run: some milliseconds."""
_JUST_BOUND = timedelta(minutes=5)
"""How long a pod may be bound before its absence means something: the watch may be behind."""


class Sweep(msgspec.Struct, frozen=True):
    """A check of deadlines, every so many seconds."""

    name: str
    seconds: int
    run: Callable[[], Awaitable[object]]


class Housekeeping:
    """Sets the timers: `sweeps`, the end of holds, and an hourly clean-up.

    `clock` gives nanoseconds since the epoch; `retention` is how long history is kept; `cards` is None in a scheduler
    that only observes.
    """

    def __init__(
        self,
        state: ClusterState,
        store: Store,
        clock: Callable[[], int],
        retention: timedelta,
        sweeps: Sequence[Sweep] = (),
        cards: CardKeeper | None = None,
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._retention = retention
        self._sweeps = sweeps
        self._cards = cards
        self._timers = AsyncIOScheduler(timezone=UTC)
        self._running: dict[asyncio.Task[Any], str] = {}
        """Tasks of sweeps that are under way, with their names."""
        self._begun: set[asyncio.Task[None]] = set()
        """Tasks of sweeps, from the moment that they were created."""
        self._stopped = False

    def start(self) -> None:
        """Set the timers on the running event loop."""
        add = self._timers.add_job
        first = datetime.now(UTC) + timedelta(minutes=1)
        # `_run` itself leaves out a look while the one before is under way: APScheduler would warn of each.
        options = {"coalesce": True, "max_instances": _ANY_NUMBER, "misfire_grace_time": None}
        by_period: dict[int, list[Sweep]] = {}
        for sweep in (Sweep("reservations", 5, self.sweep_reservations), *self._sweeps):
            by_period.setdefault(sweep.seconds, []).append(sweep)
        for seconds, sweeps in by_period.items():  # a timer costs more than most looks do
            name = f"every {seconds} s"
            add(partial(self._begin, sweeps), "interval", seconds=seconds, id=name, name=name, **options)
        clean_up = partial(self._run, self.clean_up, "clean-up")
        add(clean_up, "interval", hours=1, id="clean-up", name="clean-up", next_run_time=first, **options)
        self._timers.start()

    async def stop(self) -> None:
        """Drop the timers. What is under way is cancelled, and has ended when this returns."""
        self._stopped = True
        if self._timers.running:
            self._timers.pause()
            await asyncio.sleep(0)  # what is due has begun then: APScheduler logs as an error what is cancelled before
            self._timers.shutdown(wait=False)
        for task in self._begun:
            task.cancel()
        if under_way := self._begun | self._running.keys():
            await asyncio.wait(under_way)

    async def _begin(self, sweeps: Sequence[Sweep]) -> None:
        """Run each of these sweeps in a task of its own: none waits for another, nor does all else for all of them. It
        waits for nothing itself, for APScheduler would log that a stop cancels it as an error.
        """
        self._beside(self._one_by_one(sweeps))

    async def _one_by_one(self, sweeps: Sequence[Sweep]) -> None:
        for sweep in sweeps:
            self._beside(self._run(sweep.run, sweep.name))
            await asyncio.sleep(0)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)

    async def _run(self, sweep: Callable[[], Awaitable[object]], name: str) -> None:
        """Run a sweep, unless it is still under way. A coroutine function, because APScheduler would call a plain one
        in a thread. That a stop cancels it is no error, and APScheduler would log it as one.
        """
        if name in self._running.values():
            log.debug("a sweep takes longer than its period", sweep=name)
            return
        task = asyncio.current_task()
        assert task is not None, "timers run on the event loop"
        self._running[task] = name
        try:
            await sweep()
        except asyncio.CancelledError:
            if not self._stopped:
                raise
        except Exception:
            log.exception("a sweep failed, and is tried again", sweep=name)
        finally:
            del self._running[task]

    def clock_set(self) -> None:
        """The wall clock, on which the timers depend, was set: restart each of them."""
        for job in self._timers.get_jobs():
            job.reschedule("interval", seconds=job.trigger.interval.total_seconds())

    async def sweep_reservations(self) -> None:
        """End reservations whose time is over."""
        if ended := self._state.reservations.sweep(self._clock()):
            log.info("reservations ended by time", count=ended)

    async def clean_up(self) -> None:
        """Drop what is older than the retention: history, jobs that are gone, changes that every process has read; and
        answers to requests that may be repeated, and notifications, which have a retention of their own.
        """
        now = datetime.fromtimestamp(self._clock() / 1e9, UTC)
        before = now - self._retention
        try:
            events = await self._store.history.purge(before)
            await self._end_lost_spans()
            await self._store.usage.purge(before)
            jobs = await self._store.jobs.purge(before)
            await self._store.changes.purge(before)
            await self._store.forecasts.purge(round(before.timestamp() * 1e9))
            await self._store.repeats.purge(now)
            await self._store.notifications.purge(now)
            await self._forget_what_is_gone()
            if self._cards is not None:
                await self._cards.forget_lost()
        except StoreError as error:
            log.warning("clean-up waits for the database", error=str(error))
            return
        if events or jobs:
            log.info("clean-up", events=events, jobs=jobs)

    async def _end_lost_spans(self) -> None:
        """Record in history the pods that released their cards while no scheduler was running."""
        now = datetime.fromtimestamp(self._clock() / 1e9, UTC)
        async for holders in self._store.usage.holders(now - _JUST_BOUND):
            lost = [one for one in holders if not self._state.holds_a_place(one.namespace, one.pod)]
            await self._store.history.append_many([one.released(now) for one in lost])

    async def _forget_what_is_gone(self) -> None:
        """Drop acceptances and overrides of groups and jobs that are gone. Objects that may still be created get an
        hour's grace.
        """
        latest = datetime.fromtimestamp(self._clock() / 1e9, UTC) - timedelta(hours=1)
        state = self._state
        agreed, decided = state.acceptances, state.controls
        gone = await _those(list(agreed), lambda uid: agreed[uid].accepted_at < latest and not state.knows(uid), agreed)
        await self._store.acceptances.forget(gone)
        await _drop(gone, state.acceptances)
        gone = await _those(list(decided), lambda uid: decided[uid].at < latest and not state.knows(uid), decided)
        await self._store.controls.forget(gone)
        await _drop(gone, state.controls)


async def _those(uids: list[str], chosen: Callable[[str], bool], known: Container[str]) -> list[str]:
    """Of these UIDs those that are still `known` and are `chosen`, asked a slice at a time: there may be many."""
    found: list[str] = []
    for start in range(0, len(uids), _A_SLICE):
        found += [uid for uid in uids[start : start + _A_SLICE] if uid in known and chosen(uid)]
        await asyncio.sleep(0)
    return found


async def _drop(uids: list[str], known: MutableMapping[str, Any]) -> None:
    for count, uid in enumerate(uids, start=1):
        known.pop(uid, None)
        if count % _A_SLICE == 0:
            await asyncio.sleep(0)
