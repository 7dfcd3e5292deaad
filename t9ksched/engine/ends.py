"""When running gangs give their room back, as columns that are kept from cycle to cycle.

Of thousands of ends, those that came or went since the last cycle are few: only these are looked at one by one. Not by
`np.isin` or `np.unique`: they import `numpy.ma` when they are first called, which would hold a cycle for 50 ms.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.card_worths import CardWorths
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.work import Work
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import ExpectedEnd
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARDS

_SOME: Final = 64
"""After so many ends others may have their turn."""
_AN_END: Final = 200
"""Units of work to take in an end."""
_FEW: Final = 256
"""So many classes are kept, whether ends have some of them or not."""


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Ends with room on nodes that there are, and the *entries* of this room: pods of one class on one node each.

    Attributes:
        sources: the ends; those without room on such nodes are left out.
        at: the moment of each, nanoseconds since the epoch, shape (ends,).
        queues: the position of the queue of each in `names`, shape (ends,).
        end, rows, kinds, pods: of each entry the position of its end, the row of the node, the position of the class in
            `classes`, and how many pods, shape (entries,).
        amounts: what each entry takes, shape (resources, entries).
        classes, names: all classes, and all queues.
    """

    sources: tuple[ExpectedEnd, ...]
    at: Int64s
    queues: Indices
    end: Indices
    rows: Indices
    kinds: Indices
    pods: Int64s
    amounts: Int64s
    classes: Sequence[PodClass]
    names: Sequence[str]

    def charged(
        self, queues: Collection[str], resource: str, worths: CardWorths | None = None
    ) -> tuple[Indices, Int64s]:
        """What ends of these queues pay of a resource until then: their positions, one an entry, and amounts. Of cards
        that is the least that `worths` tell.
        """
        ours = np.fromiter((name in queues for name in self.names), np.bool_, len(self.names))
        chosen = np.flatnonzero(ours[self.queues][self.end])
        if not len(chosen):
            return chosen, np.zeros(0, np.int64)
        kinds = self.kinds[chosen]
        if resource == CARDS and worths is not None:
            of, positions = _used(kinds, len(self.classes))
            least = np.array([worths.on(self.classes[at])[0] for at in of.tolist()], np.int64)
            amounts = least.reshape(len(of), -1)[positions, self.rows[chosen]] * self.pods[chosen]
        else:
            amounts = np.array([_amount(of, resource) for of in self.classes], np.int64)[kinds] * self.pods[chosen]
        paid = amounts > 0
        return self.end[chosen[paid]], amounts[paid]

    def at_least(self, moment: int, then: int) -> Int64s:
        """The moments, with `then` for those up to that moment."""
        return np.where(self.at > moment, self.at, then)

    def until(self, moment: int) -> Mask:
        """The entries of ends up to that moment."""
        chosen: Mask = (self.at <= moment)[self.end]
        return chosen


