"""How much more a usual pod weighs that may run on some nodes only: those that have a choice should go elsewhere.

Pods that could go anywhere do no harm there while there is more room than what may run nowhere else asks for. So what
counts is the pressure: of all that is asked for, the part that may be nowhere but there, beside the part of the cards
that are there.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask

PLACES: Final = 16
"""Binary places of what `crowding` tells, of a pressure, and of a root."""


def crowding(asked: Sequence[int], allowed: Mask, cards: Int64s) -> list[int]:
    """How much more each shape of pods weighs, in whole numbers: 1 << PLACES is 1, and the least.

    From a pressure of 1 on it is the root of how few of the cards are on nodes that may run such a pod; below, as much
    of that root as there is pressure. What may run everywhere weighs 1.

    Args:
        asked: what all pods of each shape ask for, in any unit.
        allowed: nodes that may run such a pod, shape (nodes, shapes).
        cards: what each node has, shape (nodes,).
    """
    if not len(asked):
        return []
    whole, one = int(cards.sum()), 1 << PLACES
    rooms = (allowed.T @ cards).tolist()
    asked = [amount if room else 0 for amount, room in zip(asked, rooms, strict=True)]
    inside = (_nowhere_else(allowed) @ np.array(asked, object)).tolist()
    found = []
    for within, room in zip(inside, rooms, strict=True):
        pressure = (int(within) * whole << PLACES) // max(sum(asked) * room, 1)
        root = isqrt((whole << 2 * PLACES) // max(room, 1))
        found.append(one + ((root - one) * min(pressure, one) >> PLACES))
    return found


def _nowhere_else(allowed: Mask) -> Mask:
    """For each shape the shapes that may run only where it may, itself too; shape (shapes, shapes)."""
    rows = np.packbits(allowed, axis=1)
    packed, size = rows.tobytes(), rows.shape[1]
    # Many nodes are of few kinds.
    some = b"".join({packed[at : at + size] for at in range(0, len(packed), size)})
    kinds = np.unpackbits(np.frombuffer(some, np.uint8).reshape(-1, size), axis=1, count=allowed.shape[1])
    found: Mask = (1 - kinds.astype(np.int64)).T @ kinds == 0
    return found
