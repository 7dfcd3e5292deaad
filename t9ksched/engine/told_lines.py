"""A line of which all gangs were told without a turn, kept to be told again.

While nothing changed for any of its gangs, a line is told at once, whatever its length. It learns which kinds of gangs
may have to be told otherwise (`moved`), and finds those among the others that room on some nodes could help. Gangs of
which no pod fits anywhere are told the most that is free of what they lack. As pods end and come that is soon as it
was, so it is kept what all of the line were told at some such levels.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Int64s, There
from t9ksched.engine.plan import Waiting
from t9ksched.engine.shared_rooms import Shared
from t9ksched.engine.wait_kinds import Kind, Level, Limits, Reasons, hopeless
from t9ksched.engine.work import Meter, Work
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code

_MANY: Final = 64
"""If more kinds than that are told otherwise, it is found out anew of which no pod fits anywhere."""


_KEPT: Final = 4
"""For so many levels it is kept what was told, besides the present one."""
_SOME: Final = 128
"""So many kinds are taken in at a time."""
_A_KIND: Final = 1_000
"""Units of work to take in a kind."""


class _Sums:
    """How many that ask for the same lack room, and for how many of them victims could be looked for."""

    def __init__(self) -> None:
        self._of: dict[Kind, tuple[bool, bool]] = {}
        self.beside: dict[Kind, None] = {}
        """Those that are told of room which is not free for them only because of others."""
        self._tried: Counter[object] = Counter()
        self._searched: Counter[object] = Counter()

    def copy(self) -> "_Sums":
        """The same, to be changed."""
        made = _Sums()
        made._of, made._tried, made._searched = self._of.copy(), self._tried.copy(), self._searched.copy()
        made.beside = self.beside.copy()
        return made

    @property
    def tried(self) -> int:
        return len(self._tried)

    @property
    def searched(self) -> int:
        return len(self._searched)

    def count(self, kind: Kind, told: Reasons) -> None:
        """Gangs of the kind are told that now."""
        if told[0].code == Code.HELD_FOR_OTHER:
            self.beside[kind] = None
        else:
            self.beside.pop(kind, None)
        was = self._of.get(kind, (False, False))
        now = self._of[kind] = kind.over_quota is None, not hopeless(told)
        for sums, before, after in zip((self._tried, self._searched), was, now, strict=True):
            if before != after:
                sums[kind.ident] += after - before
                if not sums[kind.ident]:
                    del sums[kind.ident]


class _Before(NamedTuple):
    """What was told at another level, and the kinds that may be told otherwise at that level by now."""

    told: list[Waiting]
    kinds: dict[Kind, Reasons]
    sums: _Sums
    moved: dict[Kind, None]
    limits: Limits | None


class ToldLine:
    """What was told to the gangs of a line.

    Attributes:
        source: the gangs, best first.
        told: what each was told.
        kinds: the kinds of these gangs, each with what was told.
        moved: kinds of which the numbers, or what was told, may have changed.
        limits: what the queue might have and had.
        cycle: the latest cycle in which all of it was told.
        uids: the gangs by UID.
        collecting: those for which room is collected, by UID, with their positions.
        tried, searched, alike: what it adds to the numbers of a cycle (`Stats`), `searched` where victims matter.
    """

    def __init__(self, source: list[Gang], of: list[Kind | None], told: list[Waiting], cycle: int) -> None:
        """See `made`."""
        self.source = source
        self.kinds: dict[Kind, Reasons] = {}
        self.told = told
        self.moved: dict[Kind, None] = {}
        self.limits: Limits | None = None
        self.cycle = cycle
        self.uids: set[str] = set()
        self.collecting: dict[str, int] = {}
        self._of = of
        self._shared: dict[Shared, Int64s] = {}
        """The nodes that gangs of it may use, with the most that one of their pods needs of each resource."""
        self._before: dict[tuple[Level, ...], _Before] = {}
        self._places: dict[Kind, list[int]] = {}
        self._closer: dict[Kind, None] | None = None
        """Kinds to which `_nowhere` does not apply; None before it is needed."""
        self._nowhere: list[tuple[Shared, list[Kind], Int64s]] = []
        """Kinds of which no pod fits on any of the nodes that they share, with what one needs."""
        self._sums = _Sums()
        self._level: tuple[Level, ...] = ()
        self.alike = 0

    @classmethod
    def made(
        cls,
        source: list[Gang],
        kinds: dict[Kind, Reasons],
        of: list[Kind | None],
        told: list[Waiting],
        cycle: int,
        meter: Meter,
    ) -> Work["ToldLine"]:
        """The line, made in slices; no kind knows it yet (`begin`). `of` has the kind of each gang, None for one
        that is told the same while it is as it is.
        """
        made, idents = cls(source, of, told, cycle), set[object]()
        pairs = iter(kinds.items())
        while some := list(islice(pairs, _SOME)):
            for kind, reasons in some:
                made.kinds[kind] = reasons
                made._sums.count(kind, reasons)
                idents.add(kind.ident)
                most = made._shared.setdefault(kind.shared, np.zeros(kind.shared.free.shape[0], np.int64))
                for at, units in kind.needs:
                    most[at] = max(most[at], units)
            meter.spent += _A_KIND * len(some)
            yield
        for first in range(0, len(source), _SOME):
            made.uids.update(gang.uid for gang in source[first : first + _SOME])
            meter.spent += 10 * _SOME
            yield
        made.alike = len(of) - of.count(None) - len(idents)
        return made

    def begin(self) -> None:
        """From now on its kinds tell it what may be another thing."""
        for kind in self.kinds:
            kind.line = self
        self._level = self._level_now()

    @property
    def beside(self) -> Collection[Kind]:
        """Kinds of which room is held or kept from their gangs: they are told otherwise when it is not any more."""
        return self._sums.beside

    @property
    def tried(self) -> int:
        """See the class."""
        return self._sums.tried

    @property
    def searched(self) -> int:
        """See the class."""
        return self._sums.searched

    def note(self, kind: Kind) -> None:
        """What gangs of the kind are told may be another thing now, or would be at other levels."""
        self.moved[kind] = None
        for before in self._before.values():
            before.moved[kind] = None

    def _level_now(self) -> tuple[Level, ...]:
        """The most that is free of each resource, as far as that decides what any gang is told."""
        return tuple(
            tuple(np.minimum(np.array(shared.level(), np.int64), most).tolist())
            for shared, most in self._shared.items()
        )

    def follow(self) -> None:
        """Another level may be the present one: then what was told at that is taken up, or all those of which no pod
        fits anywhere are among those that moved.
        """
        now = self._level_now()
        if now == self._level:
            return
        known = self._before.pop(now, None)
        if len(self._before) >= _KEPT:
            del self._before[next(iter(self._before))]
        moved = self.moved.copy()
        for shared in self._shared:
            # What is told of one node does not follow from the level.
            moved.update(dict.fromkeys(kind for kind in shared.closer if kind in self.kinds))
        self._before[self._level] = _Before(self.told, self.kinds, self._sums, moved, self.limits)
        self._level = now
        if known is not None and known.limits == self.limits:
            self.told, self.kinds, self._sums = known.told, known.kinds, known.sums
            self.moved.update(known.moved)
            self._closer = None
        else:
            self.told, self.kinds, self._sums = self.told.copy(), self.kinds.copy(), self._sums.copy()
            self.moved.update(dict.fromkeys(kind for kind in self.kinds if kind.counted and not kind.total))

    def tell_collecting(self, uid: str, told: Reasons) -> None:
        """The gang, for which room is collected, is told that from now on."""
        at = self.collecting[uid]
        if self.told[at].reasons != told:
            self.told[at] = Waiting(uid, told, at + 1)

    def tell(self, kind: Kind, told: Reasons) -> None:
        """Gangs of the kind are told that from now on."""
        if not self._places:
            for at, one in enumerate(self._of):
                if one is not None:
                    self._places.setdefault(one, []).append(at)
        self.kinds[kind] = told
        self._sums.count(kind, told)
        for at in self._places[kind]:
            self.told[at] = Waiting(self.told[at].gang, told, at + 1)
        if self._closer is not None:
            self._closer[kind] = None

    def looked_at(self, kinds: Collection[Kind]) -> None:
        """It was found out what these kinds are told."""
        self.moved.clear()
        if len(kinds) > _MANY:
            self._closer = None
        elif self._closer is not None:
            self._closer.update(dict.fromkeys(kinds))

    def helped(self, there: There) -> Iterator[Kind]:
        """Kinds that would perhaps be told otherwise if that was free."""
        if self._closer is None:
            self._closer = self._part()
        yield from self._closer
        for shared, kinds, needs in self._nowhere:
            most = np.array(shared.inside(there).most, np.int64)
            for at in np.flatnonzero((needs <= most).all(axis=1)).tolist():
                yield kinds[at]

    def _part(self) -> dict[Kind, None]:
        """The kinds of which some pods fit, or of which the numbers do not say how many do."""
        closer: dict[Kind, None] = {}
        nowhere: dict[Shared, list[Kind]] = {}
        for kind, told in self.kinds.items():
            if kind.counted and not kind.total and told[0].code != Code.HELD_FOR_OTHER:
                nowhere.setdefault(kind.shared, []).append(kind)
            elif not kind.fixed:
                closer[kind] = None
        self._nowhere = [(shared, kinds, _needs(shared, kinds)) for shared, kinds in nowhere.items()]
        return closer


def _needs(shared: Shared, kinds: list[Kind]) -> Int64s:
    """What one pod of each kind needs, shape (kinds, resources)."""
    found = np.zeros((len(kinds), shared.free.shape[0]), np.int64)
    for at, kind in enumerate(kinds):
        for resource, units in kind.needs:
            found[at, resource] = units
    return found
