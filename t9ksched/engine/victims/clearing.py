"""The search for victims on a part of the nodes: which units to evict so that a gang's groups fit there.

Where few units could go and the pods are alike, every set is looked at. Otherwise nodes are cleared one after the
other: next is the node whose best protected victim is protected least, then the one that costs the fewest pods, and of
its units those go that free most for each pod. A unit with companions elsewhere costs all of them, wherever they are.
At the end each unit that is not needed is spared, the best protected first. Where units have companions elsewhere and
pods are alike, costs are followed more closely (`one_by_one.py`).
"""

from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.victims.contest import Contest
from t9ksched.engine.victims.every_set import every_set
from t9ksched.engine.victims.field import Cleared, Field
from t9ksched.engine.victims.one_by_one import one_by_one
from t9ksched.engine.victims.sparing import spare, spare_alike
from t9ksched.engine.victims.victim_costs import VictimCosts
from t9ksched.engine.work import Meter, Work

_MOST_TURNS: Final = 4_000
"""Of more candidates than this the turns of queues of one priority are not counted out."""


def clear(field: Field, contest: Contest, must: Mask, meter: Meter) -> Work[Cleared | None]:
    """The units that go so that all that is wanted fits on the field, `must` among them; None when it cannot fit."""
    allowed = contest.units & ~must & field.helpful()
    most = field.free.copy()
    field.give(most, allowed | must)
    meter.spent += len(field.pods) + field.free.size
    yield
    if not field.fits(most):
        return None
    best = every_set(field, contest, allowed, must, meter)
    if best is not None:
        return best
    cheapest = yield from _cheapest_then(field, contest, allowed, must, meter)
    if cheapest is not None and not contest.rivals:
        return cheapest
    best = yield from _node_by_node(field, contest, allowed, must, meter, None)
    if best is None or not contest.rivals or int(contest.units.sum()) > _MOST_TURNS:
        return best
    # Shares fall with each victim, on one node too, so such units are also tried in the order of their turns.
    turns = yield from contest.turns()
    other = yield from _node_by_node(field, contest, allowed, must, meter, turns)
    for one in (other, cheapest):
        if one is not None and contest.price(one.units) < contest.price(best.units):
            best = one
        yield
    return best


def _cheapest_then(field: Field, contest: Contest, allowed: Mask, must: Mask, meter: Meter) -> Work[Cleared | None]:
    """What the search finds that knows what each node costs by then; None where that is not for it."""
    if len(field.wanted) > 1 or (contest.rivals and int(contest.units.sum()) > _MOST_TURNS):
        return None
    (one,) = field.wanted
    costs = VictimCosts(field, one, contest, allowed, None)
    if not costs.one_by_one:
        return None
    free = field.free.copy()
    field.give(free, must)
    order = yield from costs.order(free, must, meter)
    meter.spent += costs.size
    found = Cleared([], (yield from one_by_one(field, one, contest, allowed, must, free, order, meter)), free)
    yield from spare_alike(field, contest, found, must, meter)
    return found


def _node_by_node(
    field: Field, contest: Contest, allowed: Mask, must: Mask, meter: Meter, turns: Int64s | None
) -> Work[Cleared | None]:
    found = Cleared([], must.copy(), field.free.copy())
    field.give(found.free, must)
    for one in field.wanted:
        counts = np.zeros(len(field.rows), np.int64)
        found.counts.append(counts)
        costs: VictimCosts | None = None
        left = one.pods
        while left:
            rooms = np.minimum(one.rooms(found.free, counts), left)
            took = np.minimum(rooms, np.maximum(left - (np.cumsum(rooms) - rooms), 0))
            meter.spent += field.free.size
            if not took.any():
                if costs is None:
                    costs = VictimCosts(field, one, contest, allowed, turns)
                    meter.spent += costs.size
                    yield
                rows, units = yield from costs.next(found.free, counts, found.units, left, meter)
                if not len(rows):
                    return None
                field.give(found.free, units)
                found.units |= units
                took = np.zeros_like(counts)
                took[rows] = 1
                yield
            counts += took
            for at, amount in one.needs:
                found.free[at] -= amount * took
            left -= int(took.sum())
        one.take_parts(found.free, counts)
    if len(field.wanted) == 1:
        yield from spare_alike(field, contest, found, must, meter)
    else:
        yield from spare(field, contest, found, must, meter)
    return found
