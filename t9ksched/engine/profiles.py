"""The free room of each node from now on, as steps: from which moment on how much is free.

The steps of a node are sorted, and next to each other, with spare places behind them: a plan that comes or goes is
written on its own nodes only, and what is known of a class of pods (`class_steps.py`) follows there only. All moments
are nanoseconds since the epoch.
"""

from collections.abc import Collection, Generator, Mapping
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask, distinct
from t9ksched.engine.changes import Changes

NOW: Final = -1
"""The owner of the first step of each node, which begins now."""
SPARE: Final = -2
"""The owner of a place that no step is in."""
_NEVER: Final = np.iinfo(np.int64).max
_ROOM: Final = 4
"""So many spare places each node has at first."""
_SLICE: Final = 2_048
"""After so many steps others may have their turn."""
_MANY_ROWS: Final = 4
"""One in so many nodes changed: what is known of classes is made anew."""


class Profiles:
    """The steps of all nodes.

    Args:
        free: free room now, shape (resources, nodes).
        rows: of the nodes of changes that are to come, one a change: there are places for these from the beginning.

    Attributes:
        free: what is free now, shape (resources, nodes).
        at, until: from when to before when a step holds, shape (places,); spare places hold never.
        rows: its node.
        left: what is free then, shape (resources, places).
        owners: whose change it begins with.
        slots: the number of the moment at which it begins.
        version: another one after each change.
    """

    def __init__(self, free: Int64s, now: int, rows: Indices) -> None:
        resources, nodes = free.shape
        self.now = now
        self.version = 0
        self.free = free.copy()
        sizes = np.bincount(rows, minlength=nodes) + 1
        self._sizes = np.ones(nodes, np.intp)
        self._places = sizes + _ROOM
        ends = np.cumsum(self._places)
        self._begins: Indices = ends - self._places
        self._used = int(ends[-1]) if nodes else 0
        places = self._used + self._used // 4
        self.at = np.full(places, _NEVER, np.int64)
        self.until = np.full(places, _NEVER, np.int64)
        self.rows: Indices = np.zeros(places, np.intp)
        self.left = np.zeros((resources, places), np.int64)
        self.owners: Indices = np.full(places, SPARE, np.intp)
        self.slots: Indices = np.zeros(places, np.intp)
        self.at[self._begins] = now
        self.rows[: self._used] = np.repeat(np.arange(nodes), self._places)
        self.left[:, self._begins] = free
        self.owners[self._begins] = NOW
        self._moment = np.array([now], np.int64)
        """Each moment by its number; that of now is 0."""
        self._count = np.array([nodes + 1], np.int64)
        """How many steps begin then, by number; one more for now, so that it stays."""
        self._order: Indices = np.zeros(1, np.intp)
        """The numbers of the moments at which steps begin, in the order of these."""
        self.moments = self._moment
        """These moments, sorted."""
        self._journal: list[Indices] = []
        """The places that each change wrote to."""
        self._asked = -1
        """The version in which `over` was asked last."""
        self._least: int | None = None
        """The least of all that is left in it; None where it is not known."""
        self._whole = 0
        """Changes before this one are too large, or too long ago, to be followed place by place."""

    def change(
        self, free: Int64s | None, gone: Mapping[int, Changes], came: Changes, owners: Indices
    ) -> Generator[int, None, None]:
        """So much is free now, None for no change; the changes of some owners are no more; others came, of `owners`,
        a number from 0 on for each of these changes.

        It is done in slices of nodes: after each, the number of places that it wrote. Read nothing before the last one.
        """
        where = np.zeros(len(self._begins), np.bool_)
        if free is not None:
            where = np.any(free != self.free, axis=0)
            self.free[:, where] = free[:, where]
        for _, rows, _ in gone.values():
            where[rows] = True
        at, rows, amounts = came
        where[rows] = True
        dirty = np.flatnonzero(where)
        if not len(dirty):
            return
        written = []
        in_all = int(self._sizes[dirty].sum()) + len(rows)
        if in_all <= _SLICE:
            written.append(self._update(dirty, gone, came, owners))
            yield in_all
        else:
            work = np.cumsum(self._sizes[dirty] + np.bincount(rows, minlength=len(where))[dirty])
            cuts = np.flatnonzero(np.diff(work // _SLICE)) + 1
            order = np.argsort(rows)
            begins = np.searchsorted(rows[order], dirty[cuts])
            spent = np.append(work[cuts - 1], work[-1]) - np.append(0, work[cuts - 1])
            slices = zip(np.split(dirty, cuts), np.split(order, begins), spent.tolist(), strict=True)
            for nodes, chosen, places in slices:
                part = at[chosen], rows[chosen], amounts[:, chosen]
                written.append(self._update(nodes, gone, part, owners[chosen]))
                yield places
        self.version += 1
        if len(dirty) * _MANY_ROWS > len(self._begins):
            self._journal.clear()
            self._whole = self.version
        else:
            self._journal.append(written[0] if len(written) == 1 else distinct(np.concatenate(written)))

    def segment(self, row: int) -> slice:
        """The places of the steps of a node."""
        begin = int(self._begins[row])
        return slice(begin, begin + int(self._sizes[row]))

    def places(self, rows: Indices) -> Indices:
        """The places of the steps of these nodes, node by node."""
        return _ranges(self._begins[rows], self._sizes[rows])

    def sizes(self, rows: Indices) -> Indices:
        """How many steps each of these nodes has."""
        return self._sizes[rows]

    def since(self, version: int) -> Indices | None:
        """The places that changed since that version; None for all."""
        if version < self._whole:
            return None
        parts = self._journal[version - self._whole :]
        return parts[0] if len(parts) == 1 else distinct(np.concatenate(parts))

    def sums(self, by_number: Int64s) -> Int64s:
        """Sums over time, at `moments`, of amounts that are given by number of the moment."""
        sums: Int64s = np.cumsum(by_number[self._order])
        return sums

    @property
    def numbers(self) -> int:
        """Numbers of moments are less than this."""
        return len(self._moment)

    # ---- what is free from a moment on

    def inside(self, start: int, until: int) -> Mask:
        """Steps that hold at some moment from `start` to before `until`, or at `start`; shape (places,)."""
        found: Mask = self.at < max(until, start + 1)
        found &= self.until > start
        return found

    def least(self, start: int, until: int, without: Collection[int] = ()) -> Int64s:
        """The least that is free from `start` to before `until` on each node, shape (resources, nodes).

        Changes of the owners `without` do not come about; what comes free only may be left out.
        """
        inside = np.flatnonzero(self.inside(start, until))
        rows = self.rows[inside]
        least = np.full(self.free.shape, _NEVER, np.int64)
        left = self._without(without) if without else self.left
        for resource in range(len(least)):
            np.minimum.at(least[resource], rows, left[resource, inside])
        return least

    def least_on(self, rows: Indices, start: int, until: int) -> Int64s:
        """As `least`, of a few nodes; shape (resources, len(rows))."""
        places = self.places(rows)
        inside = (self.at[places] < max(until, start + 1)) & (self.until[places] > start)
        left = np.where(inside, self.left[:, places], _NEVER)
        sizes = self._sizes[rows]
        least: Int64s = np.minimum.reduceat(left, np.cumsum(sizes) - sizes, axis=1)
        return least

    def over(self, rows: Indices) -> bool:
        """Whether on one of these nodes less than nothing is left at a moment at which something changes."""
        if self._asked == self.version:
            # Asked again, it is worth a look at all nodes: mostly there is none anywhere.
            self._least = int(self.left.min(initial=0)) if self._least is None else self._least
            if self._least >= 0:
                return False
        else:
            self._asked, self._least = self.version, None
        places = self.places(rows)
        return bool(np.any((self.left[:, places] < 0) & (self.owners[places] != NOW)))

    def _without(self, owners: Collection[int]) -> Int64s:
        """What is left if the changes of these do not come about."""
        places = self.places(np.arange(len(self._begins)))
        amounts = self.left[:, places]
        amounts[:, 1:] -= self.left[:, places][:, :-1]
        own = self.owners[places]
        amounts[:, own == NOW] = self.free
        amounts[:, np.isin(own, list(owners))] = 0
        left = np.zeros_like(self.left)
        left[:, places] = _sums(amounts, self._sizes)
        return left

    # ---- changes

    def _update(self, dirty: Indices, gone: Collection[int], changes: Changes, owners: Indices) -> Indices:
        """Write the steps of these nodes, sorted by row, anew; returns the places that it wrote to."""
        sizes, begins = self._sizes[dirty], self._begins[dirty]
        places = _ranges(begins, sizes)
        own = self.owners[places]
        amounts = self.left[:, places]
        amounts[:, 1:] -= self.left[:, places[:-1]]
        amounts[:, own == NOW] = self.free[:, dirty]
        stay = np.ones(len(places), np.bool_)
        if gone:
            stay = ~np.isin(own, np.fromiter(gone, np.intp, len(gone)))
            np.subtract.at(self._count, self.slots[places[~stay]], 1)
        stays = places[stay]
        new_at, new_rows, new_amounts = changes
        slots = np.concatenate([self.slots[stays], self._numbered(new_at)])
        at = np.concatenate([self.at[stays], new_at])
        rows = np.concatenate([self.rows[stays], new_rows])
        own = np.concatenate([own[stay], owners])
        amounts = np.concatenate([amounts[:, stay], new_amounts], axis=1)
        # At one moment room comes free first.
        kind = np.where(own == NOW, -1, np.any(amounts < 0, axis=0))
        # One key sorts much faster than three: moments have few numbers.
        ranks = np.empty(len(self._moment), np.intp)
        ranks[self._order] = np.arange(len(self._order))
        order = np.argsort((rows * len(self._order) + ranks[slots]) * 3 + kind + 1, kind="stable")
        counts = np.bincount(np.searchsorted(dirty, rows), minlength=len(dirty))
        written = self._settle(dirty, counts)
        target = _ranges(self._begins[dirty], counts)
        at = at[order]
        until = np.append(at[1:], _NEVER)
        until[np.cumsum(counts) - 1] = _NEVER
        self.at[written] = self.until[written] = _NEVER
        self.owners[written] = SPARE
        self.at[target], self.until[target] = at, until
        self.rows[target], self.owners[target], self.slots[target] = rows[order], own[order], slots[order]
        self.left[:, target] = _sums(amounts[:, order], counts)
        return written

    def _settle(self, dirty: Indices, counts: Indices) -> Indices:
        """Give these nodes places for so many steps; returns the places that they had and have."""
        before, had = self._begins[dirty], self._sizes[dirty]
        self._sizes[dirty] = counts
        tight = np.flatnonzero(counts > self._places[dirty])
        if not len(tight):
            return _ranges(before, np.maximum(had, counts))
        rows = dirty[tight]
        places = 2 * counts[tight]
        ends = self._used + np.cumsum(places)
        self._begins[rows], self._places[rows] = ends - places, places
        self._used = int(ends[-1])
        if self._used > len(self.at):
            self._grow(max(self._used, len(self.at) * 3 // 2))
        return distinct(np.concatenate([_ranges(before, had), _ranges(self._begins[dirty], counts)]))

    def _grow(self, places: int) -> None:
        more = places - len(self.at)
        self.at = np.append(self.at, np.full(more, _NEVER, np.int64))
        self.until = np.append(self.until, np.full(more, _NEVER, np.int64))
        self.rows = np.append(self.rows, np.zeros(more, np.intp))
        self.owners = np.append(self.owners, np.full(more, SPARE, np.intp))
        self.slots = np.append(self.slots, np.zeros(more, np.intp))
        self.left = np.concatenate([self.left, np.zeros((len(self.left), more), np.int64)], axis=1)

    def _numbered(self, at: Int64s) -> Indices:
        """The numbers of these moments, at each of which one more step begins."""
        wanted, positions = np.unique(at, return_inverse=True)
        order = self._order[self._count[self._order] > 0]
        known = self._moment[order]
        where = np.searchsorted(known, wanted)
        new = np.ones(len(wanted), np.bool_)
        inside = where < len(known)
        new[inside] = known[where[inside]] != wanted[inside]
        numbers = np.empty(len(wanted), np.intp)
        numbers[~new] = order[where[~new]]
        numbers[new] = len(self._moment) + np.arange(int(new.sum()))
        self._moment = np.concatenate([self._moment, wanted[new]])
        self._count = np.concatenate([self._count, np.zeros(int(new.sum()), np.int64)])
        self._order = np.insert(order, where[new], numbers[new])
        self.moments = self._moment[self._order]
        found: Indices = numbers[positions]
        np.add.at(self._count, found, 1)
        return found


def _ranges(begins: Indices, sizes: Indices) -> Indices:
    """The whole numbers from each begin on, so many each, one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    found: Indices = np.repeat(begins - ends + sizes, sizes) + np.arange(total)
    return found


def _sums(amounts: Int64s, sizes: Indices) -> Int64s:
    """Sums along each of the parts of these sizes, one after the other; shape (resources, entries)."""
    sums = np.cumsum(amounts, axis=1)
    first = np.cumsum(sizes) - sizes
    before = (sums - amounts)[:, first]
    return sums - np.repeat(before, sizes, axis=1)
