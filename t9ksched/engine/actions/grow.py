"""The second phase: members above a gang's minimum take what room and quota is left."""

from collections.abc import Sequence

from t9ksched.engine import explain
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.placement.pack import pack
from t9ksched.engine.placement.topology import shared
from t9ksched.engine.plan import Waiting
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
    for column, those in cycle.keys.by_class(gang.queue, members):
        yield
        request = dict(column.pod_class.requests)
        allowed = cycle.ledger.most(gang.queue, request, len(those))
        behind: tuple[Reason, ...] = ()
        if cycle.failures.strict(gang.queue):
            behind = yield from cycle.failures.behind(gang.queue, (yield from cycle.keys.get(gang.queue, those)))
        start = cycle.trial.mark()
        if behind:
            got = 0
        else:
            got = 0 if column in cycle.failures.full else (yield from pack(cycle.trial, column, allowed))
            if got < allowed and scope is None and not column.ruled:
                cycle.failures.full.add(column)
        if got:
            cycle.assign(gang, those[:got], cycle.trial.since(start))
            cycle.trial.commit()
            cycle.ledger.charge(gang.queue, {name: amount * got for name, amount in request.items()})
        if got < len(those) and not left:
            left = len(those) - got
            if behind:
                reasons = behind
            elif got < allowed:
                reasons = yield from explain.no_room([(column, left)])
            else:
                demand = {name: amount * left for name, amount in request.items()}
                reasons = (explain.quota_exceeded(cycle.ledger.can_charge(gang.queue, demand)),)
    cycle.trial.within(None)
    if left:
        cycle.short.append(Waiting(gang.uid, reasons))
