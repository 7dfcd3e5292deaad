"""Placing a gang's minimum whole: on free room, within one domain where it must be together, or why not."""

from collections.abc import Sequence

from t9ksched.engine import explain
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.nodes import Int64s
from t9ksched.engine.placement.feasibility import Mask
from t9ksched.engine.placement.pack import Attempt, place_together, wanting_company
from t9ksched.engine.placement.topology import scopes
from t9ksched.engine.scheduling_key import Ask
from t9ksched.engine.work import Effort, Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.hold import VICTIMS
from t9ksched.model.reasons import Reason


class Allocate:
    """The action `allocate`, for minima."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def place(
        self, gang: Gang, ask: Ask, members: Sequence[Member], behind: tuple[Reason, ...] | None
    ) -> Work[tuple[Reason, ...]]:
        """Commit the gang and return no reason, or leave the trial as it was and return why.

        Room that is held for a gang is not what those ahead of it wait for: nobody else may have that. Whoever is
        `behind` them may have no other.
        """
        cycle = self._cycle
        # For a gang with promised room the queue pays already: what one like it was told is not true of it.
        if ask.over_quota is not None and gang.uid not in cycle.promised and not cycle.refills.opened(gang):
            cycle.stats.alike += 1
            return ask.over_quota
        shortfalls = cycle.ledger.can_charge(gang.queue, ask.demand)
        if shortfalls:
            # Within a cycle a queue's use only grows, so gangs alike get the same answer.
            lacking = yield from explain.lacking(ask.groups)
            ask.over_quota = (explain.quota_exceeded(shortfalls), *lacking)
            return ask.over_quota
        own = cycle.held.of.get(gang.uid)
        if ask.no_room and not own:
            cycle.stats.alike += 1
            return ask.no_room
        trial = cycle.trial
        mark = start = trial.mark()
        lent: dict[int, Int64s] = {}
        nodes = None
        if own:
            for placement in own:
                trial.release(placement)
            if cycle.held.whys[gang.uid] == VICTIMS:
                victims = yield from cycle.victims()
                lent = cycle.held.lent(own, trial.free, victims.leaving, victims.certain)
            if behind is not None:
                lent, nodes = cycle.held.alone(own, trial.free, lent)
            trial.lend(lent)
            start = trial.mark()
        cycle.stats.tried += 1
        if not own and (known := cycle.recall.answer(gang, ask)) is not None:
            ask.no_room = known
            return known
        cycle.recall.failures.tried += 1
        kept = cycle.refills.nodes(gang) if nodes is None else None
        attempt = Attempt.NO_ROOM
        if kept is not None:
            attempt = yield from self._fit(gang, ask, kept)
        if attempt is not Attempt.PLACED:
            attempt = yield from self._fit(gang, ask, nodes)
        if lent:
            trial.lend({row: -room for row, room in lent.items()})
        if attempt is not Attempt.PLACED:
            reasons = behind if behind is not None else (yield from self._why(gang, ask, attempt))
            trial.undo(mark)
            if not own:
                ask.no_room = reasons
                cycle.recall.note(gang, ask, reasons)
            return reasons
        cycle.assign(gang, members, trial.since(start))
        trial.commit()
        cycle.ledger.charge(gang.queue, ask.demand)
        cycle.stats.placed += 1
        if ask.seen:
            cycle.asks.forget_rooms()  # where these pods stand may be what others wait for
        if own:
            # What it held and did not use is free again: answers given before may no longer hold.
            cycle.asks.forget_rooms()
        cycle.give_up(gang.uid)
        if kept is not None and own:
            cycle.refilled(gang.uid)
        return ()

    def _fit(self, gang: Gang, ask: Ask, nodes: Mask | None = None) -> Work[Attempt]:
        """Place the ask whole, within one domain where the gang wants that; or leave the trial as it was.

        With `nodes`, on these alone.
        """
        cycle = self._cycle
        cycle.trial.within(nodes)
        attempt = yield from self._fit_within(gang, ask, nodes, Effort())
        cycle.trial.within(None)
        return attempt

    def _fit_within(self, gang: Gang, ask: Ask, nodes: Mask | None, effort: Effort) -> Work[Attempt]:
        cycle = self._cycle
        trial, groups = cycle.trial, ask.groups
        levels: Sequence[str] = gang.levels
        worst = Attempt.NO_ROOM
        if gang.topology == "None":
            worst = yield from place_together(trial, groups, effort)
            if worst is Attempt.PLACED:
                return worst
            levels = wanting_company(groups)
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

    def _why(self, gang: Gang, ask: Ask, attempt: Attempt) -> Work[tuple[Reason, ...]]:
        """Reasons for no room; asks on the way whether it is others' promised room that is missing."""
        cycle = self._cycle
        reasons = yield from explain.no_room(ask.groups, gave_up=attempt is Attempt.GAVE_UP)
        if gang.topology == "Required":
            reasons = (explain.not_together(gang, cycle.trial, ask.groups), *reasons)
        masks = [column.mask for column, _ in ask.groups]
        others = {
            owner: held
            for owner, held in cycle.held.of.items()
            if owner != gang.uid and any(mask[placement.row] for placement in held for mask in masks)
        }
        if not others:
            return reasons
        trial = cycle.trial
        mark = trial.mark()
        for held in others.values():
            for placement in held:
                trial.release(placement)
        if (yield from self._fit(gang, ask)) is Attempt.PLACED:
            reasons = (
                explain.held_for_other((cycle.held.whys[owner] for owner in others), len(others)),
                *reasons,
            )
        trial.undo(mark)
        return reasons
