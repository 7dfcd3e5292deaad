"""Changes of the columns of free room at moments to come, and how they add up on each node."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.placement.class_fit import ClassFit

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

    def __len__(self) -> int:
        return len(self.at)

    def of(self, nodes: Mask) -> Changes:
        """The changes on these nodes."""
        chosen = np.flatnonzero(nodes[self.rows])
        return self.at[chosen], self.rows[chosen], self.amounts[:, chosen]

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

    def gained(self, column: ClassFit, free: Int64s, rooms: Int64s) -> Int64s:
        """How many more pods of the class fit after each entry than before it; `free` and `rooms` are those of now."""
        after = np.full(len(self.at), _MOST)
        for resource, amount in column.needs:
            np.minimum(after, (free[resource, self.rows] + self.sums[resource]) // amount, out=after)
        np.clip(after, 0, 1 if column.ports else None, out=after)
        gained = np.empty_like(after)
        np.subtract(after[1:], after[:-1], out=gained[1:])
        gained[self.first] = after[self.first] - rooms[self.nodes]
        gained[~column.here[self.rows]] = 0
        return gained


class OwnedChanges:
    """The changes of blocks and of what was placed since, by owner; the ends of all else are not sorted again for them.

    They are joined when they are asked for: a block that is taken off is no reason to join all others again.
    """

    def __init__(self, resources: int) -> None:
        self._changes: Changes = joined(resources, [])
        self._owners: Indices = np.zeros(0, np.intp)
        """The number of the owner of each change."""
        self._new: dict[int, Changes] = {}
        self._gone: list[int] = []
        self._numbers: dict[str, int] = {}
        self._next = 0

    def add(self, owner: str, changes: Changes) -> None:
        """More changes; `remove` takes back the latest of an owner."""
        self._numbers[owner] = self._next
        self._new[self._next] = changes
        self._next += 1

    def remove(self, owner: str) -> None:
        """The changes of this owner are no longer to come."""
        number = self._numbers.pop(owner)
        if self._new.pop(number, None) is None:
            self._gone.append(number)

    def changes(self) -> Changes:
        """All of them."""
        if self._gone:
            stay = np.flatnonzero(~np.isin(self._owners, self._gone))
            at, rows, amounts = self._changes
            self._changes, self._owners = (at[stay], rows[stay], amounts[:, stay]), self._owners[stay]
            self._gone.clear()
        if self._new:
            owners = np.repeat(np.array(list(self._new), np.intp), [len(at) for at, _, _ in self._new.values()])
            self._changes = joined(len(self._changes[2]), [self._changes, *self._new.values()])
            self._owners = np.concatenate([self._owners, owners])
            self._new.clear()
        return self._changes


def joined(resources: int, parts: Sequence[Changes]) -> Changes:
    """All of these changes, of so many resources."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.intp), np.zeros((resources, 0), np.int64)
    at, rows, amounts = zip(*parts, strict=True)
    return np.concatenate(at), np.concatenate(rows), np.concatenate(amounts, axis=1)
