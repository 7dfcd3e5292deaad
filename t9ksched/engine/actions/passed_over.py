"""Gangs that surely wait, by numbers alone: they are told so without a turn.

With planned starts nearly all of a long queue is tried in each cycle and gets nothing. For gangs of one class of pods,
to which nothing but room and quota matters, numbers that are looked up say so: how many of their pods fit now, and how
many do until the gang would end, wherever the plans of others stand. What they say is what a turn would say; where they
say nothing, the gang has its turn.
"""

from typing import Final

from t9ksched.engine import explain
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.failure_memory import Answer
from t9ksched.engine.in_turn import is_plain
from t9ksched.engine.members import alike
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work, finish
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason

_A_LOOK: Final = 100
"""Units of work to look one gang up."""
_Known = tuple[SchedulingKey, Answer, ClassFit, int]
"""A key of one plain class, with its answer, the class and the number of pods."""


class PassedOver:
    """Looks gangs up, in one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._known: dict[tuple[str, int, int], _Known | None] = {}
        """By queue, identity of the class and number of pods; None where a turn is needed."""
        self._queues: dict[str, bool] = {}
        """Whether gangs of a queue may be looked up."""

    @classmethod
    def of(cls, cycle: Cycle) -> "PassedOver | None":
        """None where more than room and quota counts: reservations, windows, cards of several kinds."""
        if cycle.planned is None or cycle.advance is not None or cycle.windows.any:
            return None
        if len(cycle.trial.nodes.static.card_kinds) > 1:
            return None
        return cls(cycle)

    def reasons(self, gang: Gang) -> Work[tuple[Reason, ...]]:
        """Why the gang waits; empty if that is not known without its turn. It has no plan."""
        cycle, planned = self._cycle, self._cycle.planned
        assert planned is not None
        members = gang.waiting
        if not (gang.min_member == gang.total == len(members)) or gang.roles or gang.placed or gang.reservation:
            return ()
        if gang.topology != "None" or not members or cycle.reservations.of or cycle.reservations.missing:
            return ()
        if cycle.starving is not None and (cycle.starving.kept or cycle.starving.has(gang)):
            return ()
        if not (planned.any and self._plain(gang.queue) and alike(members)) or planned.may_plan(gang, None):
            return ()
        signature = (gang.queue, id(members[0].pod_class), len(members))
        if signature not in self._known:
            key = yield from cycle.keys.of(gang, members)
            plain = is_plain(gang, key, cycle.trial)
            self._known[signature] = (key, cycle.failures.answer(key), *key.groups[0]) if plain else None
        known = self._known[signature]
        return () if known is None else self._told(planned, gang, known)

    def _told(self, planned: PlannedStarts, gang: Gang, known: _Known) -> tuple[Reason, ...]:
        cycle = self._cycle
        key, answer, column, pods = known
        cycle.trial.meter.spent += _A_LOOK
        if answer.over_quota:
            cycle.stats.alike += 1
            return answer.over_quota
        if cycle.ledger.can_charge(gang.queue, key.demand):
            return ()
        if not planned.pays(gang, key.demand):
            return (explain.quota_planned(gang.queue),)
        ends = planned.end_of(gang, cycle.now)
        if answer.no_room and ends >= answer.from_end:
            cycle.stats.alike += 1
            return answer.no_room
        if column.total() < pods:
            answer.no_room, answer.from_end = finish(explain.no_room(key.groups)), 0
        elif planned.possible.lacks(column, pods, ends):
            answer.no_room, answer.from_end = (explain.needed_for_planned(gang),), ends
        else:
            return ()
        cycle.stats.tried += 1
        return answer.no_room

    def _plain(self, queue: str) -> bool:
        """Whether the queue's order is no promise, it is open, and its gangs evict none."""
        if queue not in self._queues:
            cycle = self._cycle
            spec = cycle.view.queues[queue].spec
            evicts = "preempt" in cycle.policy.actions and cycle.view.running and cycle.victim_queues(queue)
            self._queues[queue] = not (evicts or spec.closed or spec.ordering == "Strict")
        return self._queues[queue]
