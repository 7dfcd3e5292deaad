"""Where the pods of a gang go, on a trial.

Pods of one class are placed together: the best node first (ties to the first by name), filled as far as its room and
the strategy go. The kinds of pods in a gang are placed hardest first; when that fails, in other orders, then by
search. `pack` places what it can; `place_together` places all or nothing.
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
_LONGEST: Final = 64
"""Gangs with more pods are not searched step by step."""
_LEAST_STEPS: Final = 64
_MOST_STEPS: Final = 4000
_WORK: Final = 200_000
"""Nodes looked at in one search, about."""


def pack(trial: Trial, column: ClassColumn, pods: int) -> int:
    """Place up to `pods` pods; returns how many have a place now."""
    key = column.refresh()
    if not len(key):
        return 0
    if column.ruled:
        return _pack_ruled(trial, column, key, pods)
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


def _pack_ruled(trial: Trial, column: ClassColumn, key: Int64s, pods: int) -> int:
    """`pack` for pods with rules about pods: one at a time, as each changes what the next one may do."""
    sight = column.sight()
    for done in range(pods):
        likes = sight.likes()
        open_to = np.where(sight.allowed(), key, NEVER)
        if likes is not None:
            open_to = np.where(open_to == NEVER, NEVER, open_to + likes)
        row = int(open_to.argmax())
        if open_to[row] == NEVER:
            column.caught_up()
            return done
        trial.place(column, row, 1)
        sight.placed(row)
        key[row] = column.score(row) if column.room(row) > 0 else NEVER
    column.caught_up()
    return pods


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
    if len(groups) == 1 and not groups[0][0].ruled:
        if pack(trial, *groups[0]) == groups[0][1]:
            return True
        trial.undo(mark)
        return False
    for order in islice(permutations(groups), _ORDERS):
        if all(pack(trial, column, pods) == pods for column, pods in order):
            return True
        trial.undo(mark)
        if any(not _alone(trial, column, pods) for column, pods in groups):
            return False
    return _Search(trial, groups).found()


class _Search:
    """Tries places pod by pod and takes wrong ones back, hardest class first, as long as its patience lasts.

    Pods of one class are alike, so each goes to no better a node than the one before it; nodes that are in the same
    state for every class are tried once.
    """

    def __init__(self, trial: Trial, groups: Sequence[Group]) -> None:
        self._trial = trial
        self._columns = [column for column, _ in groups]
        self._pods = [column for column, pods in groups for _ in range(min(pods, _LONGEST + 1))]
        self._alike = not any(column.ruled for column in self._columns)
        self._steps = min(_MOST_STEPS, _LEAST_STEPS + _WORK // max(len(trial.nodes), 1))
        self._order = [
            {int(row): at for at, row in enumerate(np.argsort(-_wishes(column), kind="stable"))}
            for column in self._columns
        ]

    def found(self) -> bool:
        """Whether every pod has a place now; otherwise the trial is as it was."""
        return len(self._pods) <= _LONGEST and self._place(0, 0)

    def _place(self, at: int, first: int) -> bool:
        if at == len(self._pods):
            return True
        trial, column = self._trial, self._pods[at]
        rooms = column.rooms()
        if column.ruled:
            rooms[~column.sight().allowed()] = 0
        order = self._order[self._columns.index(column)]
        again = at + 1 < len(self._pods) and self._pods[at + 1] is column
        tried: set[tuple[object, ...]] = set()
        for row in sorted(np.flatnonzero(rooms).tolist(), key=order.__getitem__):
            if order[row] < first:
                continue
            state = (trial.free[:, row].tobytes(), *(bool(one.mask[row]) for one in self._columns))
            if self._alike and state in tried and not any(one.ports for one in self._columns):
                continue
            tried.add(state)
            if self._steps <= 0:
                return False
            self._steps -= 1
            mark = trial.mark()
            trial.place(column, row, 1)
            if self._place(at + 1, order[row] if again and self._alike else 0):
                return True
            trial.undo(mark)
        return False


def _wishes(column: ClassColumn) -> Int64s:
    """The score of each node for the first pod of a class, preferences about pods included; lowest where none fits."""
    key = column.refresh()
    likes = column.sight().likes() if column.ruled else None
    return np.maximum(key, NEVER + 1) if likes is None else np.where(key == NEVER, NEVER + 1, key + likes)


def wanting_company(groups: Sequence[Group]) -> list[str]:
    """Node labels by which pods of the groups want to be near pods of their own kind."""
    found = []
    for column, _ in groups:
        rules = column.pod_class.rules
        for term in rules.together if rules else ():
            if term in column.pod_class.counted and term.topology_key not in found:
                found.append(term.topology_key)
    return found


def _alone(trial: Trial, column: ClassColumn, pods: int) -> bool:
    return int(np.minimum(column.rooms(), pods).sum()) >= pods
