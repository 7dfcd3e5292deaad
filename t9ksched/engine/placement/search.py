"""Search for places of unlike pods, used when placing class after class failed in every order that was tried.

Pod after pod gets a place, hardest class first, on the node that it prefers or else that has least to spare; a wrong
place is taken back. The search is bounded by steps, not by time, so that it ends at the same place on every machine.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.class_keys import NEVER
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.work import Effort, Work

_MOST_PODS: Final = 1000
"""Gangs with more unlike pods are not searched."""
_MOST_STEPS: Final = 6000
_NODES: Final = 2_000_000
"""Nodes looked at in one search, about."""
_A_STEP: Final = 3_000
"""Units of work of a step, however few nodes there are."""
_SOME: Final = 8


def search(trial: Trial, groups: Sequence[tuple[ClassFit, int]], effort: Effort) -> Work[bool | None]:
    """Whether every pod has a place now, else the trial is as it was; None when the search ended at its bound."""
    pods = [column for column, count in groups for _ in range(min(count, _MOST_PODS + 1))]
    if len(pods) > _MOST_PODS:
        return None
    nodes = max(len(trial.nodes), 1)
    steps = max(min(_MOST_STEPS, _NODES // nodes, effort.left // nodes), 2 * len(pods))
    effort.left -= steps * nodes
    tree = _Tree(trial, [column for column, _ in groups], pods)
    trial.meter.spent += nodes * len(groups)
    yield from tree.prepare()
    marks = [trial.mark()]
    vain: list[set[int]] = [set()]
    ways = [tree.ways(0, vain[0])]
    while ways:
        row = next(ways[-1], None)
        if row is None:
            ways.pop()
            vain.pop()
            trial.undo(marks.pop())
            continue
        if steps <= 0:
            trial.undo(marks[0])
            return None
        steps -= 1
        trial.undo(marks[-1])
        trial.place(pods[len(ways) - 1], row, 1)
        trial.meter.spent += 2 * nodes + _A_STEP
        if len(ways) == len(pods):
            return True
        at = len(ways)
        below = set(vain[-1]) if tree.interchangeable(at) else set()
        vain[-1].add(row)
        marks.append(trial.mark())
        vain.append(below)
        ways.append(tree.ways(at, below))
        if not steps % _SOME:
            yield
    return False


class _Tree:
    """The ways on from where the search is.

    Pods of one class are alike: where one of them failed, none after it is tried. Nodes that are in
    the same state for every class are tried once.
    """

    def __init__(self, trial: Trial, columns: Sequence[ClassFit], pods: Sequence[ClassFit]) -> None:
        self._trial = trial
        self._columns = columns
        self._pods = pods
        self._alike = not any(column.ruled for column in columns)
        self._shuts = any(column.shuts for column in columns)
        self._wishes: dict[ClassFit, Int64s] = {}
        self._whole = np.maximum(trial.nodes.static.allocatable, 1)
        self._kinds = _kinds(columns)

    def prepare(self) -> Work[None]:
        """Note what each class prefers as long as no pod has a place."""
        for column in self._columns:
            if column.prefers:
                self._wishes[column] = -_wishes(column)
            yield

    def interchangeable(self, at: int) -> bool:
        """Whether a pod and the one before it may change places."""
        return self._alike and self._pods[at - 1] is self._pods[at]

    def ways(self, at: int, vain: Set[int]) -> Iterator[int]:
        """Nodes to try for a pod, without those tried in vain: first what it prefers, or what has least to spare."""
        trial, column = self._trial, self._pods[at]
        rooms = column.rooms()
        if column.ruled:
            rooms = np.where(column.affinity().allowed(), rooms, 0)
        rows = np.flatnonzero(rooms)
        spare = np.zeros(len(rows), np.int64)
        if column in self._wishes:
            spare = self._wishes[column][rows]
        else:
            for resource, amount in column.needs:
                spare += (trial.free[resource][rows] - amount) * 1000 // self._whole[resource][rows]
        excluded = frozenset(vain)
        tried: set[tuple[int, bytes]] = set()
        for row in rows[np.lexsort((rows, spare))].tolist():
            if row in excluded:
                continue
            if self._alike and not self._shuts:
                state = (self._kinds[row], trial.free[:, row].tobytes())
                if state in tried:
                    continue
                tried.add(state)
            yield row


def _kinds(columns: Sequence[ClassFit]) -> list[int]:
    """The kind of each node: those of one kind may take the same classes."""
    masks = list({id(column.mask): column.mask for column in columns}.values())
    known: dict[bytes, int] = {}
    return [known.setdefault(node.tobytes(), len(known)) for node in np.array(masks).T.copy()]


def _wishes(column: ClassFit) -> Int64s:
    """The score of each node for the first pod of a class, preferences about pods included; lowest where none fits."""
    key = column.refresh()
    preferences = column.affinity().preference_scores() if column.ruled else None
    return np.maximum(key, NEVER + 1) if preferences is None else np.where(key == NEVER, NEVER + 1, key + preferences)
