"""Carries out preemptions: the room of the victims is promised to the preemptor, then the victims are evicted.
`EvictableGangs` gives the engine the running gangs; `Evictor` has the promise written, sends the evictions and repeats
them until the API server has answered. If a victim may not be evicted the promise is withdrawn, so that the preemptor
does not wait in vain. No victim is evicted for a promise that is not written, or that was withdrawn while it was
written.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Container, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import structlog

from t9ksched.engine.planner import Eviction, Plan
from t9ksched.engine.victims.room_clearing import Leaving
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.write.eviction import AlreadyGone, Evicted, NotEvicted, TryLater, Victim, evict
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.names import EVENT_PREEMPTED
from t9ksched.model.reservation import PROMISE_SLACK_SECONDS, Reservation
from t9ksched.scheduler.act.promises import PromiseKeeper
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.guarded_groups import GuardedGroups
from t9ksched.scheduler.state.objects import natural
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.start_times import start_asked
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.history import PREEMPTED, History

log = structlog.get_logger(__name__)

_SECOND: Final = 1_000_000_000
_DAY_NS: Final = 86_400 * 1_000_000_000
_ONE_EVICTION_NS: Final = 600 * 1_000_000_000
_PAGE: Final = 1000
_IN_FLIGHT: Final = 16
_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
_WORK_A_SLICE: Final = 2000
_LOOK: Final = 20
"""The cost of examining a changed group, relative to the cost of seeing that a group has not changed."""


class EvictableGangs:
    """Groups that hold places, as the engine sees them when it looks for victims."""

    def __init__(self, state: ClusterState, leaving: Container[str], asked: Container[str] = ()) -> None:
        """`leaving` are victims that were chosen, `asked` those of them that the API server has evicted."""
        self._state = state
        self._leaving = leaving
        self._asked = asked
        self._evicted: defaultdict[str, deque[tuple[str, int]]] = defaultdict(deque)
        """By job: the preemptor that got its room, and when."""
        self._known: dict[GangRecord, tuple[object, Running | None]] = {}
        """Each group as last given to the engine, with the versions on which that depends."""
        self._guarded = GuardedGroups(state.budgets, state.pods)

    def note(self, job: str, by: str, now: int) -> None:
        """A job lost a member to a preemptor. What it loses to the same one within minutes counts once."""
        times = self._evicted[job]
        if not times or times[-1][0] != by or now - times[-1][1] > _ONE_EVICTION_NS:
            times.append((by, now))

    async def restore(self, history: History, now: int) -> None:
        """Count the preemptions of the last day from history, so that a restart does not reset the counts.

        Raises:
            StoreError: the database does not answer.
        """
        since = datetime.fromtimestamp((now - _DAY_NS) / 1e9, UTC)
        after = 0
        while page := await history.list(event=PREEMPTED, since=since, after=after, limit=_PAGE):
            after = page[-1].id
            for event in page:
                if event.uid is not None:
                    by = event.detail.get("byUid") or event.detail.get("reservation", "")
                    self.note(event.uid, str(by), int(event.at.timestamp() * 1e9))

    def running(self, now: int) -> tuple[Running, ...]:
        """All of them; groups with a binding under way are left out, they may not be judged yet.

        Only groups that changed are looked at anew; while none did, the same tuple is given, which the engine knows by.
        """
        state = self._state
        state.settle()
        known, self._known = self._known, {}
        for gang in state.gangs.values():
            self._known[gang] = self._look(gang, now, known)
        found = (one for _, one in self._known.values() if one is not None)
        return self._guarded.mark(found, state.queues)

    def one(self, gang: GangRecord) -> Running | None:
        """One group alone, whatever disruption budgets say; None while it may not be judged."""
        return self._running(gang, 0)

    async def take_in(self, now: int) -> None:
        """Examine changed groups a slice at a time, so that `running` finds few of them left."""
        self._state.settle()
        looked = 0
        for gang in list(self._state.gangs.values()):
            before = self._known.get(gang)
            self._known[gang] = found = self._look(gang, now, self._known)
            looked += _LOOK if found is not before else 1
            if looked >= _WORK_A_SLICE:
                looked = 0
                await asyncio.sleep(0)

    def _look(
        self, gang: GangRecord, now: int, known: Mapping[GangRecord, tuple[object, Running | None]]
    ) -> tuple[object, Running | None]:
        evictions = self._recent(identity(gang)[0], now) if self._evicted else 0
        depends = (gang.changes, gang.acceptance, gang.control, evictions)
        before = known.get(gang)
        if before is None or before[0] != depends:
            return depends, self._running(gang, evictions)
        return before

    def _running(self, gang: GangRecord, evictions: int) -> Running | None:
        if not gang.uid or not gang.acceptance:
            return None
        state = self._state
        pods = state.refills.places(gang)
        succeeded: defaultdict[str, int] = defaultdict(int)
        started = 0
        for pod in sorted(gang.members.values(), key=lambda pod: natural(pod.name)):
            if pod.assumed:
                return None
            if pod.phase == "Succeeded":
                succeeded[pod.role] += 1
            if not pod.node or pod.finished or pod.pod_class is None:
                continue
            charge = state.charges.get(pod.uid)
            cards = charge.cards if charge else NO_CARDS
            asked = pod.deleting or pod.uid in self._asked
            # If room is reserved for a lost member, the end of this pod frees room only for gangs that may preempt this
            # one.
            goes = asked or pod.uid in self._leaving
            kept = goes and state.refills.stays(pod)
            leaving = goes and not kept
            certain = asked or not leaving
            pods.append(RunningPod(pod.uid, pod.key, pod.role, pod.pod_class, pod.node, cards, leaving, certain, kept))
            started = min(started or pod.started, pod.started)
        if not pods:
            return None
        return Running(
            uid=gang.uid,
            name=gang.key,
            queue=gang.queue,
            pods=tuple(pods),
            priority=gang.priority,
            created=max(gang.created, start_asked(state, gang).at),
            started=started,
            min_member=gang.minimum.members,
            roles=gang.minimum.roles,
            succeeded=tuple(sorted(succeeded.items())),
            evictions=evictions,
            grace=max((pod.grace for pod in gang.members.values() if pod.node and not pod.finished), default=0)
            * _SECOND,
        )

    def _recent(self, job: str, now: int) -> int:
        times = self._evicted.get(job)
        if times is None:
            return 0
        while times and now - times[0][1] > _DAY_NS:
            times.popleft()
        if not times:
            del self._evicted[job]
        return len(times)


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
        pause = _PAUSE_SECONDS
        async with self._places:
            while pod.uid in self._state.pods:
                now = self._clock()
                at = datetime.fromtimestamp(now / 1e9, UTC)
                self._state.progress.evicting(pod)
                match await evict(self._client, victim, message=eviction.why, now=at, most_grace=most_grace):
                    case Evicted():
                        self._asked.add(pod.uid)
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
                        log.warning("victim may not be evicted", pod=pod.key, status=status, error=message)
                        self._state.progress.not_evicted(pod)
                        self._state.reservations.give_up(eviction.by)
                        return
                    case TryLater(retry_after, message):
                        log.info("victim not evicted yet, trying again", pod=pod.key, error=message)
                        await asyncio.sleep(max(pause, retry_after or 0.0))
                        pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
