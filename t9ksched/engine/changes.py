"""Changes of the columns of free room at moments to come, and how they add up on each node."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s

_MOST: Final = np.iinfo(np.int64).max
Changes = tuple[Int64s, Indices, Int64s]
"""Moment and row of the node of each change, and by how much the columns change, shape (resources, changes)."""


class SortedChanges:
    """Changes of the columns, sorted by row of the node, then by moment; at one moment room comes free first.

    Attributes:
        at, rows: one entry a change.
        amounts: by how much each changes the columns, shape (resources, entries).
        sums: the change of the columns since now, after each entry, same shape.
        first, nodes: index of the first entry of each node, and its row.
    """

    def __init__(self, changes: Changes) -> None:
        at, rows, amounts = changes
        taken = np.any(amounts < 0, axis=0)
        self._only_grows = not taken.any()
        order = np.lexsort((at, rows) if self._only_grows else (taken, at, rows))
        self.at, self.rows = at[order], rows[order]
        self.amounts = amounts[:, order]
        sums = np.cumsum(self.amounts, axis=1)
        begins = np.ones(len(order), np.bool_)
        np.not_equal(self.rows[1:], self.rows[:-1], out=begins[1:])
        self.first = np.flatnonzero(begins)
        self.nodes = self.rows[self.first]
        before = np.zeros_like(sums)
        before[:, 1:] = sums[:, :-1]
        self.sums = sums - before[:, self.first[np.cumsum(begins) - 1]]

    def lowest(self, start: int, until: int) -> Int64s:
        """The least sum at any moment from `start` to before `until` on each of `nodes`, shape (resources, nodes)."""
        done = np.where(self.at <= start, np.arange(len(self.at)), -1)
        last = np.maximum.reduceat(done, self.first)
        low = np.where(last >= 0, self.sums[:, last], 0)
        if self._only_grows:
            return low
        inside = (self.at > start) & (self.at < until)
        if inside.any():
            np.minimum(low, np.minimum.reduceat(np.where(inside, self.sums, _MOST), self.first, axis=1), out=low)
        return low


def joined(resources: int, parts: Sequence[Changes]) -> Changes:
    """All of these changes, of so many resources."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.intp), np.zeros((resources, 0), np.int64)
    at, rows, amounts = zip(*parts, strict=True)
    return np.concatenate(at), np.concatenate(rows), np.concatenate(amounts, axis=1)
