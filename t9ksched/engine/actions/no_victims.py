"""Whether a search for victims would find none for a gang that waits, as far as that is known without one."""

import numpy as np

from t9ksched.engine.actions.preempt import Preempt
from t9ksched.engine.arrays import There
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.failure_memory import Answer
from t9ksched.engine.wait_kinds import Kind, Reasons, hopeless
from t9ksched.model.gang import Gang


class NoVictims:
    """Answers, in one cycle, for gangs of queues to which victims matter; `preempt` is None where nobody evicts."""

    def __init__(self, cycle: Cycle, preempt: Preempt | None) -> None:
        self._cycle = cycle
        self._preempt = preempt
        self._reach: dict[tuple[str, int], tuple[tuple[int, int], There]] = {}
        """By queue and priority of a gang, what would be free if all left that may be evicted for it, and when that was
        so.
        """

    def found(self, kind: Kind, gang: Gang, answer: Answer, reasons: Reasons, *, paid: bool) -> bool:
        """Whether no victims are found for a gang of the kind; false where that is not known. Its queue has `paid`, or
        cannot; the search, too, answers those that ask for the same.
        """
        if hopeless(reasons):
            return True
        if (known := self._answered(gang, answer)) is not None:
            return known
        cycle = self._cycle
        assert self._preempt is not None
        if self._preempt.expects(kind.queue):
            return False
        if not cycle.victim_queues(kind.queue):
            found = not paid or self.waits_for_none_to_leave(kind)
        else:
            found = paid and not cycle.policy.preemption.minimum_run_seconds
            found = found and kind.searched == (cycle.failures.past.scene, gang.priority, kind.shared.changed)
            found = found or self._is_out_of_reach(kind, gang)
        if found:
            self._note(gang, answer)
        return found

    def found_for_collecting(self, kind: Kind, gang: Gang, answer: Answer) -> bool:
        """The same for a gang that collects room: nobody may be evicted for it, and none leaves."""
        if (known := self._answered(gang, answer)) is not None:
            return known
        cycle = self._cycle
        assert self._preempt is not None
        if self._preempt.expects(kind.queue) or cycle.victim_queues(kind.queue) or cycle.come_free() is not None:
            return False
        self._note(gang, answer)
        return True

    def waits_for_none_to_leave(self, kind: Kind) -> bool:
        """Whether by numbers there will be too little room when all pods are gone that are leaving."""
        if not kind.counted:
            return False
        there = self._cycle.come_free()
        return there is None or kind.fit_if(there) < kind.pods

    def _is_out_of_reach(self, kind: Kind, gang: Gang) -> bool:
        """Whether by numbers there would be too little room if all were evicted that may be for it."""
        if not kind.counted:
            return False
        there = self._reach_of(gang)
        if kind.in_reach is None or kind.in_reach[0] is not there:
            kind.in_reach = there, kind.fit_if(there)
        return kind.in_reach[1] < kind.pods

    def _reach_of(self, gang: Gang) -> There:
        """What would be free then; the same object as long as it is the same."""
        key, now = (gang.queue, gang.priority), (self._cycle.trial.state, len(self._cycle.evictions))
        found = self._reach.get(key)
        if found is None or found[0] != now:
            there, known = self._cycle.reach(gang), self._cycle.waits.reach.get(key)
            if known is not None and np.array_equal(known.rows, there.rows) and np.array_equal(known.free, there.free):
                there = known
            self._cycle.waits.reach[key] = there
            found = self._reach[key] = now, there
        return found[1]

    def _answered(self, gang: Gang, answer: Answer) -> bool | None:
        """Whether none were found for one like it in this cycle, and none would be for this one; None without one."""
        if not answer.no_victims or end_that_counts(self._cycle, gang) < answer.victims_from_end:
            return None
        return not (self._cycle.policy.preemption.inside_queue and gang.priority > answer.victims_priority)

    def _note(self, gang: Gang, answer: Answer) -> None:
        self._cycle.stats.searched += 1
        answer.found_no_victims(gang, end_that_counts(self._cycle, gang))


def end_that_counts(cycle: Cycle, gang: Gang) -> int:
    """When the gang would end, where what it is told may depend on that: where administrators reserve room; else 0."""
    return cycle.end_of(gang) if cycle.advance is not None else 0
