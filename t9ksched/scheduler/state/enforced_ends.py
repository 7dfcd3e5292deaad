"""When running groups give their room back at the latest (`end_rules.py`): what planned starts rely on. Kept while
starts are planned; a change of a group costs one calculation.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from t9ksched.model.gang import ExpectedEnd
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import DurationFrom
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.end_rules import LEFT_NS, EndRules
from t9ksched.scheduler.state.records import GangRecord

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_A_STEP: Final = 200
"""Groups that are looked at in one step, about a millisecond."""


class EnforcedEnds:
    """The expected ends of running groups, and how long waiting ones hold their room once they have it.

    Args:
        start_timeout: seconds within which a bound group must run; 0 for no such limit.
        most_grace: the longest time, in seconds, that a pod gets to end.
    """

    def __init__(self, state: "ClusterState", start_timeout: int, most_grace: int) -> None:
        self._state = state
        self.rules = (start_timeout, most_grace)
        self._rules = EndRules(state, start_timeout, most_grace)
        self._gangs = state.feed.gangs.follow()
        self._clocks = state.feed.clocks.follow()
        self._ends: dict[GangRecord, ExpectedEnd] = {}
        self._passing: dict[GangRecord, None] = {}
        """Groups that were looked at because room is kept for them, or because they are gone."""
        self._lengths: dict[str, tuple[str, DurationFrom]] | None = None
        """`maxDuration` of each queue and from when it counts; None before the first look."""
        self._found: tuple[ExpectedEnd, ...] | None = None

    def close(self) -> None:
        """Follow the changes no longer."""
        self._gangs.close()
        self._clocks.close()

    def follow(self, now: int) -> Generator[None, None, tuple[ExpectedEnd, ...]]:
        """Take in what changed, in steps of about a millisecond; returns all expected ends."""
        state = self._state
        changed = dict.fromkeys(self._gangs.take()) | self._passing | dict.fromkeys(state.refills.keeping())
        self._passing.clear()
        for uid in self._clocks.take():
            changed |= dict.fromkeys(state.groups_of(uid))
        lengths = {
            name: (queue.spec.max_duration, queue.spec.max_duration_from) for name, queue in state.queues.items()
        }
        if self._lengths is None:
            changed |= dict.fromkeys(state.gangs.values())
        elif lengths != self._lengths:
            other = {name for name in lengths | self._lengths if lengths.get(name) != self._lengths.get(name)}
            changed |= {gang: None for gang in state.gangs.values() if gang.queue in other}
        self._lengths = lengths
        for count, gang in enumerate(changed, start=1):
            self._look(gang, now)
            if count % _A_STEP == 0:
                yield
        if self._found is None:
            self._found = tuple(self._ends.values())
        return self._found

    def at_once(self, now: int) -> tuple[ExpectedEnd, ...]:
        """As `follow`, without a pause: for the few that changed since."""
        steps = self.follow(now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: tuple[ExpectedEnd, ...] = end.value
                return found

    def end_of(self, gang: GangRecord) -> int | None:
        """When a running group gives its room back at the latest; None where nothing enforces it."""
        found = self._ends.get(gang)
        return None if found is None else found.at

    def next_change(self) -> int | None:
        """When pods whose PodGroup is gone are expected to end no more; None where there are none."""
        return min((gang.gone_since + LEFT_NS for gang in self._passing if not gang.uid), default=None)

    def lasts(self, gang: GangRecord) -> int:
        """How long a group that waits holds its room at most once it has it, in nanoseconds; 0 for ever."""
        return self._rules.lasts(gang)

    def _given_back(self, charge: Charge) -> PodClass:
        """What a pod leaves for others: all that it has but cards that are cordoned, for they take no new work."""
        known = self._state.node_objects.get(charge.node)
        if known is None or not (kept := charge.cards & known[1].cards.withdrawn):
            return charge.pod_class
        left = ((name, amount - kept.count(name)) for name, amount in charge.pod_class.requests)
        return self._state._sharing.intern(PodClass(tuple((name, amount) for name, amount in left if amount > 0)))

    def _look(self, gang: GangRecord, now: int) -> None:
        """Find the end of a group anew."""
        uid, holding, kept = gang.uid, self._rules.holding(gang), self._state.refills.kept_for(gang)[0]
        end = self._rules.end(gang, holding, now) if holding else None
        if kept:
            self._passing[gang] = None
            end = end if holding else self._rules.kept(gang, kept)
        elif left := self._rules.left(gang, now):
            self._passing[gang] = None
            (uid, end), holding = gang.former, left
        before = self._ends.get(gang)
        if end is None:
            if before is not None:
                del self._ends[gang]
                self._found = None
                self._state.refills.changed(gang.uid)
            return
        rooms: dict[tuple[str, PodClass], int] = {}
        parts = []
        for pod in holding:
            if (charge := self._state.charges.get(pod.uid)) is not None:
                what = charge.node, self._given_back(charge)
                rooms[what] = rooms.get(what, 0) + 1
                if charge.cards.parts:
                    parts.append((charge.node, charge.cards.divided))
        given_back = tuple((node, of, pods) for (node, of), pods in rooms.items())
        found = ExpectedEnd(uid, gang.queue, end, given_back, tuple(parts))
        if found != before:
            self._ends[gang] = found
            self._found = None
            self._state.refills.changed(gang.uid)
