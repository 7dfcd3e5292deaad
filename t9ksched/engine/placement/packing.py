"""Packing of cards: the node on which a pod costs least of what the usual pods could still use.

For each usual shape of pods a node has some *usable* card room: all of its free cards on which such a pod fits, as far
as its cores and memory reach. A node's value is the sum over shapes, each weighed by how often it is asked for. A pod
goes where the value falls least, and among nodes that lose as little to the first in the order of names, which keeps
empty nodes empty. `packing_shapes.py` has the two rules by which room counts as usable. Two more rules know no shapes:
nodes go by how much of their cpu and cards is allocated.

Losses are kept for each class across cycles. A node that changed has another version, and only such nodes are looked at
again when the class is asked for. Where these are many, as after what is usual was weighed anew, one node of each state
is looked at for all that are in it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.kernel.native import chosen as kernel
from t9ksched.engine.kernel.packing_tables import AskedPod, PackingPoints, PackingTables
from t9ksched.engine.placement.free_cards import FreeCards
from t9ksched.engine.placement.packing_shapes import FGD_STEPS, SCALE, Asked, Shapes, Sums, fgd, prior
from t9ksched.engine.placement.scores import FULL
from t9ksched.engine.policy import Packing
from t9ksched.engine.usual_pods import Counted

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit
    from t9ksched.engine.placement.trial import Trial

_STEP: Final = 40
"""Losses that differ by less (thousandths of a card) are the same, and by less than an eighth of what the pod takes."""
_HALF: Final = 8
"""So many steps of loss halve the score: as much as the pod takes, of one that takes a third of a card or more."""
_MANY: Final = 64
"""From so many nodes on, those in the same state are looked at once."""
_MOST_CLASSES: Final = 512
"""Losses of so many classes are kept."""
_MOST_STATES: Final = 8
"""More states than this for each node are forgotten."""
_FGD: Final = FULL // 100
_BY_AMOUNT: Final = ("best-fit", "spread")


def _where(rows: Indices) -> "slice | Indices":
    """The same rows, of which a single one is a slice: no array is copied then."""
    return slice(int(rows[0]), int(rows[0]) + 1) if len(rows) == 1 else rows


def _step(asked: Asked) -> int:
    """Losses of a pod of this class that differ by less count as the same, in thousandths of cards times `SCALE`."""
    return max(_STEP, asked.demand // 8) * SCALE


class _Losses(msgspec.Struct):
    """What is kept of a class.

    Attributes:
        points: what packing adds to the score of each node.
        seen: of which version of each node this is.
        mask, by: the nodes on which `renew`, which is machine code, brings this up to date, and whose it is.
    """

    points: Int64s
    seen: Int64s
    mask: Mask | None = None
    by: PackingPoints | None = None
    renew: Callable[[], None] = lambda: None


class CardPacking:
    """The values of nodes across cycles; one follows one live table of nodes. It holds what can be found again."""

    def __init__(self) -> None:
        self._usual: Counted = ()
        self._policy = Packing()
        self._source: object = None
        self._losses: dict[tuple[object, ...], _Losses] = {}
        self._states: dict[bytes, int] = {}
        """The number of each state that nodes were in."""
        self._unnoted: set[int] = set()
        """Nodes that are in other states since these were noted."""
        self._native: PackingPoints | None = None
        """Finds the points in place of numpy; then neither sums nor states are kept."""

    def begin(self, trial: "Trial", policy: Packing, usual: Counted) -> None:
        """A cycle begins on this trial. `usual` are the pods that have arrived so far."""
        usual = () if policy.rule in _BY_AMOUNT else policy.shapes or usual
        static, free = trial.nodes.static, FreeCards(trial, trial.free)
        self._trial, self._touched = trial, len(trial.touched)
        anew = static is not self._source or policy != self._policy
        if anew:
            self._source, self._policy = static, policy
            self._empty = FreeCards(trial, static.allocatable, empty=True)
            self._prior = prior(trial)
            self._version: Int64s = np.zeros(len(trial.nodes), np.int64)
            self._free = free
        else:
            moved, self._free = self._free.unlike(free), free
            self._changed(moved)
        learned = anew or (usual is not self._usual and usual != self._usual)
        self._usual = usual
        if learned:
            self._learn(trial, policy, usual)
        self._native = None if policy.rule in _BY_AMOUNT else kernel().kernel.packing(self._tables())
        if learned and self._native is None:
            self._look_at_all()

    def _learn(self, trial: "Trial", policy: Packing, usual: Counted) -> None:
        counted = usual if policy.shapes or policy.rule in _BY_AMOUNT else (*self._prior, *usual)
        self._shapes = Shapes(counted, trial, limited=policy.rule == "usable")
        if self._shapes.limited:
            self._shapes.weigh_by_capacity(self._empty.cpu, self._empty.memory, self._empty.cards)
        self._losses.clear()
        self._value: Int64s = np.zeros_like(self._version)
        self._valued: Int64s = np.full_like(self._version, -1)

    def _look_at_all(self) -> None:
        """Find what numpy keeps of each node: its sums, its value and its state."""
        everywhere = np.arange(len(self._version))
        self._sums = self._shapes.sums(self._free.cards)
        self._value[:] = self._shapes.value(everywhere, self._free.cpu, self._free.memory, self._sums)
        self._valued[:] = self._version
        self._kind = self._shapes.kinds()
        self._states.clear()
        self._state: Indices = np.zeros(len(everywhere), np.intp)
        self._note_states(everywhere)

    def _tables(self) -> PackingTables:
        """What machine code finds the points from, as long as neither nodes nor shapes are others."""
        free, of, weight = self._free, self._shapes, self._policy.weight
        wants = of.size_of, of.cpu, of.memory, of.cards, of.per_core, of.per_mib, of.weights
        versions = self._version, self._valued, self._value
        scores = FULL * _HALF, _HALF, _FGD, weight
        return PackingTables(
            free.cpu, free.memory, free.cards, *versions, of.sizes, *wants, FGD_STEPS, of.limited, of.whole, *scores
        )

    def _changed(self, rows: Indices) -> None:
        """These nodes have something else free."""
        if len(rows):
            where = _where(rows)
            self._version[where] += 1
            if self._native is None:
                self._sums.share[where], self._sums.cards[where] = self._shapes.sums(self._free.cards[where])
                self._unnoted.update(rows.tolist())

    def _note_states(self, rows: Indices) -> None:
        """These nodes are in other states: what decides losses there, whichever node it is."""
        free, states = self._free, self._states
        self._unnoted.clear()
        if len(states) > _MOST_STATES * len(self._state):
            states.clear()
            rows = np.arange(len(self._state))
        there = np.column_stack(
            (self._kind[rows], free.cpu[rows], free.memory[rows], np.sort(free.cards[rows], axis=1))
        )
        size = there.itemsize * there.shape[1]
        packed = there.tobytes()
        known = [states.setdefault(packed[at : at + size], len(states)) for at in range(0, len(packed), size)]
        self._state[rows] = known

    def points(self, column: "ClassFit") -> Int64s:
        """What packing adds to the score of each node for one more pod of the class, shape (nodes,): less, the more is
        lost. Nodes on which it does not fit have any.
        """
        self._follow()
        key = (column.selector, column.pod_class)
        known = self._losses.get(key)
        if known is None:
            if len(self._losses) >= _MOST_CLASSES:
                self._losses.pop(next(iter(self._losses)))
            size = len(self._version)
            known = self._losses[key] = _Losses(np.zeros(size, np.int64), np.full(size, -1, np.int64))
        points, seen = known.points, known.seen
        if self._native is not None:
            if known.mask is not column.mask or known.by is not self._native:
                known.mask, known.by = column.mask, self._native
                asked = column.asked
                pod = AskedPod(asked.cpu, asked.memory, asked.cards, asked.each, _step(asked))
                known.renew = self._native.renewal(pod, column.mask, seen, points)
            known.renew()
            return points
        stale = ((seen != self._version) & column.mask).nonzero()[0]
        if len(stale):
            seen[stale] = self._version[stale]
            if len(stale) < _MANY:
                points[stale] = self._points(column.asked, stale)
            else:
                points[stale] = self._by_state(column.asked, stale)
        return points

    def _by_state(self, asked: Asked, rows: Indices) -> Int64s:
        """The points of these nodes; of those in one state one is looked at."""
        if self._unnoted:
            self._note_states(np.array(sorted(self._unnoted), np.intp))
        states, places = self._state[rows], np.arange(len(rows))
        one_of = np.zeros(len(self._states), np.intp)
        one_of[states] = places
        chosen = np.flatnonzero(one_of[states] == places)
        found = np.zeros(len(rows), np.int64)
        found[chosen] = self._points(asked, rows[chosen])
        return found[one_of[states]]

    def _follow(self) -> None:
        """Take in what was placed or taken back since the last look."""
        touched = self._trial.touched
        if self._touched < len(touched):
            rows = np.array(list(set(touched[self._touched :])), np.intp)
            self._touched = len(touched)
            self._free.renew(rows)
            self._changed(rows)

    def _points(self, asked: Asked, rows: Indices) -> Int64s:
        free, shapes = self._free, self._shapes
        cpu, memory, cards = free.cpu[rows] - asked.cpu, free.memory[rows] - asked.memory, free.cards[rows]
        if self._policy.rule in _BY_AMOUNT:
            return self._by_amount(rows, cpu, cards.sum(axis=1) - asked.demand)
        fits = (cpu >= 0) & (memory >= 0)
        if asked.cards:
            fits &= (cards >= asked.each).sum(axis=1) >= asked.cards
        found = np.zeros(len(rows), np.int64)
        if not fits.all():
            rows, cpu, memory, cards = rows[fits], cpu[fits], memory[fits], cards[fits]
        sums = Sums(self._sums.share[rows], self._sums.cards[rows])
        if shapes.limited:
            shapes.take(sums, cards, asked, None)
            lost = self._lost(rows, cpu, memory, sums)
            found[fits] = FULL * _HALF // (_HALF + np.maximum(lost, 0) // _step(asked))
        elif not asked.partly:
            shapes.take(sums, cards, asked, None)
            found[fits] = _FGD * self._fgd(asked, rows, cpu, memory, sums)
        else:
            best = np.full(len(rows), -1, np.int64)
            for at in range(cards.shape[1]):
                on = np.flatnonzero(cards[:, at] >= asked.each)
                part = Sums(sums.share[on], sums.cards[on])
                shapes.take(part, cards[on], asked, at)
                best[on] = np.maximum(best[on], self._fgd(asked, rows[on], cpu[on], memory[on], part))
            found[fits] = _FGD * best
        return found * self._policy.weight

    def _lost(self, rows: Indices, cpu: Int64s, memory: Int64s, sums: Sums) -> Int64s:
        """The value that these nodes lose when they have so much left. What they are worth now is looked up, or found
        in the same sweep.
        """
        old, free, shapes = rows[self._valued[rows] != self._version[rows]], self._free, self._shapes
        if not len(old):
            return self._value[rows] - shapes.value(rows, cpu, memory, sums)
        share, cards = self._sums
        found = shapes.value(
            np.concatenate((old, rows)),
            np.concatenate((free.cpu[old], cpu)),
            np.concatenate((free.memory[old], memory)),
            Sums(np.concatenate((share[old], sums.share)), np.concatenate((cards[old], sums.cards))),
        )
        self._value[old], self._valued[old] = found[: len(old)], self._version[old]
        return self._value[rows] - found[len(old) :]

    def _by_amount(self, rows: Indices, cpu: Int64s, cards: Int64s) -> Int64s:
        """The points of nodes that have so many millicores, and so many thousandths of cards, left: of a full score the
        part that is allocated, cpu and cards counting alike, or with `spread` the part that is left.
        """
        whole = np.stack([self._empty.cpu[rows], self._empty.cards[rows].sum(axis=1)])
        left = np.clip(np.stack([cpu, cards]), 0, whole)
        counts = np.maximum((whole > 0).sum(axis=0), 1)
        parts: Int64s = (
            FULL // counts // np.maximum(whole, 1) * (left if self._policy.rule == "spread" else whole - left)
        )
        found: Int64s = parts.sum(axis=0) * self._policy.weight
        return found

    def _fgd(self, asked: Asked, rows: Indices, cpu: Int64s, memory: Int64s, sums: Sums) -> Int64s:
        """FGD's points of nodes that have so much left."""
        lost = self._lost(rows, cpu, memory, sums)
        return fgd(asked.demand * self._shapes.whole - lost)

    def card(self, column: "ClassFit", row: int) -> int | None:
        """The card on which the pod loses least, for a rule that looks at each; None where it is the fullest."""
        asked, free = column.asked, self._free
        if self._policy.rule != "fragmentation" or not asked.partly:
            return None
        self._follow()
        rows = np.array([row])
        cpu, memory, cards = free.cpu[rows] - asked.cpu, free.memory[rows] - asked.memory, free.cards[rows]

        now = self._shapes.sums(cards)
        self._value[rows] = self._shapes.value(rows, free.cpu[rows], free.memory[rows], now)
        self._valued[rows] = self._version[rows]

        def points(at: int) -> int:
            sums = Sums(now.share.copy(), now.cards.copy())
            self._shapes.take(sums, cards, asked, at)
            return int(self._fgd(asked, rows, cpu, memory, sums)[0])

        able = np.flatnonzero(cards[0] >= asked.each).tolist()
        return max(able, key=lambda at: (points(at), -at))
