"""Carries out preemptions: the room of the victims is promised to the preemptor, then the victims are evicted.
`Evictor` has the promise written, sends the evictions and repeats them until the API server has answered; the engine
chooses among the running gangs that `evictable_gangs.py` gives it. If a victim may not be evicted the promise is
withdrawn, so that the preemptor does not wait in vain. No victim is evicted for a promise that is not written, or that
was withdrawn while it was written.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import structlog

from t9ksched.engine.planner import Eviction, Plan
from t9ksched.engine.victims.room_clearing import Leaving
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.write.eviction import AlreadyGone, Evicted, NotEvicted, TryLater, Victim, evict
from t9ksched.model.names import EVENT_PREEMPTED
from t9ksched.model.reservation import PROMISE_SLACK_SECONDS, Reservation
from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.meters import LATER, PREEMPTION, REFUSED, RESERVATION
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState

log = structlog.get_logger(__name__)

_SECOND: Final = 1_000_000_000
_IN_FLIGHT: Final = 16
_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0


class Evictor:
    """Evicts victims concurrently. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self,
        client: ClusterPort,
        state: ClusterState,
        recorder: HistoryRecorder,
        clock: Callable[[], int],
        keeper: PromiseKeeper,
    ) -> None:
        self._going: dict[str, GangRecord] = {}
        """Victims from their choice until the watch shows their deletion, by UID of the pod."""
        self._asked: set[str] = set()
        """Those of them that the API server has evicted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.evictable = EvictableGangs(state, self._going, self._asked)
        self._client = client
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._keeper = keeper
        self._places = asyncio.Semaphore(_IN_FLIGHT)

    @property
    def busy(self) -> bool:
        """Whether evictions are under way, or promises for them being written."""
        return bool(self._tasks)

    def submit(self, plan: Plan, most_grace: int) -> None:
        """Promise the room of a plan's victims to their preemptors, and evict them; no pod has two evictions under way.

        `most_grace` is the longest grace period in seconds that a victim is given.
        """
        self._forget_seen()
        latest = self._clock() + (most_grace + PROMISE_SLACK_SECONDS) * _SECOND
        promises: dict[str, tuple[Reservation, ...]] = {}
        for until, those in groupby(plan.reservations, lambda one: one.until or latest):
            promises |= self._state.reservations.promise(those, until)
        evictions = [eviction for eviction in plan.evictions if self._choose(eviction)]
        kept = [(eviction.gang, eviction.by) for eviction in plan.evictions if self._is_kept_room(eviction)]
        self._start(self._carry_out(promises, evictions, kept, most_grace))

    def clear(self, victims: Iterable[Leaving], reservation: str, why: str, most_grace: int) -> int:
        """Evict pods that hold the room of that reservation by administrators; how many are evicted now."""
        self._forget_seen()
        found = [Eviction(one.gang.uid, pod.uid, reservation, why) for one in victims for pod in one.pods]
        evictions = [eviction for eviction in found if self._choose(eviction)]
        for eviction in evictions:
            self._start(self._evict(self._going[eviction.pod], eviction, most_grace, reserved=True))
        return len(evictions)

    def goes(self, pod: PodRecord) -> bool:
        """Whether the pod is leaving, or is about to be evicted."""
        return pod.deleting or pod.finished or pod.uid in self._going

    def _choose(self, eviction: Eviction) -> bool:
        gang = self._state.gangs_by_uid.get(eviction.gang)
        if gang is None or eviction.pod in self._going or eviction.pod not in gang.members:
            return False
        self._going[eviction.pod] = gang
        self._state.progress.victims_changed(gang)
        return True

    def _is_kept_room(self, eviction: Eviction) -> bool:
        """Whether this victim is no pod, but the room reserved for a member that its gang lost."""
        gang = self._state.gangs_by_uid.get(eviction.gang)
        return gang is not None and eviction.pod not in gang.members

    def _over(self, pod: str) -> None:
        self._state.progress.victims_changed(self._going.pop(pod))

    def _forget_seen(self) -> None:
        """Forget evicted pods once the watch shows their deletion: until then they look as if they were running on."""
        for uid in list(self._asked):
            record = self._state.pods.get(uid)
            if record is None or record.deleting:
                self._asked.discard(uid)
                self._over(uid)

    async def _carry_out(
        self,
        promises: Mapping[str, tuple[Reservation, ...]],
        evictions: Iterable[Eviction],
        kept: Iterable[tuple[str, str]],
        most_grace: int,
    ) -> None:
        """Evict them once the promises are written, unless a promise was withdrawn meanwhile. `kept` are gangs whose
        reserved room is taken as well, each with the gang that gets it.
        """
        try:
            written = await self._keeper.write(
                [reservation for reservations in promises.values() for reservation in reservations]
            )
        except BaseException:
            for eviction in evictions:
                self._over(eviction.pod)
            raise
        standing = {
            owner for owner, reservations in promises.items() if self._state.reservations.stands(owner, reservations)
        }
        for eviction in evictions:
            if written and eviction.by in standing:
                self._start(self._evict(self._going[eviction.pod], eviction, most_grace))
            else:
                self._over(eviction.pod)
        for uid, by in kept:
            gang = self._state.gangs_by_uid.get(uid)
            if written and by in standing and gang is not None:
                self._state.forfeit(gang)
        if not written:
            for owner in standing:
                self._state.reservations.give_up(owner)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("eviction failed unexpectedly", exc_info=failure)

    async def stop(self) -> None:
        """Start no new eviction; those already requested stay in force."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)

    async def _evict(self, gang: GangRecord, eviction: Eviction, most_grace: int, *, reserved: bool = False) -> None:
        try:
            await self._ask(gang, eviction, most_grace, reserved=reserved)
        finally:
            if eviction.pod not in self._asked:
                self._over(eviction.pod)

    async def _ask(self, gang: GangRecord, eviction: Eviction, most_grace: int, *, reserved: bool) -> None:
        """Request the eviction until the server has answered or the pod is gone. With `reserved` the room is not for
        the gang `eviction.by`, but for the reservation of that name.
        """
        pod = gang.members.get(eviction.pod)
        if pod is None:
            return  # it was deleted while the promise was written
        victim = Victim(pod.namespace, pod.name, pod.uid)
        pause, meters = _PAUSE_SECONDS, self._state.meters
        async with self._places:
            while pod.uid in self._state.pods:
                now = self._clock()
                at = datetime.fromtimestamp(now / 1e9, UTC)
                self._state.progress.evicting(pod)
                match await evict(self._client, victim, message=eviction.why, now=at, most_grace=most_grace):
                    case Evicted():
                        self._asked.add(pod.uid)
                        meters.preempted.add(gang.queue, RESERVATION if reserved else PREEMPTION)
                        self._state.progress.victims_changed(gang)
                        if not any(one.holds and one.uid not in self._asked for one in gang.members.values()):
                            self._state.start_again(gang, EVENT_PREEMPTED, eviction.why)
                        self.evictable.note(identity(gang)[0], eviction.by, now)
                        tell = self._recorder.cleared if reserved else self._recorder.preempted
                        tell(gang, pod.name, eviction.by, eviction.why, now)
                        return
                    case AlreadyGone():
                        return
                    case NotEvicted(status, message):
                        meters.evictions_declined.add(REFUSED)
                        log.warning("victim may not be evicted", pod=pod.key, status=status, error=message)
                        self._state.progress.not_evicted(pod)
                        self._state.reservations.give_up(eviction.by)
                        return
                    case TryLater(retry_after, message):
                        meters.evictions_declined.add(LATER)
                        log.info("victim not evicted yet, trying again", pod=pod.key, error=message)
                        await asyncio.sleep(max(pause, retry_after or 0.0))
                        pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
