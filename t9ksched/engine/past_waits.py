"""What gangs that wait were told, remembered across cycles by what they ask for.

Gangs of one queue that ask for as many pods of the same classes are one *kind*. A kind keeps what was told to it, and
the numbers that this follows from, while the nodes that it may use stay as they are. Where room changes on some of
them, only the numbers of kinds of which a pod fits there are looked at (`Shared`), so that thousands of kinds cost what
the change could mean to them. Kinds of which no gang waits any more are forgotten.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import LARGEST, Static
from t9ksched.engine.plan import Waiting
from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Reason

Signature = tuple[object, ...]
Reasons = tuple[Reason, ...]
Limits = tuple[tuple[str, str, int, int], ...]
"""What the queue of a kind may have and has: account, resource, cap and held."""
_FEW: Final = 256
"""So many kinds are kept, whether gangs of some wait or not."""
_ENTRIES: Final = 1_000_000
"""So many kinds times rows are looked at together."""
_PARTS: Final = 512
_ANY: Final = np.iinfo(np.int64).min


class Kind:
    """Gangs of one queue that ask for the same, and what they were told.

    Attributes:
        ident: the same as that of the scheduling key of these gangs in every cycle.
        shared: the nodes that it may use, with the other kinds that may.
        demand: what the queue pays for one of them, by resource.
        fixed: they would have no room if nothing ran.
        counted: why there is no room follows from the numbers below. Otherwise, and if it is not fixed, that is true
            only until room changes on the nodes.
        valid: the numbers, or the reasons, are those of the nodes as they are.
        no_room: why there is no room; empty where that is to be told from the numbers, or where there is enough.
        over_quota: why its queue cannot pay while `limits` are what it may have and has; None where it can.
        fit, able, total: how many of its pods fit, on how many nodes, and how many would at most.
        closest: of the nodes with all that one pod needs, but not at once, that with most of it: row and part.
        searched: the number of the scene in which no victims were found for gangs of this priority, and that; None
            where that is not known, or room changed since.
        cycle: the latest cycle in which it was of use.
    """

    __slots__ = (
        "able",
        "away",
        "closest",
        "counted",
        "cycle",
        "demand",
        "fit",
        "fixed",
        "ident",
        "limits",
        "match",
        "needs",
        "no_room",
        "over_quota",
        "pod_class",
        "pods",
        "queue",
        "searched",
        "shared",
        "total",
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
        self.closest = (-1, -1)
        self.away: Sequence[tuple[str, Mapping[str, int], tuple[str, ...]]] = ()
        self.demand: Mapping[str, int] = {}
        self.counted = self.fixed = self.valid = False
        self.no_room: Reasons = ()
        self.over_quota: Reason | None = None
        self.limits: Limits | None = None
        self.searched: tuple[int, int] | None = None
        self.cycle = 0

    def lacks_room(self) -> Reasons:
        """Why there is too little room for all its pods; empty where there is enough."""
        if not self.no_room and self.counted and self.total < self.pods:
            reason = self.composed()
            self.no_room = () if reason is None else (reason,)
        return self.no_room

    def composed(self) -> Reason | None:
        """Why there is no room, from the numbers; None where they do not say it."""
        reason: Reason | None
        self.closest = (-1, -1)
        if self.total:
            reason = explain.not_enough(self.pod_class, self.pods, self.fit, self.match, self.able)
        else:
            shared = self.shared
            reason = explain.short_of(self.pod_class, self.match, shared.best())
            if reason is None:
                self._find_closest()
                row = self.closest[0]
                reason = explain.short_of(self.pod_class, self.match, shared.free_on(row), explain.CLOSEST)
        return None if reason is None else explain.with_additions(reason, self.away)

    def _find_closest(self) -> None:
        shared = self.shared
        part = np.full(shared.free.shape[1], _PARTS, np.int64)
        for at, units in self.needs:
            np.minimum(part, np.clip(shared.free[at], 0, units) * _PARTS // units, out=part)
        part[~shared.mask] = -1
        row = int(part.argmax())
        self.closest = row, int(part[row])


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

    def learned(self) -> None:
        """What a kind asks for, or its numbers, changed."""
        self._needs = None

    def best(self) -> Mapping[str, int]:
        """The most that is free on one of the nodes, by resource."""
        if self._named is None:
            self._named = dict(zip(self._resources, self._most().tolist(), strict=True))
        return self._named

    def free_on(self, row: int) -> Mapping[str, int]:
        """What is free on one node, by resource."""
        return dict(zip(self._resources, self.free[:, row].tolist(), strict=True))

    def _most(self) -> Int64s:
        if self._best is None:
            self._best = self.free[:, self.mask].max(axis=1, initial=_ANY)
        return self._best

    def change(self, rows: Indices, old: Int64s, new: Int64s, reserved: Mask | None) -> None:
        """On these nodes of the mask the free room was `old` and is `new`, shape (resources, rows); `free` has it.

        With `reserved`, nodes with room that is held for some, what was told may depend on that, too.
        """
        self.changed += 1
        counts = reserved is None or not bool((reserved & self.mask).any())
        if self._needs is None:
            self._counted = [kind for kind in self.kinds.values() if kind.counted and kind.valid]
            self._needs = self._columns()
            self._pods = np.array([kind.pods for kind in self._counted], np.int64)
        for kind in self.kinds.values():
            kind.searched = None
            if not (kind.fixed or (kind.counted and counts)):
                kind.valid = False
        if not counts:
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
                self._counted[at].no_room = ()

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
            kind.no_room = ()
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
            self._counted[nth].no_room, self._counted[nth].closest = (), (-1, -1)


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


class ToldLine(NamedTuple):
    """A line of which all gangs were told without a turn: its gangs, its kinds, and what was told.

    Attributes:
        tried, alike: what this adds to the numbers of a cycle (`Stats`).
    """

    source: list[Gang]
    kinds: list[tuple[Kind, Reasons]]
    told: list[Waiting]
    tried: int
    alike: int


class PastWaits:
    """All kinds, and which gang is of which."""

    def __init__(self) -> None:
        self.free: Int64s | None = None
        """What is free on the nodes as the numbers have it, shape (resources, nodes)."""
        self.cycle = 0
        self._static: Static | None = None
        self._sources: object = None
        self._kinds: dict[Signature, Kind] = {}
        self._shared: dict[int, Shared] = {}
        """By identity of the mask, which it keeps."""
        self.lines: dict[str, ToldLine] = {}
        """Lines that were told whole in the latest cycle, by queue."""
        self._noted: set[int] = set()
        self._of: dict[int, tuple[Gang, Kind]] = {}
        """By identity of the gang, which is kept."""

    def __len__(self) -> int:
        return len(self._kinds)

    def forget(self) -> None:
        """Nothing lasts."""
        self._kinds.clear()
        self._shared.clear()
        self._of.clear()
        self._noted.clear()
        self.lines.clear()
        self.free = None

    def begin(self, free: Int64s, static: Static, sources: object, cycle: int, gangs: int) -> None:
        """A cycle with this number begins, on these nodes. `sources` is what else decides what gangs are told, compared
        by value. All is forgotten where it is not known what changed in a cycle between.
        """
        known = self.cycle == cycle - 1 and static is self._static and sources == self._sources
        self.cycle = cycle
        if not known or self.free is None:
            self.forget()
            self._static, self._sources = static, sources
            self.free = free.copy()
        elif len(self._kinds) > _FEW:
            unused = [one for one, kind in self._kinds.items() if kind.cycle < self.cycle - 1]
            for one in unused:
                kind = self._kinds.pop(one)
                kind.shared.kinds.pop(one)
                kind.shared.learned()
                kind.valid = False
        if len(self._shared) > len(self._kinds):
            self._shared = {identity: shared for identity, shared in self._shared.items() if shared.kinds}
        if len(self._of) > _FEW + 2 * gangs:
            self._of.clear()

    def note(self, rows: Sequence[int] | Indices) -> None:
        """On these nodes something may have changed since the last call of `change` or `change_noted`."""
        self._noted.update(rows)

    def change(self, free: Int64s, reserved: Mask | None) -> None:
        """Follow the free room, shape (resources, nodes). `reserved` has the nodes with room that is held for some."""
        assert self.free is not None
        self._noted.update(np.flatnonzero((self.free != free).any(axis=0)).tolist())
        self.change_noted(free, reserved)

    def change_noted(self, free: Int64s, reserved: Mask | None) -> None:
        """The same where no room changed but on nodes that were noted."""
        assert self.free is not None
        if not self._noted:
            return
        rows = np.array(sorted(self._noted), np.intp)
        self._noted.clear()
        old, new = self.free[:, rows], free[:, rows]
        self.free[:, rows] = new
        for shared in self._shared.values():
            inside = shared.mask[rows]
            if inside.any():
                shared.change(rows[inside], old[:, inside], new[:, inside], reserved)

    def of(self, gang: Gang, signature: Signature | None) -> Kind | None:
        """The kind of the gang, None if no gang like it was met yet."""
        if signature is None:
            known = self._of.get(id(gang))
            return known[1] if known is not None and known[0] is gang and known[1].valid else None
        kind = self._kinds.get(signature)
        if kind is None or not kind.valid:
            return None
        self._of[id(gang)] = gang, kind
        return kind

    def learn(
        self, signature: Signature, ident: Signature, queue: str, pod_class: PodClass, pods: int, mask: Mask
    ) -> Kind:
        """The kind with this signature, to be filled: all of it is true of the nodes as they are."""
        assert self.free is not None
        kind = self._kinds.get(signature)
        if kind is None or kind.shared.mask is not mask or kind.pod_class is not pod_class:
            if kind is not None:
                kind.valid = False
                kind.shared.kinds.pop(signature, None)
                kind.shared.learned()
            shared = self._shared.get(id(mask))
            if shared is None:
                assert self._static is not None
                shared = self._shared[id(mask)] = Shared(mask, self.free, self._static.resources)
            kind = self._kinds[signature] = shared.kinds[signature] = Kind(ident, queue, pod_class, pods, shared)
        kind.shared.learned()
        return kind
