"""Points for nodes on which pods of several cards, or several pods, find cards that are linked as well as any there.

Without links a node has none. Else it has the part of `MOST` that the best links among its idle cards are of the best
links among all its cards that take work, for as many cards as the pods can use there. The points are few beside what
other scores say of nodes: they decide between nodes that suit about as well.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.card_links import part_of_best
from t9ksched.engine.cards import LinkedNodes
from t9ksched.engine.placement.scores import FULL

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit
    from t9ksched.engine.placement.trial import Trial

MOST: Final = FULL // 10
_MOST_KEPT: Final = 64
"""So many columns of points are kept in a cycle."""
Need = tuple[int, int, int]
"""Row of a card resource, cards of each pod, cards of all pods."""


class LinkScores:
    """The points of the nodes of one trial, brought up to date where pods were placed or taken back."""

    def __init__(self, trial: "Trial") -> None:
        self._trial = trial
        self._nodes = trial.nodes.static.cards.linked
        self._of = {(one.resource, row): one for one in self._nodes for row in one.rows.tolist()}
        self._widest = max(len(one.table.weights) for one in self._nodes)
        self._kept: dict[Need, tuple[Int64s, int]] = {}

    def points(self, column: "ClassFit", pods: int) -> Int64s | None:
        """What links add to the score of each node for so many pods of the class, shape (nodes,); None where nothing.
        Not to be written to.
        """
        need = self._need(column, pods)
        if need is None:
            return None
        touched = self._trial.touched
        known = self._kept.get(need)
        if known is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            points = self._everywhere(need)
        else:
            points, seen = known
            for row in set(touched[seen:]):
                points[row] = self._at(need, row)
        self._kept[need] = points, len(touched)
        return points

    def _need(self, column: "ClassFit", pods: int) -> Need | None:
        for at, each in column.card_needs:
            if any(one.resource == at for one in self._nodes):
                together = min(each * pods, self._widest)
                return (at, each, together) if together > 1 else None
        return None

    def _everywhere(self, need: Need) -> Int64s:
        points = np.zeros(len(self._trial.nodes), np.int64)
        for one in self._nodes:
            if one.resource == need[0]:
                masks, of = np.unique(self._trial.cards.idle[need[0], one.rows], return_inverse=True)
                points[one.rows] = np.array([_points(one, need, mask) for mask in masks.tolist()], np.int64)[of]
        self._trial.meter.spent += len(points)
        return points

    def _at(self, need: Need, row: int) -> int:
        one = self._of.get((need[0], row))
        return 0 if one is None else _points(one, need, self._trial.cards.idle.item(need[0], row))


def _points(one: LinkedNodes, need: Need, idle: int) -> int:
    """The points of one of these nodes when these of its cards are idle."""
    _, each, together = need
    found, best = part_of_best(one.table, idle, one.usable, each, together)
    return MOST * found // best if best else 0
