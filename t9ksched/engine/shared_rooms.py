"""Nodes that several kinds of waiting gangs may use: where room changes, whom that concerns.

Where room changes on some of them, only the numbers of kinds of which a pod fits there are looked at, so that thousands
of kinds cost what the change could mean to them.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask, There
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.wait_kinds import PARTS, Kind, Level, Signature

_ENTRIES: Final = 1_000_000
"""So many kinds times rows are looked at together."""
_LEVELS: Final = 64
_INSIDE: Final = 32
_ANY: Final = np.iinfo(np.int64).min
_NOTHING: Final = -1
"""What is free where no pod may be: none that needs anything fits."""


class Inside(NamedTuple):
    """The part of it on the nodes of a mask, with what is free there `now` and the `most` of each resource."""

    of: There
    changed: int
    free: Int64s
    now: Int64s
    most: list[int]


class Shared:
    """Nodes that several kinds may use, with the numbers of these kinds as columns.

    Attributes:
        mask: the nodes, shape (nodes,).
        free: what is free on all nodes, as the numbers of the kinds have it, shape (resources, nodes).
        changed: how often room changed on these nodes.
        closer: kinds that may have been told of one node.
    """

    def __init__(self, mask: Mask, free: Int64s, resources: Sequence[str]) -> None:
        self.mask = mask
        self.free = free
        self.changed = 0
        self.kinds: dict[Signature, Kind] = {}
        self.closer: set[Kind] = set()
        self._resources = resources
        self._counted: list[Kind] = []
        self._passing: list[Kind] = []
        """Kinds that are told anew whenever room changes."""
        self._needs: Int64s | None = None
        self._pods: Int64s = np.zeros(0, np.int64)
        self._best: Int64s | None = None
        self._named: dict[str, int] | None = None
        self._levels: dict[Level, Level] = {}
        self._level: tuple[Int64s, Level] | None = None
        self._inside: dict[int, Inside] = {}
        """By identity of what would be free, which is kept."""

    def learned(self) -> None:
        """What a kind asks for, or its numbers, changed."""
        self._needs = None

    def forget(self, signature: Signature) -> None:
        """No gang of the kind waits any more, or another one has its place."""
        if (kind := self.kinds.pop(signature, None)) is not None:
            kind.invalidate()
            self.closer.discard(kind)
            self._needs = None

    def best(self) -> Mapping[str, int]:
        """The most that is free on one of the nodes, by resource."""
        if self._named is None:
            self._named = dict(zip(self._resources, self._most().tolist(), strict=True))
        return self._named

    def inside(self, there: There) -> Inside:
        """The part of it on these nodes."""
        known = self._inside.get(id(there))
        if known is None or known.changed != self.changed:
            if len(self._inside) >= _INSIDE:
                self._inside.clear()
            among = self.mask[there.rows]
            free, now = there.free[:, among], self.free[:, there.rows[among]]
            known = self._inside[id(there)] = Inside(
                there, self.changed, free, now, free.max(axis=1, initial=0).tolist()
            )
        return known

    def level(self) -> Level:
        """The most that is free on one of the nodes, in the order of the resources; mostly the same object while, and
        when, that is the same.
        """
        best = self._most()
        if self._level is None or self._level[0] is not best:
            if len(self._levels) > _LEVELS:
                self._levels.clear()
            found = tuple(best.tolist())
            self._level = best, self._levels.setdefault(found, found)
        return self._level[1]

    def free_on(self, row: int) -> Mapping[str, int]:
        """What is free on one node, by resource."""
        return dict(zip(self._resources, self.free[:, row].tolist(), strict=True))

    def _most(self) -> Int64s:
        if self._best is None:
            self._best = self.free[:, self.mask].max(axis=1, initial=_ANY)
        return self._best

    def change(self, rows: Indices, old: Int64s, new: Int64s) -> None:
        """On these nodes of the mask the free room was `old` and is `new`, shape (resources, rows); `free` has it.
        Where both are the same, something else changed.
        """
        self.changed += 1
        self._prepare()
        for kind in self._passing:
            kind.invalidate()
        differs = (old != new).any(axis=0)
        if not differs.any():
            return
        rows, old, new = rows[differs], old[:, differs], new[:, differs]
        self._raise_best(self._most(), old, new)
        step = max(1, _ENTRIES // max(1, len(self._counted)))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            self._recount(old[:, some], new[:, some])
            self._look_closer(rows[some], new[:, some])

    def move(self, mask: Mask, allocatable: Int64s) -> None:
        """These are the nodes from now on; `allocatable` is what all nodes have, shape (resources, nodes). Whatever of
        the kinds does not follow from numbers alone is forgotten before.
        """
        left, came = np.flatnonzero(self.mask & ~mask), np.flatnonzero(mask & ~self.mask)
        self.mask = mask
        self._inside.clear()
        if not (len(left) or len(came)):
            return
        self.changed += 1
        self._prepare()
        self._best = self._named = None
        for rows, gone in ((left, True), (came, False)):
            if len(rows):
                free, nothing = self.free[:, rows], np.full((len(self.free), len(rows)), _NOTHING)
                self._recount(free, nothing) if gone else self._recount(nothing, free)
        assert self._needs is not None
        empty = _rooms(self._needs, allocatable[:, came]).sum(axis=1)
        empty -= _rooms(self._needs, allocatable[:, left]).sum(axis=1)
        match = int(mask.sum())
        for kind, more in zip(self._counted, empty.tolist(), strict=True):
            kind.moved(match, more)

    def _prepare(self) -> None:
        """Bring the columns up to date."""
        if self._needs is not None:
            return
        kinds = self.kinds.values()
        self._counted = [kind for kind in kinds if kind.counted and kind.valid and not kind.fixed]
        self._passing = [kind for kind in kinds if not (kind.counted or kind.fixed)]
        for at, kind in enumerate(self._counted):
            kind.at = at
        self._needs = self._columns()
        self._pods = np.array([kind.pods for kind in self._counted], np.int64)

    def _columns(self) -> Int64s:
        """What one pod of each kind needs, shape (kinds, resources)."""
        needs = np.zeros((len(self._counted), len(self._resources)), np.int64)
        for at, kind in enumerate(self._counted):
            for resource, units in kind.needs:
                needs[at, resource] = units
        return needs

    def _raise_best(self, before: Int64s, old: Int64s, new: Int64s) -> None:
        best: Int64s = np.maximum(before, new.max(axis=1))
        lost = np.flatnonzero((old.max(axis=1) >= before) & (new.max(axis=1) < before))
        for at in lost.tolist():
            best[at] = self.free[at, self.mask].max()
        if np.array_equal(best, before):
            return
        self._best, self._named = best, None

    def _recount(self, old: Int64s, new: Int64s) -> None:
        """Count again the kinds of which a pod fits there, or did."""
        needs = self._needs
        assert needs is not None
        most = np.maximum(old, new).max(axis=1)
        some = np.flatnonzero(((needs <= most) | (needs == 0)).all(axis=1))
        if not len(some):
            return
        fitted, fits = _rooms(needs[some], old), _rooms(needs[some], new)
        pods = self._pods[some, None]
        differs = np.flatnonzero((fitted != fits).any(axis=1))
        total = (fits - fitted).sum(axis=1)
        fit = (np.minimum(fits, pods) - np.minimum(fitted, pods)).sum(axis=1)
        able = (fits > 0).sum(axis=1) - (fitted > 0).sum(axis=1)
        for at in differs.tolist():
            kind = self._counted[some[at]]
            kind.numbers_moved()
            kind.total += int(total[at])
            kind.fit += int(fit[at])
            kind.able += int(able[at])

    def _look_closer(self, rows: Indices, new: Int64s) -> None:
        """Kinds that are told of the node that has most of what they need may be told of another one, or of less."""
        if not self.closer:
            return
        told = [(kind.at, *kind.closest) for kind in self.closer if self._tells_of_one(kind)]
        if not told:
            return
        assert self._needs is not None
        at, closest, most = np.array(told, np.int64).T
        part = np.full((len(told), len(rows)), PARTS, np.int64)
        for resource in range(len(new)):
            asked = self._needs[at, resource][:, None]
            some = np.flatnonzero(asked)
            if len(some):
                has = np.clip(new[resource], 0, asked[some]) * PARTS // asked[some]
                part[some] = np.minimum(part[some], has)
        other = np.isin(closest, rows) | (part >= most[:, None]).any(axis=1)
        for nth in at[other].tolist():
            self._counted[nth].numbers_moved()

    def _tells_of_one(self, kind: Kind) -> bool:
        return kind.closest[0] >= 0 and kind.at < len(self._counted) and self._counted[kind.at] is kind


def _rooms(needs: Int64s, free: Int64s) -> Int64s:
    """How many pods of each kind fit on each node, shape (kinds, rows)."""
    rooms = np.full((len(needs), free.shape[1]), LARGEST, np.int64)
    for at in range(needs.shape[1]):
        asked = needs[:, at]
        where = np.flatnonzero(asked)
        if len(where):
            rooms[where] = np.minimum(rooms[where], free[at] // asked[where, None])
    found: Int64s = np.maximum(rooms, 0)
    return found
