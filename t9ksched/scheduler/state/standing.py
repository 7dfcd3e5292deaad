"""Verdicts on waiting groups that stand from pass to pass, until something changes that they read.

A verdict reads the group itself, its queue and who may use that from its namespace, which nodes its job avoids, and
sometimes the time. Of each it is known whom it concerns, so that a change costs as much as there are groups that it
concerns. Only what is seldom otherwise, such as whether starts are planned, makes all verdicts fall.
"""

from collections import defaultdict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from t9ksched.model.gang import Gang
from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.limits import control_of
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.scheduler.state.waitinglimits import NOWHERE

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

NEXT_PASS: Final = 0
"""In place of a moment: what decides may be otherwise at any time, and nothing says so."""
_STALE: Final = 1000
"""So many more moments are kept than verdicts fall by time."""


class Judgement(NamedTuple):
    """What was found of a waiting group.

    Attributes:
        gang: its snapshot for the engine; None where it may not start, for a reason that is recorded.
        again: when it is judged again although nothing of what it read changed, in nanoseconds since the epoch; None
            for never.
        alone: it is true while its owner has no other group, which may have a place.
    """

    gang: Gang | None
    again: int | None = NEXT_PASS
    alone: bool = False


class _Kept(NamedTuple):
    """A verdict that stands.

    Attributes:
        changes: the change counter of its group when it was made.
        starts: whether the group may start.
        place: queue and namespace of the group.
        owner: UID of its owner; empty without one.
        until: when it falls by time; None for never.
        alone: it falls as soon as its owner has another group.
    """

    changes: int
    starts: bool
    place: tuple[str, str]
    owner: str
    until: int | None
    alone: bool


