"""How many pods of a gang fit, beside the numbers of its kind: on some nodes room is kept for it that no other finds.

Such room was promised to it when victims were evicted, or it collects it because it has waited for long.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.wait_kinds import Kind


class OwnNumbers(NamedTuple):
    """How many of a gang's pods fit with its own room free, and on how many nodes; and the most that is free on one
    node, in the order of the class's needs.
    """

    fit: int
    able: int
    best: tuple[int, ...]


def with_own(kind: Kind, free: Int64s, own: Mapping[int, Sequence[int]]) -> OwnNumbers:
    """The numbers for a gang of the kind if this much more is free, by row of the node; `free` is what is free now,
    shape (resources, nodes).
    """
    level = kind.shared.level()
    best = [level[at] for at, _ in kind.needs]
    fit, able, pods, needs = kind.fit, kind.able, kind.pods, kind.needs
    for row, amounts in own.items():
        now = free[:, row].tolist()
        mine = list(map(int.__add__, now, amounts))
        there, here = room_for(needs, now, pods), room_for(needs, mine, pods)
        fit += here - there
        able += (here > 0) - (there > 0)
        best = [max(one, mine[at]) for one, (at, _) in zip(best, needs, strict=True)]
    return OwnNumbers(fit, able, tuple(best))


def room_for(needs: Sequence[tuple[int, int]], free: Sequence[int], pods: int) -> int:
    """How many of so many pods fit where that is free."""
    room = min([free[at] // units for at, units in needs], default=LARGEST)
    return max(0, min(room, pods))
