"""Kinds of gangs that wait: what they were told, and the numbers that this follows from.

A kind keeps what was told to it, and the numbers, while the nodes that it may use stay as they are. Where room changes
on some of them, only the numbers of kinds of which a pod fits there are looked at (`Shared`), so that thousands of
kinds cost what the change could mean to them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Int64s, There
from t9ksched.engine.placement.class_fit import MOST_ROOMS
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARDS
from t9ksched.model.reasons import Code, Reason

if TYPE_CHECKING:
    from t9ksched.engine.shared_rooms import Shared
    from t9ksched.engine.told_lines import ToldLine

Reasons = tuple[Reason, ...]
Level = tuple[int, ...]
"""The most that is free of each resource on one node."""
Limits = tuple[tuple[str, str, int, int] | tuple[str, str, int], ...]
"""What the queue of a kind may have and has: account, resource, cap and held; and what is kept of that."""
Ident = tuple[object, ...]
"""What tells a scheduling key from others, the same in every cycle."""
PARTS: Final = 512
_REASONS: Final = 5
"""So many reasons of a kind are kept."""
NOWHERE: Final = (-1, -1)
_BY_NUMBERS: Final = (Code.INSUFFICIENT_RESOURCES, Code.TOPOLOGY_NOT_SATISFIED)
"""Reasons that say nothing but numbers where no pod fits anywhere, whatever rules there are."""
NO_ROOM_HELPS: Final = (Code.NO_NODE_MATCHES, Code.CARD_TYPE_MISMATCH, Code.NEVER_FITS)
"""A gang with one of these reasons would not fit after any eviction."""


def hopeless(told: Reasons) -> bool:
    """Whether nothing that leaves would help those who are told that."""
    return any(reason.code in NO_ROOM_HELPS for reason in told)


class Signature(NamedTuple):
    """What gangs of a kind have in common (`signature_of`).

    Attributes:
        queue: its name.
        levels: the labels of nodes that make the domains in which they must be together, or would like to be; empty
            where they need not.
        together: these domains, and all else about them.
        pod_class: the identity of the class of their pods.
        pods: how many.
        profile: what administrators reserved from them and for them; empty where nothing is.
    """

    queue: str
    levels: tuple[str, ...]
    together: tuple[object, ...]
    pod_class: int
    pods: int
    profile: tuple[object, ...]


class Kind:
    """Gangs of one queue that ask for the same, and what they were told.

    Attributes:
        ident: the same as that of the scheduling key of these gangs in every cycle.
        shared: the nodes that it may use, with the other kinds that may.
        reads: the keys of labels of nodes that decide about it; None where anything may.
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
        empty: how many of its pods would fit if nothing ran; `MOST_ROOMS` for more.
        closest: of the nodes with all that one pod needs, but not at once, that with most of it: row and part.
        searched: the number of the scene in which no victims were found for gangs of this priority, that, and how often
            room had changed on the nodes then; None where that is not known.
        unheld: how many of its pods would fit if no room was held, and what that is.
        unkept: the same if no room was kept for gangs that collect it.
        in_reach: the same if all were evicted that may be for one of these gangs.
        kept: the number of the room that was kept when it was found what it is told.
        cycle: the latest cycle in which it was of use.
        line: the line that was told whole in which its gangs are; it learns when they may have to be told anew.
        at: its row in the numbers of the nodes that it shares.
    """

    __slots__ = (
        "_before",
        "_lacks",
        "_level",
        "able",
        "alone",
        "at",
        "away",
        "closest",
        "counted",
        "cycle",
        "demand",
        "empty",
        "fewest",
        "fit",
        "fixed",
        "ident",
        "in_reach",
        "kept",
        "limits",
        "line",
        "match",
        "needs",
        "over_quota",
        "pod_class",
        "pods",
        "queue",
        "reads",
        "searched",
        "shared",
        "told",
        "total",
        "unheld",
        "unkept",
        "valid",
    )

    def __init__(
        self,
        ident: Ident,
        queue: str,
        pod_class: PodClass,
        pods: int,
        shared: "Shared",
        reads: frozenset[str] | None,
    ) -> None:
        self.ident = ident
        self.queue = queue
        self.pod_class = pod_class
        self.pods = pods
        self.shared = shared
        self.reads = reads
        self.needs: Sequence[tuple[int, int]] = ()
        self.match = self.fit = self.able = self.total = self.empty = 0
        self.closest = NOWHERE
        self.away: Sequence[tuple[str, Mapping[str, int], tuple[str, ...]]] = ()
        self.demand: Mapping[str, int] = {}
        self.fewest = 0
        self.counted = self.alone = self.fixed = self.valid = False
        self.told: Reasons = ()
        self._lacks: Reasons = ()
        self._before: tuple[object, bool, dict[tuple[int, ...], Reasons]] = None, False, {}
        """What it was told lately by numbers, while none of its pods fitted anywhere: as pods end and come, these are
        soon the same again.
        """
        self._level: Level | None = None
        """The most that was free when that was found out which it is told."""
        self.over_quota: Reason | None = None
        self.limits: Limits | None = None
        self.searched: tuple[int, int, int] | None = None
        self.unheld: tuple[There, int] | None = None
        self.unkept: tuple[There, int] | None = None
        self.in_reach: tuple[There, int] | None = None
        self.cycle = self.at = self.kept = 0
        self.line: ToldLine | None = None

    @property
    def is_told(self) -> bool:
        """Whether what it is told needs not be composed."""
        return bool(self._lacks or self.told)

    @property
    def follows_nodes(self) -> bool:
        """Whether what it is told follows from numbers alone also where other nodes take work than before."""
        if not (self.valid and self.counted and self.alone) or self.fixed:
            return False
        return bool(self.needs) and self.empty < MOST_ROOMS and CARDS not in self.demand

    def no_room(self) -> Reasons:
        """Why there is no room; empty where there may be, or that is not known."""
        if not self.counted:
            return self.told
        if self.alone:
            return self.lacks()
        if not self.total:
            self._follow()
        return self.told

    def lacks(self) -> Reasons:
        """Why there is too little room for all its pods by numbers; empty where there is enough. It is counted."""
        if not self.total:
            self._follow()
        if not self._lacks and self.total < self.pods:
            reason = self.composed()
            self._lacks = () if reason is None else (reason,)
        return self._lacks

    def _follow(self) -> None:
        """None of its pods fits anywhere, so that it is told the most that is free of what it lacks."""
        level = self.shared.level()
        if level is self._level:
            return
        self._level = level
        self._lacks, self.closest = (), NOWHERE
        if not self.alone:
            known = self._known()
            self.told = known.get(self._numbers(), ())
            if not self.told:
                self.invalidate()

    def learned(self) -> None:
        """What it is told was found, of its numbers as they are: where they are the same it is told that again."""
        by_numbers = self.counted and self.told and not (self.alone or self.total) and self._is_short()
        if by_numbers and all(reason.code in _BY_NUMBERS for reason in self.told):
            self._remember(self.told)

    def _numbers(self) -> tuple[int, ...]:
        level = self.shared.level()
        return self.match, *[min(level[at], units) for at, units in self.needs]

    def _is_short(self) -> bool:
        """Whether no node has enough of one of the resources, so that nothing else is told of nodes."""
        level = self.shared.level()
        return any(level[at] < units for at, units in self.needs)

    def _known(self) -> dict[tuple[int, ...], Reasons]:
        if self._before[0] is not self.away or self._before[1] != self.alone:
            self._before = self.away, self.alone, {}
        return self._before[2]

    def _remember(self, told: Reasons) -> None:
        known = self._known()
        if len(known) >= _REASONS:
            known.clear()
        known[self._numbers()] = told

    def numbers_moved(self) -> None:
        """The numbers, or what is told of nodes, are not what they were."""
        self._lacks, self.closest = (), NOWHERE
        self.unkept = self.in_reach = None
        if not self.alone:
            self.valid = False
        if self.line is not None:
            self.line.note(self)

    def tell_away(self, away: Sequence[tuple[str, Mapping[str, int], tuple[str, ...]]]) -> None:
        """Of the nodes that take none of its pods this is told from now on."""
        if away != self.away:
            self.away = away
            self.numbers_moved()

    def moved(self, match: int, empty: int) -> None:
        """It may use so many nodes now, on which so many more of its pods would fit if nothing ran. If that is too few,
        it is told which nodes are away.
        """
        self.match = match
        self.empty += empty
        self.unheld = self.unkept = self.in_reach = None
        if self.empty < self.pods:
            self.invalidate()
        else:
            self.numbers_moved()

    def invalidate(self) -> None:
        """What was told, or the numbers, are not true of the nodes as they are."""
        self.valid = False
        if self.line is not None:
            self.line.note(self)

    def begin(self, cycle: int, demand: Mapping[str, int], fewest: int) -> None:
        """All about it is found anew in this cycle."""
        self.cycle, self.demand, self.fewest = cycle, demand, fewest
        self.limits = self.over_quota = self.unheld = self.unkept = self.in_reach = None
        self.invalidate()
        self.counted = self.fixed = False
        self._lacks, self.closest = (), NOWHERE
        self._level = self.shared.level()

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
        shared, known = self.shared, self._known() if self.alone else {}
        if told := known.get(self._numbers()):
            return told[0]
        reason = explain.short_of(self.pod_class, self.match, shared.best())
        if reason is None:
            self._find_closest()
            row = self.closest[0]
            reason = explain.short_of(self.pod_class, self.match, shared.free_on(row), explain.CLOSEST)
            return None if reason is None else explain.with_additions(reason, self.away)
        found = explain.with_additions(reason, self.away)
        if self.alone:
            self._remember((found,))
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
        part = np.full(shared.free.shape[1], PARTS, np.int64)
        for at, units in self.needs:
            np.minimum(part, np.clip(shared.free[at], 0, units) * PARTS // units, out=part)
        part[~shared.mask] = -1
        row = int(part.argmax())
        self.closest = row, int(part[row])
        shared.closer.add(self)