class Standing:
    """The verdicts of a state that stand. All times are nanoseconds since the epoch, passed in."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._kept: dict[GangRecord, _Kept] = {}
        self._places: defaultdict[tuple[str, str], dict[GangRecord, None]] = defaultdict(dict)
        """The same groups by queue and namespace."""
        self._moments: list[tuple[int, int, GangRecord]] = []
        """When verdicts fall by time, as a heap; some of these do not stand any more."""
        self._numbers = 0
        """Tells apart what falls at one moment."""
        self._only: dict[str, GangRecord] = {}
        """Groups whose verdict is true while their owner has no other, by UID of that."""
        self._common: object = None
        """What all verdicts depend on."""
        self._full = NOWHERE
        """Where so many jobs wait that no more may."""
        self._unaccepted: dict[GangRecord, None] = {}
        """Groups that are not accepted, and told something else than that too many wait."""

    def __iter__(self) -> Iterator[GangRecord]:
        return iter(self._kept)

    def keep(self, record: GangRecord, verdict: Judgement) -> bool:
        """Keep a verdict that was made just now; whether it stands."""
        self.drop(record)
        if verdict.again == NEXT_PASS or (verdict.gang is None and not self._may_stand(record)):
            return False
        place, owner = (record.queue, record.namespace), record.owner.uid if record.owner is not None else ""
        self._kept[record] = _Kept(record.changes, verdict.gang is not None, place, owner, verdict.again, verdict.alone)
        self._places[place][record] = None
        if record.acceptance is None and record not in self._state.waiting_jobs.refused:
            self._unaccepted[record] = None
        if verdict.alone:
            self._only[owner] = record
        if verdict.again is not None:
            self._fall_at(verdict.again, record)
        return True

    def drop(self, record: GangRecord) -> bool:
        """The verdict on a group falls; whether it stood."""
        kept = self._kept.pop(record, None)
        if kept is None:
            return False
        those = self._places[kept.place]
        del those[record]
        if not those:
            del self._places[kept.place]
        self._unaccepted.pop(record, None)
        if kept.alone:
            self._only.pop(kept.owner, None)
        return True

    def holds(self, record: GangRecord) -> bool:
        """Whether a group that was told to have changed may start as before: then nothing changed of it that decides.
        One that may not start is judged again whatever changed of it.
        """
        kept = self._kept.get(record)
        if kept is None or not kept.starts or record.stale or kept.changes != record.changes:
            return False
        clocks = self._state.clocks.by_job
        return not (clocks and job_of(record) in clocks)

    def beside(self, record: GangRecord) -> GangRecord | None:
        """A group of the same owner that a place of this one may let start before its time."""
        other = self._only.get(record.owner.uid) if record.owner is not None else None
        return other if other is not record else None

    def may_start_on(self, record: GangRecord, queue: Queue | None) -> bool:
        """Whether the verdict on a group that was found to be one for the engine stands until something changes."""
        state = self._state
        if record.unpermitted is not None or record.kept_out is not None or record.nameless or record.unrecorded:
            return False
        if record.avoid or record.evicts_from or state.outage.away or record.asked.array:
            return False
        if state.controls and control_of(state, record) != record.control:
            return False
        if state.clocks.by_job and state.clocks.of(record) is not None:
            return False
        if queue is not None:
            return record.acceptance is not None and not queue.draining
        # It waits for its queue to be made, and is judged by its rules only then.
        awaits = record.reservation or (record.owner is not None and state.owners.awaited(record))
        told = not (record.virtual and state.foreign.held)
        return told and not record.kept and (record.acceptance is not None or not awaits)

    def _may_stand(self, record: GangRecord) -> bool:
        """Whether what was found of a group that may not start stands, as far as it is asked for before other things
        whether it may wait at all.
        """
        state = self._state
        if record.virtual and state.foreign.held:
            return False
        jobs = state.waiting_jobs
        if record.acceptance is None and record not in jobs.refused and jobs.concerns(record, self._full):
            return False
        if state.outage.away:
            return False
        return not (state.clocks.by_job and state.clocks.of(record) is not None)

    def fallen(self, now: int) -> list[GangRecord] | None:
        """The groups whose verdicts fell since the last call, because of something else than the group itself; None
        where all did.
        """
        state = self._state
        queues, namespaces = state.permissions.take_concerned()
        jobs = {**state.node_backoff.take_changed(), **state.preemption_backoff.take_changed()}
        before, self._full = self._full, state.waiting_jobs.full()
        common = (
            state.clock_jumps,
            state.outage.since is not None,
            state.outage.unread,
            state.enforced_ends.rules if state.enforced_ends is not None else None,
            state.advance.names_groups(),
        )
        if common != self._common:
            self._common = common
            for one in (self._kept, self._places, self._moments, self._only, self._unaccepted):
                one.clear()
            return None
        found: dict[GangRecord, None] = {}
        if queues or namespaces:
            for (queue, namespace), those in self._places.items():
                if queue in queues or namespace in namespaces:
                    found |= those
        for job in jobs:
            found |= dict.fromkeys(state.groups_of(job))
        if self._unaccepted and (newly := self._full.beyond(before)) is not NOWHERE:
            found |= {record: None for record in self._unaccepted if state.waiting_jobs.concerns(record, newly)}
        while (moment := self.next_moment()) is not None and moment <= now:
            found[heappop(self._moments)[2]] = None
        return [record for record in found if self.drop(record)]

    def next_moment(self) -> int | None:
        """When the next verdict falls by time; None while none does."""
        while self._moments:
            moment, _, record = self._moments[0]
            if (kept := self._kept.get(record)) is not None and kept.until == moment:
                return moment
            heappop(self._moments)
        return None

    def _fall_at(self, moment: int, record: GangRecord) -> None:
        """The verdict on the group falls at that moment."""
        self._numbers += 1
        heappush(self._moments, (moment, self._numbers, record))
        if len(self._moments) > 2 * len(self._kept) + _STALE:
            self._moments = [
                (kept.until, number, record)
                for number, (record, kept) in enumerate(self._kept.items())
                if kept.until is not None
            ]
            self._numbers = len(self._kept)
            heapify(self._moments)