class KnownEnds:
    """The ends of the latest cycle, on the same nodes. What it gives is never written to later."""

    def __init__(self) -> None:
        self._known: dict[int, ExpectedEnd] = {}
        """By identity: a shell that has nothing new to say of a gang passes the same value again."""
        self._kinds: dict[int, int] = {}
        self._classes: list[PodClass] = []
        self._queues: dict[str, int] = {}
        self._names: list[str] = []
        self._needs: list[Int64s] = []
        self._columns: Ends | None = None

    @property
    def latest(self) -> Mapping[int, ExpectedEnd]:
        """The ends by identity; never written to."""
        return self._known

    def update(self, expected: Iterable[ExpectedEnd], trial: Trial) -> Work[Ends]:
        """The columns of these ends, in slices."""
        listed = tuple(expected)
        ends = dict(zip(map(id, listed), listed, strict=True))
        before = self._columns
        if before is None or ends.keys() != self._known.keys():
            came = [ends[key] for key in ends.keys() - self._known.keys()]
            came.sort(key=_gang)
            parts = [] if before is None else [_without(before, self._known.keys() - ends.keys())]
            for first in range(0, len(came), _SOME):
                parts.append(self._read(came[first : first + _SOME], trial))
                trial.meter.spent += _AN_END * _SOME
                yield
            self._columns = self._without_unused(_joined(parts) if parts else self._read((), trial))
            self._known = ends
        assert self._columns is not None
        return self._columns

    def _read(self, came: Sequence[ExpectedEnd], trial: Trial) -> Ends:
        index = trial.nodes.static.index
        sources: list[ExpectedEnd] = []
        entries: list[tuple[int, int, int, int]] = []
        parts: list[tuple[int, CardGrant]] = []
        for one in came:
            at = len(sources)
            held = [(at, index[node], self._kind(of, trial), pods) for node, of, pods in one.rooms if node in index]
            if held:
                first = {row: len(entries) + nth for nth, (_, row, _, _) in reversed(list(enumerate(held)))}
                parts += [(first[index[node]], cards) for node, cards in one.parts if index.get(node) in first]
                sources.append(one)
                entries += held
        end, rows, kinds, pods = np.array(entries, np.int64).reshape(-1, 4).T
        needs = np.array(self._needs, np.int64).reshape(len(self._needs), len(trial.free))
        amounts = needs[kinds].T * pods
        for entry, cards in parts:
            amounts[:, entry] += trial.counters(cards)
        at_ = np.array([one.at for one in sources], np.int64)
        queues = np.array([self._queue(one.queue) for one in sources], np.intp)
        return Ends(tuple(sources), at_, queues, end, rows, kinds, pods, amounts, self._classes, self._names)

    def _without_unused(self, ends: Ends) -> Ends:
        """The ends, with the classes that these have when most of those that are known belong to ends of before."""
        used, kinds = _used(ends.kinds, len(self._classes))
        if len(self._classes) <= _FEW + 2 * len(used):
            return ends
        self._classes = [self._classes[at] for at in used.tolist()]
        self._needs = [self._needs[at] for at in used.tolist()]
        self._kinds = {id(of): at for at, of in enumerate(self._classes)}
        return replace(ends, kinds=kinds, classes=self._classes)

    def _queue(self, name: str) -> int:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = len(self._names)
            self._names.append(name)
        return found

    def _kind(self, of: PodClass, trial: Trial) -> int:
        found = self._kinds.get(id(of))
        if found is None:
            found = self._kinds[id(of)] = len(self._classes)
            self._classes.append(of)
            self._needs.append(trial.needs(of))
        return found


def _gang(one: ExpectedEnd) -> str:
    return one.gang


def _used(kinds: Indices, count: int) -> tuple[Indices, Indices]:
    """Which of so many kinds there are, and the position of each entry's kind among them."""
    there = np.bincount(kinds, minlength=count) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[kinds]


def _without(ends: Ends, gone: Collection[int]) -> Ends:
    """The ends without those of these identities."""
    if not gone:
        return ends
    stay = np.fromiter((id(one) not in gone for one in ends.sources), np.bool_, len(ends.sources))
    positions = np.cumsum(stay) - 1
    entries = np.flatnonzero(stay[ends.end])
    return Ends(
        tuple(compress(ends.sources, stay.tolist())),
        ends.at[stay],
        ends.queues[stay],
        positions[ends.end[entries]],
        ends.rows[entries],
        ends.kinds[entries],
        ends.pods[entries],
        ends.amounts[:, entries],
        ends.classes,
        ends.names,
    )


def _joined(parts: Sequence[Ends]) -> Ends:
    """At least one part, as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    before = np.cumsum([0, *(len(part.sources) for part in parts[:-1])]).tolist()
    return Ends(
        tuple(chain.from_iterable(part.sources for part in parts)),
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.queues for part in parts]),
        np.concatenate([part.end + first for part, first in zip(parts, before, strict=True)]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.pods for part in parts]),
        np.concatenate([part.amounts for part in parts], axis=1),
        first.classes,
        first.names,
    )


def _amount(of: PodClass, resource: str) -> int:
    return sum(amount for name, amount in of.requests if name == resource)
