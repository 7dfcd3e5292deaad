"""Gangs that surely wait, by numbers alone: they are told so without a turn.

With planned starts nearly all of a long queue is tried in each cycle and gets nothing. For gangs of one class of pods,
to which nothing but room and quota matters, numbers that are looked up say so: how many of their pods fit now, and how
many do until the gang would end, wherever the plans of others stand. What they say is what a turn would say; where they
say nothing, the gang has its turn.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from t9ksched.engine import explain
from t9ksched.engine.actions.one_kind import takes_several
from t9ksched.engine.actions.told_again import ToldAgain
from t9ksched.engine.blocks import end_of
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.failure_memory import Answer
from t9ksched.engine.in_turn import is_plain
from t9ksched.engine.members import alike
from t9ksched.engine.order import Line
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.wait_kinds import Kind
from t9ksched.engine.work import Work, finish
from t9ksched.model.gang import Gang
from t9ksched.model.quantity import CARDS
from t9ksched.model.reasons import Reason

_A_GANG: Final = 500
"""Units of work to look one gang up."""
_TO_LEARN: Final = 10_000
"""The same to remember it."""
State = tuple[int, int, int]


class _Alike(msgspec.Struct):
    """Gangs of one queue and one plain class of pods, so many each."""

    key: SchedulingKey
    answer: Answer
    column: ClassFit
    pods: int


class PassedOver:
    """Looks gangs up, in one cycle."""

    def __init__(self, cycle: Cycle, told_again: ToldAgain | None) -> None:
        self._cycle = cycle
        self._told_again = told_again
        self._known: dict[tuple[str, int, int], _Alike | None] = {}
        """By queue, identity of the class and number of pods; None where a turn is needed. Gangs of two queues are told
        what was free when the first of each was asked, which may differ.
        """
        self._answers: dict[Kind, Answer] = {}
        """The answers of this cycle to those that ask for as much as a kind."""
        self._queues: dict[str, bool] = {}
        self._left: dict[str, tuple[State, list[tuple[str, int]]]] = {}
        """What queues can pay for however long, by queue, with the state that this is true of."""
        self._paid: dict[SchedulingKey, tuple[State, int]] = {}
        """Until when the queue of a key can pay for it, with the state that this is true of."""

    @classmethod
    def of(cls, cycle: Cycle, told_again: ToldAgain | None) -> "PassedOver | None":
        """None where more than room and quota counts: reservations, windows."""
        if cycle.planned is None or cycle.advance is not None or cycle.windows.any:
            return None
        return cls(cycle, told_again)

    def told(self, line: Line) -> Work[list[tuple[Gang, tuple[Reason, ...]]]]:
        """The gangs at the head of a queue's line that surely wait, taken out of it, and why each does.

        It ends at the first of which that is not known without its turn. None of them has a plan; it is the turn of
        their queue.
        """
        found: list[tuple[Gang, tuple[Reason, ...]]] = []
        cycle, planned = self._cycle, self._cycle.planned
        if planned is None or not planned.any or cycle.reservations.of or cycle.reservations.missing:
            return found
        starving, meter = cycle.starving, cycle.trial.meter
        numbers = self._told_again if self._told_again is not None and self._told_again.follow() else None
        while line:
            gang = line.best()
            if not self._looks_up(gang.queue) or not _is_simple(gang) or planned.may_plan(gang, None):
                break
            # Once the column of its class is there for other gangs, a look at that costs no more.
            new = not cycle.keys.knows(gang.queue, gang.waiting[0].pod_class)
            collects = starving is not None and starving.has(gang)
            reasons = self._by_kind(planned, gang, numbers) if numbers is not None and (new or collects) else ()
            if not (reasons or collects):
                reasons = yield from self._by_key(planned, gang, numbers if new else None)
            if not reasons:
                break
            found.append((line.pop(), reasons))
            meter.spent += _A_GANG
            if meter.due():
                yield
        return found

    def _by_kind(self, planned: PlannedStarts, gang: Gang, numbers: ToldAgain) -> tuple[Reason, ...]:
        """What the gang is told by numbers that are followed from cycle to cycle; empty where they do not say it."""
        cycle, kind = self._cycle, numbers.kind_of(gang)
        if kind is None or cycle.victims_matter(gang.queue) or not (numbers.is_latest and numbers.looks_up(gang.queue)):
            return ()
        if not self._pays_always(planned, gang.queue, kind.demand):
            return ()
        if cycle.starving is not None and cycle.starving.has(gang):
            if told := numbers.collecting.told(gang, cycle.starving, evicts=False):
                numbers.collecting.count((told,))
            return told
        if not (kind.fixed or (kind.counted and kind.alone)):
            return ()
        answer, ends = self._answers.get(kind), end_of(gang, cycle.now)
        if answer is None:
            answer = self._answers[kind] = cycle.failures.answer_to(kind.ident)
        if answer.no_room:
            # Gangs that are alike are told what was free when the first of them was asked.
            cycle.stats.alike += ends >= answer.from_end
            return explain.told_to(gang, answer.no_room) if ends >= answer.from_end else ()
        answer.no_room, answer.from_end = numbers.room.no_room(kind), 0
        if answer.no_room:
            kind.cycle = numbers.number
            cycle.stats.tried += 1
            cycle.failures.past.spared += 1
        return answer.no_room

    def _by_key(self, planned: PlannedStarts, gang: Gang, numbers: ToldAgain | None) -> Work[tuple[Reason, ...]]:
        """What the gang is told by numbers that are looked up; empty where its turn says so. With `numbers` these
        are remembered.
        """
        cycle, signature = self._cycle, (gang.queue, id(gang.waiting[0].pod_class), len(gang.waiting))
        if signature not in self._known:
            key = yield from cycle.keys.of(gang, gang.waiting)
            plain = is_plain(gang, key, cycle.trial)
            plain = plain and not takes_several(cycle, gang.waiting[0].pod_class, gang.queue)
            self._known[signature] = _Alike(key, cycle.failures.answer(key), *key.groups[0]) if plain else None
        known = self._known[signature]
        if known is None or (yield from self._may_count_on_leaving(gang, known.key)):
            return ()
        reasons: tuple[Reason, ...] | None = ()
        if not self._pays_always(planned, gang.queue, known.key.demand):
            reasons = self._over_quota(planned, gang, known)
        if reasons is None:
            return ()
        reasons = reasons or self._without_room(planned, gang, known)
        if reasons and numbers is not None:
            numbers.learning.learn(gang, known.key, reasons)
            cycle.trial.meter.spent += _TO_LEARN
        yield
        return reasons

    def _may_count_on_leaving(self, gang: Gang, key: SchedulingKey) -> Work[bool]:
        """Whether the gang may come to count on the room of pods that are leaving: others find less then."""
        cycle = self._cycle
        return cycle.victims_matter(gang.queue) and (yield from cycle.within_reach(gang, key))

    def _state(self, planned: PlannedStarts) -> State:
        """Another one after each change of what queues pay for."""
        return self._cycle.stats.placed, self._cycle.stats.preempted, planned.version

    def _pays_always(self, planned: PlannedStarts, queue: str, demand: Mapping[str, int]) -> bool:
        """Whether the queue surely has the quota for this, now and however long it is."""
        state = self._state(planned)
        known = self._left.get(queue)
        if known is None or known[0] != state:
            known = self._left[queue] = state, planned.charges.left(queue)
        return all(resource != CARDS and demand.get(resource, 0) <= left for resource, left in known[1])

    def _over_quota(self, planned: PlannedStarts, gang: Gang, known: _Alike) -> tuple[Reason, ...] | None:
        """What a gang is told whose queue cannot pay for it; empty where it can, None where its turn says so."""
        cycle, key = self._cycle, known.key
        if known.answer.over_quota:
            cycle.stats.alike += 1
            return known.answer.over_quota
        state = self._state(planned)
        paid = self._paid.get(key)
        if paid is None or paid[0] != state:
            if cycle.ledger.can_charge(gang.queue, key.demand):
                return None
            paid = self._paid[key] = state, planned.charges.pays_until(gang.queue, key.demand)
        return () if end_of(gang, cycle.now) <= paid[1] else (explain.quota_planned(gang.queue),)

    def _without_room(self, planned: PlannedStarts, gang: Gang, known: _Alike) -> tuple[Reason, ...]:
        """Why there is no room for the gang, whose queue can pay; empty if that is not known without its turn."""
        cycle = self._cycle
        answer, ends = known.answer, end_of(gang, cycle.now)
        if answer.no_room and ends >= answer.from_end:
            cycle.stats.alike += 1
            return explain.told_to(gang, answer.no_room)
        kept = cycle.starving.kept_from(gang) if cycle.starving is not None else None
        if known.column.total() < known.pods:
            reasons = finish(explain.no_room(known.key.groups))
            if kept is not None and int(known.column.rooms(cycle.trial.free + kept).sum()) >= known.pods:
                reasons = (explain.collected_for_others(), *reasons)
            answer.no_room, answer.from_end = reasons, 0
        elif kept is not None:
            return ()
        elif planned.possible.lacks(known.column, known.pods, ends):
            answer.no_room, answer.from_end = (explain.needed_for_planned(gang),), ends
        else:
            return ()
        cycle.stats.tried += 1
        return answer.no_room

    def _looks_up(self, queue: str) -> bool:
        """Whether gangs of the queue are looked up: its order is no promise, it is open, and its gangs evict none."""
        if queue not in self._queues:
            cycle = self._cycle
            spec = cycle.view.queues[queue].spec
            evicts = "preempt" in cycle.policy.actions and cycle.view.running and cycle.victim_queues(queue)
            self._queues[queue] = not (evicts or spec.closed or spec.ordering == "Strict")
        return self._queues[queue]


def _is_simple(gang: Gang) -> bool:
    """Whether all pods of the gang wait, and are of one class, and it wants nothing but room."""
    members = gang.waiting
    if not members or not (gang.min_member == gang.total == len(members)):
        return False
    return not (gang.roles or gang.placed or gang.reservation) and gang.topology == "None" and alike(members)
