"""Kinds of gangs that wait: what they were told, and the numbers that this follows from.

A kind keeps what was told to it, and the numbers, while the nodes that it may use stay as they are. Where room changes
on some of them, only the numbers of kinds of which a pod fits there are looked at (`Shared`), so that thousands of
kinds cost what the change could mean to them.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Indices, Int64s, Mask, There
from t9ksched.engine.nodes import LARGEST
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Reason

Signature = tuple[object, ...]
Reasons = tuple[Reason, ...]
Limits = tuple[tuple[str, str, int, int], ...]
"""What the queue of a kind may have and has: account, resource, cap and held."""
_ENTRIES: Final = 1_000_000
"""So many kinds times rows are looked at together."""
_PARTS: Final = 512
_REASONS: Final = 3
"""So many reasons of a kind are kept."""
NOWHERE: Final = (-1, -1)
_ANY: Final = np.iinfo(np.int64).min


class Kind:
    """Gangs of one queue that ask for the same, and what they were told.

    Attributes:
        ident: the same as that of the scheduling key of these gangs in every cycle.
        shared: the nodes that it may use, with the other kinds that may.
        demand: what the queue pays for one of them, by resource.
        fewest: what of cards it would pay if its pods selected the nodes where that is least.
        fixed: they would have no room if nothing ran.
        counted: the numbers below are known, and followed. Otherwise, and if it is not fixed, what was told is true
            only until room changes on the nodes.
        alone: only numbers decide whether there is room: no domain that all of them must be in, no rules about pods.
        valid: the numbers, or what was told, are those of the nodes as they are.
        told: why there is no room, unless it is counted and alone, so that the numbers say it; empty if not known.
        over_quota: why its queue cannot pay while `limits` are what it may have and has; None where it can.
        fit, able, total: how many of its pods fit, on how many nodes, and how many would at most.
        closest: of the nodes with all that one pod needs, but not at once, that with most of it: row and part.
        searched: the number of the scene in which no victims were found for gangs of this priority, and that; None
            where that is not known, or room changed since.
        unheld: how many of its pods would fit if no room was held, and what that is.
        cycle: the latest cycle in which it was of use.
    """

    __slots__ = (
        "_before",
        "_lacks",
        "able",
        "alone",
        "away",
        "closest",
        "counted",
        "cycle",
        "demand",
        "fewest",
        "fit",
        "fixed",
        "ident",
        "limits",
        "match",
        "needs",
        "over_quota",
        "pod_class",
        "pods",
        "queue",
        "searched",
        "shared",
        "told",
        "total",
        "unheld",
        "valid",
    )

    def __init__(self, ident: Signature, queue: str, pod_class: PodClass, pods: int, shared: "Shared") -> None:
        self.ident = ident
        self.queue = queue
        self.pod_class = pod_class
        self.pods = pods
        self.shared = shared
        self.needs: Sequence[tuple[int, int]] = ()
        self.match = self.fit = self.able = self.total = 0
        self.closest = NOWHERE
        self.away: Sequence[tuple[str, Mapping[str, int], tuple[str, ...]]] = ()
        self.demand: Mapping[str, int] = {}
        self.fewest = 0
        self.counted = self.alone = self.fixed = self.valid = False
        self.told: Reasons = ()
        self._lacks: Reasons = ()
        self._before: tuple[object, dict[tuple[int, ...], Reason]] = None, {}
        """What it was told lately where most was free of each resource: as pods end and come, that is soon so again."""
        self.over_quota: Reason | None = None
        self.limits: Limits | None = None
        self.searched: tuple[int, int] | None = None
        self.unheld: tuple[There, int] | None = None
        self.cycle = 0

    @property
    def is_told(self) -> bool:
        """Whether what it is told needs not be composed."""
        return bool(self._lacks or self.told)

    def no_room(self) -> Reasons:
        """Why there is no room; empty where there may be, or that is not known."""
        return self.lacks() if self.counted and self.alone else self.told

    def lacks(self) -> Reasons:
        """Why there is too little room for all its pods by numbers; empty where there is enough. It is counted."""
        if not self._lacks and self.total < self.pods:
            reason = self.composed()
            self._lacks = () if reason is None else (reason,)
        return self._lacks

    def numbers_moved(self) -> None:
        """The numbers, or what is told of nodes, are not what they were."""
        self._lacks, self.closest = (), NOWHERE
        if not self.alone:
            self.valid = False

    def begin(self, cycle: int, demand: Mapping[str, int], fewest: int) -> None:
        """All about it is found anew in this cycle."""
        self.cycle, self.demand, self.fewest = cycle, demand, fewest
        self.limits = self.over_quota = self.unheld = None
        self.counted = self.fixed = self.valid = False
        self._lacks, self.closest = (), NOWHERE

    def fit_if(self, there: "There") -> int:
        """How many of its pods would fit if more was free on some nodes."""
        more = self.shared.inside(there)
        if any(units > more.most[at] for at, units in self.needs):
            return self.fit  # none fits there, and none did
        return self.fit + int((self._rooms(more.free) - self._rooms(more.now)).sum())

    def _rooms(self, free: Int64s) -> Int64s:
        rooms = np.full(free.shape[1], self.pods, np.int64)
        for at, units in self.needs:
            np.minimum(rooms, free[at] // units, out=rooms)
        found: Int64s = np.maximum(rooms, 0)
        return found

    def composed(self) -> Reason | None:
        """Why there is no room, from the numbers; None where they do not say it."""
        if self.total:
            return self.told_of(self.fit, self.able)
        shared = self.shared
        if self._before[0] is not self.away:
            self._before = self.away, {}
        numbers, before = (self.match, *shared.most(self.needs)), self._before[1]
        if (known := before.get(numbers)) is not None:
            return known
        reason = explain.short_of(self.pod_class, self.match, shared.best())
        if reason is None:
            self._find_closest()
            row = self.closest[0]
            reason = explain.short_of(self.pod_class, self.match, shared.free_on(row), explain.CLOSEST)
            return None if reason is None else explain.with_additions(reason, self.away)
        if len(before) >= _REASONS:
            before.clear()
        found = before[numbers] = explain.with_additions(reason, self.away)
        return found

    def told_of(self, fit: int, able: int, best: Mapping[str, int] | None = None) -> Reason | None:
        """Why there is too little room where so many of its pods fit, on so many nodes; if none does, and `best` is the
        most that is free on one node. None where that does not say it.
        """
        if fit:
            reason: Reason | None = explain.not_enough(self.pod_class, self.pods, fit, self.match, able)
        else:
            assert best is not None
            reason = explain.short_of(self.pod_class, self.match, best)
        return None if reason is None else explain.with_additions(reason, self.away)

    def _find_closest(self) -> None:
        shared = self.shared
        part = np.full(shared.free.shape[1], _PARTS, np.int64)
        for at, units in self.needs:
            np.minimum(part, np.clip(shared.free[at], 0, units) * _PARTS // units, out=part)
        part[~shared.mask] = -1
        row = int(part.argmax())
        self.closest = row, int(part[row])


class _Inside(NamedTuple):
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
    """

    def __init__(self, mask: Mask, free: Int64s, resources: Sequence[str]) -> None:
        self.mask = mask
        self.free = free
        self.changed = 0
        self.kinds: dict[Signature, Kind] = {}
        self._resources = resources
        self._counted: list[Kind] = []
        self._needs: Int64s | None = None
        self._pods: Int64s = np.zeros(0, np.int64)
        self._best: Int64s | None = None
        self._named: dict[str, int] | None = None
        self._listed: tuple[Int64s, list[int]] | None = None
        self._inside: _Inside | None = None

    def learned(self) -> None:
        """What a kind asks for, or its numbers, changed."""
        self._needs = None

    def best(self) -> Mapping[str, int]:
        """The most that is free on one of the nodes, by resource."""
        if self._named is None:
            self._named = dict(zip(self._resources, self._most().tolist(), strict=True))
        return self._named

    def inside(self, there: There) -> _Inside:
        """The part of it on these nodes."""
        known = self._inside
        if known is None or known.of is not there or known.changed != self.changed:
            among = self.mask[there.rows]
            free, now = there.free[:, among], self.free[:, there.rows[among]]
            known = self._inside = _Inside(there, self.changed, free, now, free.max(axis=1, initial=0).tolist())
        return known

    def most(self, needs: Sequence[tuple[int, int]]) -> list[int]:
        """The same for the resources of these needs."""
        if self._listed is None or self._listed[0] is not self._most():
            self._listed = self._most(), self._most().tolist()
        most = self._listed[1]
        return [most[at] for at, _ in needs]

    def free_on(self, row: int) -> Mapping[str, int]:
        """What is free on one node, by resource."""
        return dict(zip(self._resources, self.free[:, row].tolist(), strict=True))

    def _most(self) -> Int64s:
        if self._best is None:
            self._best = self.free[:, self.mask].max(axis=1, initial=_ANY)
        return self._best

    def change(self, rows: Indices, old: Int64s, new: Int64s, *, only_room: bool) -> None:
        """On these nodes of the mask the free room was `old` and is `new`, shape (resources, rows); `free` has it.
        Without `only_room`, something else changed that decides what is told.
        """
        self.changed += 1
        if self._needs is None:
            self._counted = [kind for kind in self.kinds.values() if kind.counted and kind.valid]
            self._needs = self._columns()
            self._pods = np.array([kind.pods for kind in self._counted], np.int64)
        for kind in self.kinds.values():
            kind.searched = None
            if not (kind.fixed or (kind.counted and only_room)):
                kind.valid = False
        if not only_room:
            self._needs, self._best, self._named = None, None, None
            return
        before = self._most()
        self._raise_best(before, old, new)
        self._affect_nowhere(before)
        step = max(1, _ENTRIES // max(1, len(self._counted)))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            self._recount(old[:, some], new[:, some])
            self._look_closer(rows[some], new[:, some])

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

    def _affect_nowhere(self, before: Int64s) -> None:
        """Kinds of which no pod fits anywhere are told the most that is free of what they lack."""
        now, needs = self._most(), self._needs
        assert needs is not None
        moved = np.flatnonzero(now != before)
        if not len(moved):
            return
        wanted = needs[:, moved]
        for at in np.flatnonzero(((wanted > before[moved]) | (wanted > now[moved])).any(axis=1)).tolist():
            if not self._counted[at].total:
                self._counted[at].numbers_moved()

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
        told = [(at, *kind.closest) for at, kind in enumerate(self._counted) if kind.closest[0] >= 0]
        if not told:
            return
        assert self._needs is not None
        at, closest, most = np.array(told, np.int64).T
        part = np.full((len(told), len(rows)), _PARTS, np.int64)
        for resource in range(len(new)):
            asked = self._needs[at, resource][:, None]
            some = np.flatnonzero(asked)
            if len(some):
                has = np.clip(new[resource], 0, asked[some]) * _PARTS // asked[some]
                part[some] = np.minimum(part[some], has)
        other = np.isin(closest, rows) | (part >= most[:, None]).any(axis=1)
        for nth in at[other].tolist():
            self._counted[nth].numbers_moved()


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
