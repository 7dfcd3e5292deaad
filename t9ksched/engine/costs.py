"""What it costs, in pods that have to go, to make room on each node.

Victims of a node go in a given order; the cost of a node is that of the shortest beginning of this order that makes
room for one more pod. A unit with companions elsewhere costs all of them, wherever they are.
"""

from typing import Final

import numpy as np

from t9ksched.engine.nodes import Int64s
from t9ksched.engine.tenants import Flags, Indices, Tenants
from t9ksched.engine.trial import ClassColumn

_SHARE_OF_A_ROUND: Final = 6
"""With victims on several nodes, this part of the pods still without a place is given nodes before costs are new."""

_STALE: Final = 1.25
"""When there are so many times more candidates than may still go, those who went are looked at no longer."""


class Costs:
    """What it costs, in victims, to make room for one more pod of a class on each node."""

    def __init__(self, tenants: Tenants, column: ClassColumn, allowed: Flags, order: Int64s, by_size: bool) -> None:
        self._tenants = tenants
        self._column = column
        self._allowed = allowed
        pods = np.flatnonzero(allowed[tenants.unit_of] & tenants.staying & column.here[tenants.row])
        unit, row = tenants.unit_of[pods], tenants.row[pods]
        keys = (order[unit], tenants.unit_size[unit], row) if by_size else (order[unit], row)
        pods = pods[np.lexsort(keys)]
        self._look_at(pods)
        self._order = order
        distinct = int((np.bincount(self._unit) > 0).sum()) if len(pods) else 0
        self._spread = distinct < int(self._fresh.sum()) or not tenants.simple

    def _look_at(self, pods: Indices) -> None:
        """Candidates, node after node in the order in which they go there."""
        tenants = self._tenants
        self._pods = pods
        self._unit, self._row = tenants.unit_of[pods], tenants.row[pods]
        self._freed = [tenants.freed[at][pods] for at, _ in self._column.needs]
        fresh = np.ones(len(pods), np.bool_)
        fresh[1:] = self._row[1:] != self._row[:-1]
        self._starts = np.flatnonzero(fresh)
        self._lengths = np.diff(np.append(self._starts, len(pods)))
        self._rows = self._row[self._starts]
        fresh[1:] |= self._unit[1:] != self._unit[:-1]
        self._fresh = fresh

    def next(self, free: Int64s, counts: Int64s, gone: Flags, left: int) -> tuple[Indices, Flags]:
        """The nodes to take now, one pod each, and the units that go for them."""
        tenants, column = self._tenants, self._column
        units = np.zeros_like(gone)
        if not len(self._unit):
            return self._rows[:0], units
        alive = ~gone[self._unit]
        if int(alive.sum()) * _STALE < len(alive):
            self._look_at(self._pods[alive])
            return self.next(free, counts, gone, left)
        enough = np.ones(len(alive), np.bool_)
        for (at, amount), freed in zip(column.needs, self._freed, strict=True):
            enough &= free[at][self._row] + self._running_sum(freed * alive) >= amount
        if column.ports:
            enough &= open_to(column, counts)[self._row]
        cost = self._running_sum(self._prices(gone)[self._unit] * (alive & self._fresh))
        last = np.minimum.reduceat(np.where(enough, np.arange(len(enough)), len(enough)), self._starts)
        able = np.flatnonzero(last < len(enough))
        if not len(able):
            return self._rows[:0], units
        price = cost[last[able]]
        best = able[np.lexsort((self._order[self._unit[last[able]]], price))]
        if self._spread:
            best = best[: max(1, left // _SHARE_OF_A_ROUND)]
        else:
            best = best[: min(left, int((price == price.min()).sum()))]
        here = np.zeros(len(self._starts), np.int64)
        here[best] = last[best] - self._starts[best] + 1
        position = np.arange(len(self._unit)) - np.repeat(self._starts, self._lengths)
        taken = self._unit[(position < np.repeat(here, self._lengths)) & alive]
        furthest = np.full(len(tenants.groups), -1, np.intp)
        np.maximum.at(furthest, tenants.unit_group[taken], taken)
        units = (np.arange(len(gone)) <= furthest[tenants.unit_group]) & self._allowed & ~gone
        return self._rows[best], units

    def _prices(self, gone: Flags) -> Int64s:
        """Pods that go when a unit goes: its own, and those of its gang that go before it."""
        tenants = self._tenants
        size: Int64s = np.where(self._allowed & ~gone, tenants.unit_size, 0)
        if tenants.simple:
            return size
        before: Int64s = np.cumsum(size) - size
        return before + size - before[tenants.first_unit[tenants.unit_group]]

    def _running_sum(self, values: Int64s) -> Int64s:
        """Sums from the first pod of the same node."""
        total: Int64s = np.cumsum(values)
        return total - np.repeat(total[self._starts] - values[self._starts], self._lengths)


def open_to(column: ClassColumn, counts: Int64s) -> Flags:
    """Nodes where the host ports of the class are free and no pod of it was put yet."""
    taken = [row for row in np.flatnonzero(column.mask).tolist() if column.ports_taken(row)]
    free: Flags = counts == 0
    free[taken] = False
    return free
