"""Running gangs as the engine sees them when it looks for victims, kept from cycle to cycle.

A cycle looks at the groups that the change feed names, and tells the engine of all: a cycle in which nothing changed
gives the same value, by which the engine knows that nothing did.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Container, Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Final

from t9ksched.engine.parted import Parted
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import Running, RunningPod
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.change_feed import Cursor
from t9ksched.scheduler.state.guarded_groups import GuardedGroups
from t9ksched.scheduler.state.objects import natural
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.start_times import age_from
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.history import PREEMPTED, History

_SECOND: Final = 1_000_000_000
_DAY_NS: Final = 86_400 * _SECOND
_ONE_EVICTION_NS: Final = 600 * _SECOND
_PAGE: Final = 1000
_GROUPS_A_SLICE: Final = 60
"""So many groups are looked at before other tasks run."""


class EvictableGangs:
    """Groups that hold places, as the engine sees them."""

    def __init__(self, state: ClusterState, leaving: Container[str], asked: Container[str] = ()) -> None:
        """`leaving` are victims that were chosen, `asked` those of them that the API server has evicted."""
        self._state = state
        self._leaving = leaving
        self._asked = asked
        self._evicted: defaultdict[str, deque[tuple[str, int]]] = defaultdict(deque)
        """By job: the preemptor that got its room, and when."""
        self._changed: Cursor[GangRecord] | None = None
        """None while nobody asks."""
        self._due: dict[GangRecord, None] = {}
        """Groups to be looked at."""
        self._known: dict[GangRecord, tuple[object, Running | None]] = {}
        """Each group as last given to the engine, with the versions on which that depends."""
        self._forgotten: list[tuple[int, str]] = []
        """When evictions do not count any more, with the jobs, as a heap."""
        self._other: dict[str, Running | None] = {}
        """By UID, what is to be told anew; None for what is no victim any more."""
        self._guarded = GuardedGroups(state.budgets, state.pods)

    def note(self, job: str, by: str, now: int) -> None:
        """A job lost a member to a preemptor. What it loses to the same one within minutes counts once."""
        times = self._evicted[job]
        if not times or times[-1][0] != by or now - times[-1][1] > _ONE_EVICTION_NS:
            times.append((by, now))
            heappush(self._forgotten, (now + _DAY_NS + 1, job))
            self._due.update(dict.fromkeys(self._state.groups_of(job)))

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

    def next_forgotten(self) -> int | None:
        """When the next eviction does not count any more; None where none counts, and while nobody asks."""
        return self._forgotten[0][0] if self._forgotten and self._changed is not None else None

    def running(self, now: int) -> Parted[Running]:
        """All of them; groups with a binding under way are left out, they may not be judged yet.

        Only groups that changed are looked at; while none did, the same value is given, which the engine knows by.
        """
        self._follow(now)
        for _ in self._steps(now):
            pass
        return self._guarded.mark({}, self._state.queues)

    def one(self, gang: GangRecord) -> Running | None:
        """One group alone, whatever disruption budgets say; None while it may not be judged."""
        return self._running(gang, 0)

    async def take_in(self, now: int) -> bool:
        """Look at the groups that changed a slice at a time, so that `running` finds few of them left; whether there
        was more than one slice, so that other tasks ran.
        """
        self._follow(now)
        paused = False
        for _ in self._steps(now):
            paused = True
            await asyncio.sleep(0)
        return paused

    def rest(self) -> None:
        """Nobody looks for victims for now: what changes is not followed."""
        if self._changed is not None:
            self._changed.close()
            self._changed = None
            self._guarded.rest()

    def _follow(self, now: int) -> None:
        """Find out which groups are to be looked at."""
        self._state.settle()
        if self._changed is None:
            self._changed = self._state.feed.holding.follow()
            self._due.update(dict.fromkeys((*self._state.gangs.values(), *self._known)))
        self._due.update(dict.fromkeys(self._changed.take()))
        while self._forgotten and self._forgotten[0][0] <= now:
            self._due.update(dict.fromkeys(self._state.groups_of(heappop(self._forgotten)[1])))

    def _steps(self, now: int) -> Iterator[None]:
        """Look at the groups that changed, and find out which of all are guarded."""
        for _ in self._look_at_due(now):
            self._hand_on()
            yield
        self._hand_on()
        yield from self._guarded.follow(self._state.queues)

    def _hand_on(self) -> None:
        other, self._other = self._other, {}
        self._guarded.take(other)

    def _look_at_due(self, now: int) -> Iterator[None]:
        """Look at these groups; it stops after some."""
        looked = 0
        for gang in list(self._due):
            if gang not in self._due:
                continue
            del self._due[gang]
            if self._look(gang, now):
                looked += 1
                if not looked % _GROUPS_A_SLICE:
                    yield

    def _look(self, gang: GangRecord, now: int) -> bool:
        """Look at one group, if something changed of what it is known by; whether that is so."""
        there = self._state.gangs.get(("", gang.uid) if gang.virtual else (gang.namespace, gang.name)) is gang
        evictions = self._recent(identity(gang)[0], now) if self._evicted and there else 0
        depends = (gang.changes, gang.uid, gang.acceptance, gang.control, evictions) if there else None
        known = self._known.pop(gang, (None, None))
        if known[0] == depends:
            if there:
                self._known[gang] = known
            return False
        found = self._running(gang, evictions) if there else None
        if known[1] is not None:
            self._other[known[1].uid] = None
        if found is not None:
            self._other[found.uid] = found
        if there:
            self._known[gang] = depends, found
        return True

    def _running(self, gang: GangRecord, evictions: int) -> Running | None:
        if not gang.uid or not gang.acceptance:
            return None
        state = self._state
        pods = state.refills.places(gang)
        succeeded: defaultdict[str, int] = defaultdict(int)
        started: list[int] = []
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
            if pod.started:
                started.append(pod.started)
        if not pods:
            return None
        return Running(
            uid=gang.uid,
            name=gang.key,
            queue=gang.queue,
            pods=tuple(pods),
            priority=gang.priority,
            created=max(gang.created, age_from(state, gang)),
            started=min(started, default=gang.first_bound),
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
