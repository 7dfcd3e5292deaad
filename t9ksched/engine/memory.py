"""What a planner keeps between cycles; a fresh memory gives the same plans, only later."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from t9ksched.engine.gang_changes import came_and_went
from t9ksched.engine.past_failures import PastFailures
from t9ksched.engine.past_lines import PastLines
from t9ksched.engine.past_order import PastOrder
from t9ksched.engine.past_plans import PastPlans
from t9ksched.engine.past_waits import PastWaits
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.engine.placement.packing import CardPacking
from t9ksched.engine.placement.pod_affinity import PodAffinityState
from t9ksched.engine.placement.standing_pods import StandingPods
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.victims.victim_changes import followed
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, Work, finish
from t9ksched.model.gang import Running

_SECOND: Final = 1_000_000_000
_SLICE: Final = 4096
"""So many groups are looked at in one step."""
_PODS: Final = attrgetter("pods")
_QUEUE: Final = attrgetter("queue")
_LEAVING: Final = attrgetter("leaving")


class _Met(NamedTuple):
    """Running groups: how many each queue has, how many have pods that are leaving, and the queues that have any."""

    running: Sequence[Running]
    counts: Counter[str]
    leaving: int
    queues: frozenset[str]


class _OldEnough(NamedTuple):
    """When the next of the running groups of some queues is old enough to be a victim, as found at `since`."""

    running: Sequence[Running]
    queues: frozenset[str]
    seconds: int
    since: int
    at: int | None


class Memory:
    """One memory follows one live table of nodes.

    Attributes:
        feasibility: which nodes are allowed by constraint, and what else depends on the nodes' facts alone.
        plans: planned starts, and whether all goes as they expect.
        packing: the values of nodes for the pods that are usual.
        failures: what failed, and is not tried again until something it depends on has changed.
        lines: the waiting gangs of each queue in their order.
        waits: what gangs that wait were told.
        order: which gangs of strict queues may not pass others.
        waited: whether gangs waited when the latest cycle ended.
    """

    def __init__(self) -> None:
        self.feasibility = FeasibilityCache()
        self.failures = PastFailures()
        self.lines = PastLines()
        self.waits = PastWaits()
        self.order = PastOrder()
        self.waited = False
        self.plans = PastPlans()
        self.packing = CardPacking()
        self._standing, self._version, self._begun = StandingPods(), 0, 0
        self._victims: VictimTable | None = None
        self._met = _Met((), Counter(), 0, frozenset())
        self._old_enough = _OldEnough((), frozenset(), 0, 0, None)

    def standing(self, view: View, meter: Meter) -> Work[PodAffinityState | None]:
        """What rules about pods select in this view; None if no pod has rules that need it."""
        self._begun += 1
        version = self._begun
        # Another cycle may begin meanwhile, and this one may be given up: what is being changed is not left here.
        kept, self._standing = self._standing, StandingPods()
        found = yield from kept.follow(view, meter, version)
        if version > self._version:
            self._standing, self._version = kept, version
        return found

    def victims(self, running: Sequence[Running], trial: Trial) -> Work[VictimTable]:
        """The running gangs on the nodes of the trial, as columns; kept while both stay the same."""
        static, found = trial.nodes.static, self._victims
        if found is None or found.static is not static or found.worths is not trial.worths:
            found = self._victims = yield from VictimTable.of(running, static, trial.meter, trial.worths)
        elif found.source is not running:
            found = self._victims = yield from followed(found, running, trial.meter)
        return found

    def old_enough(
        self, running: Sequence[Running], trial: Trial, queues: frozenset[str], seconds: int, now: int
    ) -> Work[int | None]:
        """When the next of these gangs that got its places less than so many seconds ago is older, of those in these
        queues; None where all are. While the gangs stay the same it is looked for once, until that moment.
        """
        known = self._old_enough
        same = known.running is running and known.queues == queues and known.seconds == seconds
        if not same or now < known.since or (known.at is not None and known.at <= now):
            table = yield from self.victims(running, trial)
            at = table.old_enough(queues, seconds * _SECOND, now)
            known = self._old_enough = _OldEnough(running, queues, seconds, now, at)
        return known.at

    def meet(self, running: Sequence[Running], meter: Meter) -> Work[None]:
        """Look at groups that run, in slices, and only at those that were not met before: `queues` and `leave` say what
        was found.
        """
        before = self._met
        if before.running is running:
            return
        came, went = yield from came_and_went(before.running, running, meter)
        counts, leaving = before.counts.copy(), before.leaving
        for groups, sign in ((came, 1), (went, -1)):
            for at in range(0, len(groups), _SLICE):
                some = groups[at : at + _SLICE]
                for name, count in Counter(map(_QUEUE, some)).items():
                    counts[name] += sign * count
                leaving += sign * sum(any(map(_LEAVING, pods)) for pods in map(_PODS, some))
                meter.spent += 20 * len(some)
                yield
        counts = +counts
        self._met = _Met(running, counts, leaving, frozenset(counts))

    def queues(self, running: Sequence[Running]) -> frozenset[str]:
        """The queues of the running groups."""
        finish(self.meet(running, Meter()))
        return self._met.queues

    def leave(self, running: Sequence[Running]) -> bool:
        """Whether pods of these gangs are leaving; kept while the gangs stay the same."""
        finish(self.meet(running, Meter()))
        return self._met.leaving > 0
