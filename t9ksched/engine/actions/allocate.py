"""Allocation of a gang's minimum, whole: on free room, within one domain if it must be together, or the reasons."""

from collections.abc import Sequence
from typing import ClassVar

from t9ksched.engine import explain
from t9ksched.engine.actions.action import Turn
from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.placement.pack import Attempt, own_affinity_keys, place_together
from t9ksched.engine.placement.topology import scopes
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Effort, Work
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason


class Allocate:
    """The action `allocate`."""

    needs: ClassVar[str] = "allocate"

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def attempt(self, turn: Turn) -> Work[bool]:
        """Commit the gang, or leave the trial as it was and say why.

        Room that is reserved for a gang is not what gangs ahead of it wait for: no other gang may use it.
        """
        turn.reasons = yield from self._place(turn)
        return not turn.reasons

    def _place(self, turn: Turn) -> Work[tuple[Reason, ...]]:
        cycle, gang, key = self._cycle, turn.gang, turn.key
        answer = cycle.failures.answer(key)
        # The queue of a gang with promised room is charged already, so the answer to a gang like it does not apply.
        if answer.over_quota and gang.uid not in cycle.promised and not cycle.refills.opened(gang):
            cycle.stats.alike += 1
            return answer.over_quota
        shortfalls = cycle.ledger.can_charge(gang.queue, key.demand)
        if shortfalls:
            # Within a cycle a queue's use only grows, so gangs alike get the same answer.
            lacking = yield from explain.lacking(key.groups)
            answer.over_quota = (explain.quota_exceeded(shortfalls), *lacking)
            return answer.over_quota
        own = cycle.reservations.of.get(gang.uid)
        if answer.no_room and not own:
            cycle.stats.alike += 1
            return answer.no_room
        trial = cycle.trial
        mark = start = trial.mark()
        lent: dict[int, Int64s] = {}
        nodes = None
        if own:
            for placement in own:
                trial.release(placement)
            if cycle.reservations.comes_free(gang.uid):
                victims = yield from cycle.victims()
                lent = cycle.reservations.lent(own, trial.free, victims.leaving, victims.certain)
            if turn.behind:
                lent, nodes = cycle.reservations.alone(own, trial.free, lent)
            trial.lend(lent)
            start = trial.mark()
        cycle.stats.tried += 1
        if not own and (known := cycle.failures.known(gang, key)) is not None:
            answer.no_room = known
            return known
        cycle.failures.past.tried += 1
        kept = cycle.refills.nodes(gang) if nodes is None else None
        attempt = Attempt.NO_ROOM
        if kept is not None:
            attempt = yield from self._fit(gang, key, kept)
        if attempt is not Attempt.PLACED:
            attempt = yield from self._fit(gang, key, nodes)
        if lent:
            trial.lend({row: -room for row, room in lent.items()})
        if attempt is not Attempt.PLACED:
            reasons = turn.behind or (yield from self._why(gang, key, attempt))
            trial.undo(mark)
            if not own:
                answer.no_room = reasons
                cycle.failures.note(gang, key, reasons)
            return reasons
        cycle.assign(gang, turn.members, trial.since(start))
        trial.commit()
        cycle.ledger.charge(gang.queue, key.demand)
        cycle.stats.placed += 1
        if key.seen or own:
            # Other gangs may wait for where these pods are, and what the gang reserved and did not use is free again.
            cycle.failures.room_came_free()
        cycle.give_up(gang.uid)
        if kept is not None and own:
            cycle.refilled(gang.uid)
        return ()

    def _fit(self, gang: Gang, key: SchedulingKey, nodes: Mask | None = None) -> Work[Attempt]:
        """Place the members whole, within one domain if the gang asks for that; or leave the trial as it was.

        With `nodes`, on these alone.
        """
        cycle = self._cycle
        cycle.trial.within(nodes)
        attempt = yield from self._fit_within(gang, key, nodes, Effort())
        cycle.trial.within(None)
        return attempt

    def _fit_within(self, gang: Gang, key: SchedulingKey, nodes: Mask | None, effort: Effort) -> Work[Attempt]:
        cycle = self._cycle
        trial, groups = cycle.trial, key.groups
        levels: Sequence[str] = gang.levels
        worst = Attempt.NO_ROOM
        if gang.topology == "None":
            worst = yield from place_together(trial, groups, effort)
            if worst is Attempt.PLACED:
                return worst
            levels = own_affinity_keys(groups)
        for nth, scope in enumerate(scopes(trial, groups, levels, gang.nodes)):
            if nth and effort.left <= 0:
                worst = Attempt.GAVE_UP
                break
            yield
            trial.within(scope if nodes is None else scope & nodes)
            attempt = yield from place_together(trial, groups, effort)
            trial.within(nodes)
            if attempt is Attempt.PLACED:
                cycle.scopes[gang.uid] = scope
                return attempt
            if attempt is Attempt.GAVE_UP:
                worst = attempt
        if gang.topology == "Preferred":
            return (yield from place_together(trial, groups, Effort()))
        return worst

    def _why(self, gang: Gang, key: SchedulingKey, attempt: Attempt) -> Work[tuple[Reason, ...]]:
        """Reasons why there is no room. Also tries whether it would fit without the room that is reserved for
        others.
        """
        cycle = self._cycle
        reasons = yield from explain.no_room(key.groups, gave_up=attempt is Attempt.GAVE_UP)
        if gang.topology == "Required":
            reasons = (explain.not_together(gang, cycle.trial, key.groups), *reasons)
        masks = [column.mask for column, _ in key.groups]
        others = {
            owner: held
            for owner, held in cycle.reservations.of.items()
            if owner != gang.uid and any(mask[placement.row] for placement in held for mask in masks)
        }
        if not others:
            return reasons
        trial = cycle.trial
        mark = trial.mark()
        for held in others.values():
            for placement in held:
                trial.release(placement)
        if (yield from self._fit(gang, key)) is Attempt.PLACED:
            reasons = (
                explain.held_for_other((cycle.reservations.kinds[owner] for owner in others), len(others)),
                *reasons,
            )
        trial.undo(mark)
        return reasons
