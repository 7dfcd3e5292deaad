"""The second phase: members above a gang's minimum take what room and quota is left, and none of a planned start."""

from collections.abc import Mapping, Sequence

from t9ksched.engine import explain
from t9ksched.engine.arrays import Int64s
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import pack
from t9ksched.engine.placement.topology import shared
from t9ksched.engine.plan import Waiting
from t9ksched.engine.scheduling_key import fewest_cards
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang, Member
from t9ksched.model.reasons import Reason


def grow(cycle: Cycle, gang: Gang, members: Sequence[Member]) -> Work[None]:
    """Place members above the minimum, in their order, as far as room and quota go."""
    left = 0
    reasons: tuple[Reason, ...] = ()
    scope = None
    if gang.topology == "Required":
        scope = cycle.scopes.get(gang.uid)
        scope = shared(cycle.trial, gang) if scope is None else scope
    cycle.trial.within(scope)
    planned = cycle.planned if cycle.planned is not None and cycle.planned.any else None
    taken = planned.taken(gang) if planned is not None else cycle.withheld(gang)
    states = cycle.trial.shift(taken) if taken is not None else (0, 0)
    for column, those in cycle.keys.by_class(gang.queue, members):
        yield
        request = dict(column.demand)
        allowed = cycle.ledger.most(gang.queue, request, len(those))
        behind: tuple[Reason, ...] = ()
        if planned is not None and allowed and not planned.pays(gang, _times(request, allowed)):
            behind = (explain.quota_planned(gang.queue),)
        elif cycle.failures.strict(gang.queue):
            behind = yield from cycle.failures.behind(gang.queue, (yield from cycle.keys.get(gang.queue, those)))
        start = cycle.trial.mark()
        if behind:
            got = 0
        else:
            got = 0 if column in cycle.failures.full else (yield from pack(cycle.trial, column, allowed))
            if got < allowed and scope is None and not column.ruled and taken is None:
                cycle.failures.full.add(column)
        if got:
            placements = cycle.trial.since(start)
            cycle.assign(gang, those[:got], placements)
            cycle.trial.commit()
            if cycle.planned is not None:
                cycle.planned.started(gang, placements)
            cycle.ledger.charge(gang.queue, cycle.paid(_times(request, got), placements))
        if got < len(those) and not left:
            left = len(those) - got
            if behind:
                reasons = behind
            elif got < allowed and taken is not None and column.rooms(cycle.trial.free - taken).any():
                reasons = (_left_to(cycle, gang, column, taken),)
            elif got < allowed:
                reasons = yield from explain.no_room_above(gang, column, left)
            else:
                shortfalls = cycle.ledger.can_charge(gang.queue, _times(request, left))
                reasons = (explain.quota_exceeded(shortfalls, fewest_cards([(column, left)])),)
    cycle.trial.within(None)
    if taken is not None:
        cycle.trial.unshift(taken, states)
    if left:
        cycle.short.append(Waiting(gang.uid, reasons))


def _left_to(cycle: Cycle, gang: Gang, column: ClassFit, taken: Int64s) -> Reason:
    """Why the gang leaves room that is free to others; `taken` is all that it leaves, off the columns of the trial."""
    withheld = cycle.withheld(gang)
    if cycle.advance is None or withheld is None or column.rooms(cycle.trial.free - taken + withheld).any():
        return explain.needed_for_planned(gang)
    return cycle.advance.denial(gang)


def _times(request: Mapping[str, int], pods: int) -> dict[str, int]:
    return {name: amount * pods for name, amount in request.items()}
