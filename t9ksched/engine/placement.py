"""Where the pods of a gang go, on a trial.

Pods of one class are placed together: the best node first (ties to the first by name), filled as far as its room and
the strategy go. The kinds of pods in a gang are placed hardest first; when that fails, in other orders. `pack` places
what it can; `place_together` places all or nothing.
"""

from collections.abc import Sequence
from itertools import islice, permutations
from typing import Final

import numpy as np

from t9ksched.engine.nodes import Int64s
from t9ksched.engine.trial import NEVER, ClassColumn, Trial

Group = tuple[ClassColumn, int]
"""A class and how many pods of it."""

_MANY: Final = 128
"""From so many pods on, nodes are chosen in one sweep; below, one at a time is faster."""
_ORDERS: Final = 24
"""How many orders of a gang's kinds are tried at most."""


def pack(trial: Trial, column: ClassColumn, pods: int) -> int:
    """Place up to `pods` pods; returns how many have a place now."""
    key = column.refresh()
    if not len(key):
        return 0
    if pods >= _MANY and trial.scores.monotone and not column.ports:
        return _sweep(trial, column, key, pods)
    fill = trial.scores.monotone
    left = pods
    while left:
        row = int(key.argmax())
        if key[row] == NEVER:
            break
        room = column.room(row)
        # A score that never falls stays the best, so the node is filled; else the next best is asked after each pod.
        count = min(room, left) if fill else 1
        trial.place(column, row, count)
        left -= count
        if count < room:
            key[row] = column.score(row)
        else:
            key[row] = NEVER
    column.caught_up()
    return pods - left


def _sweep(trial: Trial, column: ClassColumn, key: Int64s, pods: int) -> int:
    """`pack` for many pods: the same nodes in the same order, chosen at once."""
    rows = np.flatnonzero(key != NEVER)
    if not len(rows):
        return 0
    rows = rows[np.argsort(-key[rows], kind="stable")]
    rooms = column.rooms()[rows]
    filled = np.cumsum(np.minimum(rooms, pods))
    last = min(int(np.searchsorted(filled, pods)), len(rows) - 1)
    rows, rooms = rows[: last + 1], rooms[: last + 1].copy()
    before = int(filled[last - 1]) if last else 0
    rooms[last] = min(int(rooms[last]), pods - before)
    trial.place_many(column, rows, rooms)
    return before + int(rooms[last])


def hardness(column: ClassColumn) -> tuple[int, int]:
    """Sorts classes, least choice first: few nodes that could ever take one, then a large part of a node."""
    allocatable = column.trial.nodes.static.allocatable
    able = column.able()
    nodes = int(able.sum())
    if not nodes:
        return (0, 0)
    part = max((amount * 10**6 // int(allocatable[at][able].max()) for at, amount in column.needs), default=0)
    return (nodes, -part)


def place_together(trial: Trial, groups: Sequence[Group]) -> bool:
    """Place every pod of every group, or nothing."""
    mark = trial.mark()
    for order in islice(permutations(groups), _ORDERS):
        if all(pack(trial, column, pods) == pods for column, pods in order):
            return True
        trial.undo(mark)
        if len(groups) > 1 and any(not _alone(trial, column, pods) for column, pods in groups):
            return False
    return False


def _alone(trial: Trial, column: ClassColumn, pods: int) -> bool:
    return int(np.minimum(column.rooms(), pods).sum()) >= pods
