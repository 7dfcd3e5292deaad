"""When time alone may let a plan find otherwise: gangs that run or wait become old enough for a rule of the policy.

With a minimum run time a gang that has just got its places is no victim yet; with rules for starving gangs one that has
just come collects no room yet. On a cluster where nothing else happens a plan is to be made again once they are.
"""

from collections.abc import Mapping, Sequence

from t9ksched.engine.cycle import Cycle
from t9ksched.engine.plan import Waiting
from t9ksched.engine.work import Work


def next_of_age(cycle: Cycle, staying: Mapping[str, Sequence[Waiting]]) -> Work[int | None]:
    """The first such moment after now, in nanoseconds since the epoch; `staying` are the gangs that wait, by queue."""
    moments = [cycle.starving.next if cycle.starving is not None else None]
    rules = cycle.policy.preemption
    if rules.minimum_run_seconds and "preempt" in cycle.policy.actions:
        known = cycle.view.queues
        waiting = [name for name, gangs in staying.items() if gangs and name in known]
        # Members above the minima of their own queue's gangs yield however young they are.
        spared = [cycle.victim_queues(name) - (set() if rules.inside_queue else {name}) for name in waiting]
        if queues := frozenset[str]().union(*spared):
            moments.append((yield from cycle.old_enough(queues)))
    return min((moment for moment in moments if moment is not None), default=None)
