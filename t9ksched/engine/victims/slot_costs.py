"""Which candidates leave cards for pods of which several containers ask for parts: whole arrangements count, not prices
of single cards. On each node candidates go in their order until such a pod fits; then those that were not needed stay.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.card_slots import SlotNeed
from t9ksched.engine.victims.field import Field

_FEW: Final = 64
"""Of up to so many candidates each is looked at by itself; of more, the first that suffice go, and the search spares
some of them later."""


def needed_for_slots(
    field: Field, need: SlotNeed, candidates: Indices, order: Sequence[Int64s], free: Int64s, counts: Int64s
) -> tuple[Mask, Mask]:
    """As `CardCosts.needed` for one resource.

    Args:
        candidates: pods of the field on nodes that divide these cards.
        order: what decides which of them go first, the least first; for each, in this order of importance.
    """
    goes = np.zeros(len(candidates), np.bool_)
    able = np.ones(len(field.rows), np.bool_)
    if not len(candidates):
        return goes, able
    row = field.row[candidates]
    turn = np.lexsort((*reversed(order), row))
    places, begins = np.unique(row[turn], return_index=True)
    for place, mine in zip(places.tolist(), np.split(turn, begins[1:]), strict=True):
        at, wants = int(field.rows[place]), int(counts[place]) + 1
        leaves = field.freed[:, candidates[mine]]
        holds = (leaves[need.of.places] > 0).any(axis=0)
        mine, leaves = mine[holds], leaves[:, holds]
        sums = free[:, place][:, None] + np.concatenate([np.zeros((len(free), 1), np.int64), leaves.cumsum(axis=1)], 1)
        able[place] = need.room(sums[:, -1], at) >= wants
        if not able[place]:
            continue
        least, most = 0, len(mine)
        while least < most:
            middle = (least + most) // 2
            if need.room(sums[:, middle], at) >= wants:
                most = middle
            else:
                least = middle + 1
        going = list(range(least))
        left = sums[:, least]
        for one in reversed(going[:-1]) if least <= _FEW else ():
            if need.room(left - leaves[:, one], at) >= wants:
                left = left - leaves[:, one]
                going.remove(one)
        goes[mine[going]] = True
    return goes, able
