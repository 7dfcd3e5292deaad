"""Allocation of a gang's minimum, whole: on free room, within one domain if it must be together, or the reasons."""

from typing import ClassVar, Final

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.actions.action import Turn
from t9ksched.engine.actions.fit import fit, fit_as_planned, places
from t9ksched.engine.actions.make_way import make_way
from t9ksched.engine.arrays import Int64s
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.failure_memory import Answer
from t9ksched.engine.in_turn import is_plain
from t9ksched.engine.placement.pack import Attempt
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey, fewest_cards
from t9ksched.engine.wait_kinds import hopeless
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code, Reason

_MANY: Final = 128


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
        if gang.reservation and (unreserved := cycle.unreserved(gang, key.groups)) is not None:
            return (unreserved,)
        # A gang with a plan may not be looked at in a cycle that remembers it: what it is told is no answer to others.
        strict = cycle.view.queues[gang.queue].spec.ordering == "Strict"
        answer = cycle.failures.answer(key) if turn.had is None or strict else Answer()
        # The queue of a gang with promised room is charged already, so the answer to a gang like it does not apply. One
        # that collects room may have quota kept for it, from others, and one that lost members has it all the same.
        apart = cycle.starving is not None and cycle.starving.has(gang)
        apart = apart or (gang.refilling and any(cycle.ledger.kept(gang.queue)))
        if answer.over_quota and not (apart or gang.uid in cycle.promised or cycle.refills.opened(gang)):
            cycle.stats.alike += 1
            return answer.over_quota
        shortfalls = cycle.ledger.can_charge(gang.queue, key.demand, refill=gang.refilling)
        if shortfalls:
            # Within a cycle a queue's use only grows, so gangs alike get the same answer.
            lacking = yield from explain.lacking(key.groups)
            over_quota = (explain.quota_exceeded(shortfalls, fewest_cards(key.groups)), *lacking)
            if not apart:
                answer.over_quota = over_quota
            return over_quota
        own = cycle.reservations.of.get(gang.uid)
        # Its plan may be on a node where the columns lack twice what victims leave to another gang.
        due = turn.had if not own and turn.had is not None and turn.had.at <= cycle.now else None
        planned = cycle.planned if cycle.planned is not None and (due is not None or cycle.planned.any) else None
        if planned is not None and not planned.pays(gang, key.demand):
            return (explain.quota_planned(gang.queue),)
        # A gang with reserved room finds more than one like it, and so does one whose planned start is its own.
        shared = not own and turn.had is None and not (cycle.starving is not None and cycle.starving.has(gang))
        ends = cycle.end_of(gang) if planned is not None or cycle.advance is not None else 0
        if answer.no_room and shared and ends >= answer.from_end:
            cycle.stats.alike += 1
            return explain.told_to(gang, answer.no_room)
        trial = cycle.trial
        mark, state = trial.mark(), trial.state
        start = mark
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
        known = cycle.failures.known(gang, key, scarce=planned is not None) if shared else None
        if known is not None:
            answer.no_room, answer.from_end = known, ends if planned is None and _by_its_end(gang, known) else 0
            return known
        cycle.failures.past.tried += 1
        if not own and (never := (yield from _never(gang, key))):
            if shared:
                answer.no_room, answer.from_end = never, 0
                cycle.failures.note(gang, key, never, scarce=planned is not None)
            return never
        kept = cycle.refills.nodes(gang) if nodes is None else None
        if kept is None and due is not None:
            kept = np.zeros(len(trial.nodes), np.bool_)
            kept[due.room.rows] = True
        taken, scarce, crowded, futile = None, False, False, False
        if planned is not None:
            scarce = not own and due is None and not _enough(key)
            if not (scarce or own):
                yield from planned.prepare()
            if not (scarce or own or turn.had is not None or nodes is not None):
                # Most gangs that are passed over fail by what is left on a few nodes: no trial is needed to see it.
                crowded = planned.places(gang, key, cycle.now) == []
            futile = crowded or (scarce and is_plain(gang, key, trial))
            taken = None if scarce or crowded else planned.taken(gang, lends=due is not None or bool(lent))
            if taken is not None and lent:
                planned.promised.beside(taken, lent)
        elif cycle.advance is not None:
            taken = cycle.withheld(gang)
        states = trial.shift(taken) if taken is not None else (0, 0)
        attempt = Attempt.NO_ROOM
        if due is not None:
            attempt = yield from fit_as_planned(cycle, gang, key, due)
        if attempt is not Attempt.PLACED and kept is not None:
            attempt = yield from fit(cycle, gang, key, kept)
        if attempt is not Attempt.PLACED and not futile:
            attempt = yield from fit(cycle, gang, key, nodes)
        if taken is not None:
            trial.unshift(taken, states)
        if lent:
            trial.lend({row: -room for row, room in lent.items()})
        if attempt is not Attempt.PLACED and planned is not None and (taken is not None or crowded) and not own:
            attempt = yield from self._beside(planned, turn)
        if attempt is not Attempt.PLACED:
            if crowded and not turn.behind:
                # By numbers there is room for it now, and nothing else decides.
                reasons: tuple[Reason, ...] = (explain.needed_for_planned(gang),)
            else:
                reasons = turn.behind or (yield from self._why(gang, key, attempt, state, left=taken is not None))
            trial.undo(mark)
            if shared:
                # Where there is too little by numbers, planned starts had no part in it: see `FailureMemory.known`.
                by_end = not scarce and (planned is not None or _by_its_end(gang, reasons))
                answer.no_room, answer.from_end = reasons, ends if by_end else 0
                if planned is None or scarce:
                    cycle.failures.note(gang, key, reasons, scarce=scarce)
            return reasons
        placements = trial.since(start)
        cycle.assign(gang, turn.members, placements)
        trial.commit()
        cycle.ledger.charge(gang.queue, cycle.paid(key.demand, placements))
        cycle.stats.placed += 1
        if cycle.planned is not None:
            cycle.planned.started(gang, placements)
        if key.seen or own or turn.had is not None:
            # Other gangs may wait for where these pods are, and what the gang reserved and did not use is free again.
            cycle.failures.room_came_free()
        cycle.give_up(gang.uid)
        if kept is not None and own:
            cycle.refilled(gang.uid)
        return ()

    def _beside(self, planned: PlannedStarts, turn: Turn) -> Work[Attempt]:
        """Place the gang beside planned starts that are moved to other nodes, or leave the trial as it was."""
        cycle, gang, key = self._cycle, turn.gang, turn.key
        if turn.had is not None and not planned.alike(gang, key):
            return Attempt.NO_ROOM
        if not planned.possible.is_now(gang, key):
            return Attempt.NO_ROOM
        if not (yield from make_way(cycle, planned, gang, key, cycle.now)):
            return Attempt.NO_ROOM
        taken = planned.change(gang, cycle.now)
        states = cycle.trial.shift(taken)
        attempt = yield from fit(cycle, gang, key)
        cycle.trial.unshift(taken, states)
        return attempt

    def _why(
        self, gang: Gang, key: SchedulingKey, attempt: Attempt, state: int, *, left: bool
    ) -> Work[tuple[Reason, ...]]:
        """Reasons why there is no room. Also tries whether it would fit without the room that is reserved for others,
        and without what it has `left` to planned starts and to reservations by administrators.

        What is reserved for the gang itself has been given back; `state` was the trial's before that.
        """
        cycle = self._cycle
        if left:
            mark = cycle.trial.mark()
            if (yield from fit(cycle, gang, key)) is Attempt.PLACED:
                cycle.trial.undo(mark)
                withheld = cycle.withheld(gang)
                if withheld is not None and not (yield from places(cycle, gang, key, withheld)):
                    assert cycle.advance is not None
                    return (cycle.advance.denial(gang),)
                return (explain.needed_for_planned(gang),)
        within = gang.topology == "Required"
        reasons = yield from explain.no_room(key.groups, gave_up=attempt is Attempt.GAVE_UP, within=within)
        if any(reason.code == Code.NEVER_FITS for reason in reasons):
            return reasons
        if within:
            if (never := (yield from explain.never_within(gang, key.groups))) is not None:
                return (never,)
            if not hopeless(reasons):
                reasons = ((yield from explain.not_together(gang, cycle.trial, key.groups)), *reasons)
        if (kept := cycle.starving.kept_from(gang) if cycle.starving is not None else None) is not None and (
            yield from places(cycle, gang, key, kept)
        ):
            reasons = (explain.collected_for_others(), *reasons)
        return (*(yield from self._held(gang, key, state)), *reasons)

    def _held(self, gang: Gang, key: SchedulingKey, state: int) -> Work[tuple[Reason, ...]]:
        """That it would fit without the room that is reserved for others; empty where it would not."""
        trial, reservations = self._cycle.trial, self._cycle.reservations
        held, own = reservations.held, reservations.of.get(gang.uid, ())
        if not held or not held.would_fit(key.groups, own, state):
            return ()
        masks = [column.mask for column, _ in key.groups]
        others, kinds = held.others(gang.uid, masks)
        if not others:
            return ()
        found = (explain.held_for_other(kinds, others),)
        if key.plain and gang.topology == "None":
            return found
        mark = trial.mark()
        for owner, held_places in reservations.of.items():
            if owner != gang.uid and any(mask[placement.row] for placement in held_places for mask in masks):
                for placement in held_places:
                    trial.release(placement)
        attempt = yield from fit(self._cycle, gang, key)
        trial.undo(mark)
        return found if attempt is Attempt.PLACED else ()


def _never(gang: Gang, key: SchedulingKey) -> Work[tuple[Reason, ...]]:
    """Why the pods can never fit; empty where that is not known. Of few pods of one class the attempt to place them
    costs less than the proof.
    """
    ((_, pods), *others) = key.groups
    if not (others or key.ruled or pods >= _MANY):
        return ()
    if (reason := (yield from explain.never_together(key.groups))) is not None:
        return (reason,)
    if (yield from explain.alone(key.groups)):
        return (yield from explain.no_room(key.groups))
    reason = yield from explain.never_within(gang, key.groups)
    return () if reason is None else (reason,)


def _by_its_end(gang: Gang, reasons: tuple[Reason, ...]) -> bool:
    """Whether reservations by administrators keep the gang from room that it would find if it ended earlier."""
    return bool(gang.reservation) or explain.is_denial(reasons)


def _enough(key: SchedulingKey) -> bool:
    """Whether there is room for so many pods of each class now, each class alone."""
    return all(column.total() >= pods for column, pods in key.groups)
