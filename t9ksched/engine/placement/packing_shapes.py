"""The usual shapes of pods, and what each of them could use of a node's free cards.

* `usable` learns the shapes from what has arrived. Cores and memory limit what a shape can use before they run out:
  they serve seven quarters of the cards that they would serve exactly, as pods are not all alike. Shapes that only a
  part of the cards can serve weigh more, and those more still that may run on few nodes, in so far as what may run
  nowhere else asks for much there, so that scarce models are kept for pods that need them. This is the rule of the
  scheduler.
* `fragmentation` is FGD of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), with shapes that are given: free
  cards on which a shape fits are all useful to it, others are not.

All numbers are whole; cards count in thousandths, memory in MiB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.placement.crowding import PLACES, crowding
from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardRequest, SharedCards, WholeCards
from t9ksched.model.podclass import PodClass

if TYPE_CHECKING:
    from t9ksched.engine.placement.trial import Trial

SCALE: Final = 1 << 20
"""What a weight of 1 is."""
_COVERED: Final = 990
"""Thousandths of the pods whose shapes count, the most frequent first."""
_COVERED_BY_FGD: Final = 950
_MOST_SHAPES: Final = 64
"""So many shapes are learned at most; all that are given count."""
_REACH: Final = (7, 4)
_FIXED: Final = 16
"""Binary places of what one core, or one MiB, serves."""
_LARGEST: Final = 1 << 40
"""No weight is larger: keeps values of nodes inside 64 bits."""
_MOST_SCARCE: Final = 100
"""A shape weighs at most so many times the mean."""
_FGD_SCORES: Final = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What one pod takes: millicores, MiB, and so many thousandths of each of `cards`."""

    cpu: int
    memory: int
    cards: int
    each: int

    @classmethod
    def of(cls, pod_class: PodClass) -> "Asked":
        """What a pod of the class takes."""
        requests = dict(pod_class.requests)
        cards = sum(pod_class.card_counts.values())
        each = max(map(_thousandths, pod_class.cards), default=0)
        return cls(requests.get("cpu", 0), -(-requests.get("memory", 0) >> 20), cards, each)

    @property
    def demand(self) -> int:
        """Thousandths of cards in all."""
        return self.cards * self.each

    @property
    def partly(self) -> bool:
        """Whether it takes a part of a single card."""
        return self.cards == 1 and self.each < CORES

    def resembles(self, other: "Asked") -> bool:
        """Whether both are one shape: as many cards, about as many cores, and not half or twice the memory."""
        return (
            (self.cards, self.each) == (other.cards, other.each)
            and other.cpu * 4 < self.cpu * 5
            and self.cpu * 4 < other.cpu * 5
            and other.memory < 2 * self.memory
            and self.memory < 2 * other.memory
        )


def _thousandths(request: CardRequest) -> int:
    """What it takes of a card; of one that reserves no cores, as far as it says."""
    if not isinstance(request, SharedCards):
        return CORES
    return request.cores or request.memory_percent * CORES // 100 or 1


class Sums(NamedTuple):
    """Of nodes, for each size of a part: the free thousandths of the cards on which it fits, and how many these are;
    both of shape (nodes, sizes).
    """

    share: Int64s
    cards: Int64s


class Shapes:
    """The usual shapes as columns, one entry a shape, with their weights.

    Attributes:
        limited: cores and memory count before they run out.
        whole: the sum of all weights.
        sizes: the sizes of parts that shapes ask for, in order, shape (sizes,).
        size_of: which of these each shape asks for; all that follow have shape (shapes,), too.
        cpu, memory, cards: what it asks for.
        per_core, per_mib: what one core, or one MiB, serves, in thousandths of cards times 2**`_FIXED`.
        weights: its weight on each node, shape (nodes, shapes).
    """

    def __init__(self, counted: Sequence[tuple[PodClass, int]], trial: "Trial", *, limited: bool) -> None:
        self.limited = limited
        found = _grouped(counted) if limited else _same(counted)
        kept = _most_frequent(found, _COVERED if limited else _COVERED_BY_FGD, _MOST_SHAPES if limited else len(found))
        total = max(sum(count for _, count in kept), 1)
        weights = [(2 * SCALE * count + total) // (2 * total) for _, count in kept]
        self.whole = sum(weights)
        # Pods without cards count among the usual ones, and can use nothing here.
        weighed = [(of, Asked.of(of), weight) for (of, _), weight in zip(kept, weights, strict=True)]
        useful = [one for one in weighed if one[1].cards]
        shapes = [asked for _, asked, _ in useful]
        self.sizes = np.array(sorted({one.each for one in shapes}), np.int64)
        self.size_of = np.searchsorted(self.sizes, [one.each for one in shapes]).astype(np.intp)
        self.cpu = np.array([one.cpu for one in shapes], np.int64)
        self.memory = np.array([one.memory for one in shapes], np.int64)
        self.cards = np.array([one.cards for one in shapes], np.int64)
        self._several = bool((self.cards > 1).any())
        more, of_all = _REACH
        self._demand = [one.demand for one in shapes]
        reach = np.array([more * demand << _FIXED for demand in self._demand], np.int64)
        self.per_core: Int64s = reach // (of_all * np.maximum(self.cpu, 1))
        self.per_mib: Int64s = reach // (of_all * np.maximum(self.memory, 1))
        masks = [trial.allowed(None, of) & _have_cards(of, trial) for of, _, _ in useful]
        # Contiguous by nodes: a few of them are taken again and again.
        self._masks: Mask = np.ascontiguousarray(np.array(masks, np.bool_).reshape(len(useful), len(trial.nodes)).T)
        self.weights: Int64s = np.where(self._masks, np.array([weight for *_, weight in useful], np.int64), 0)

    def weigh_by_capacity(self, cpu: Int64s, memory: Int64s, cards: Int64s) -> None:
        """Weigh each shape by how few of the cards can serve it, on empty nodes with these amounts, and more where what
        may run on no other nodes asks for much of them.
        """
        capacities = np.where(self._masks, self._usable(cpu, memory, self.sums(cards)), 0).sum(axis=0).tolist()
        weights, whole = self.weights.max(axis=0, initial=0).tolist(), int(cards.sum())
        asked = [weight * demand for weight, demand in zip(weights, self._demand, strict=True)]
        scarce = [
            weight * whole // max(capacity, 1) * crowded >> PLACES
            for weight, capacity, crowded in zip(
                weights, capacities, crowding(asked, self._masks, cards.sum(axis=1)), strict=True
            )
        ]
        # Shapes that almost no node serves would outweigh all others, and leave 64 bits.
        most = min(_MOST_SCARCE * max(sum(scarce) // max(len(scarce), 1), 1), _LARGEST)
        self.weights = np.where(self._masks, np.array([min(one, most) for one in scarce], np.int64), 0)

    def kinds(self) -> Indices:
        """Numbers of kinds of nodes, shape (nodes,): on those of one kind all shapes weigh the same."""
        rows = [row.tobytes() for row in self._masks]
        number = {row: at for at, row in enumerate(dict.fromkeys(rows))}
        return np.array([number[row] for row in rows], np.intp)

    def sums(self, cards: Int64s) -> Sums:
        """The sums of nodes with these cards, shape (nodes, cards)."""
        fits = cards[:, :, None] >= self.sizes
        return Sums(np.einsum("ncs,nc->ns", fits, cards), fits.sum(axis=1))

    def take(self, sums: Sums, cards: Int64s, asked: Asked, at: int | None) -> None:
        """Take what a pod takes of nodes with these cards: of the card at this position, else of the fullest on which
        it fits; of a pod with whole cards, so many of these.
        """
        if not asked.cards:
            return
        if asked.each == CORES:
            sums.share[:] -= CORES * asked.cards
            sums.cards[:] -= asked.cards
            return
        for _ in range(asked.cards):
            on = np.where(cards >= asked.each, cards, 1 << 40).argmin(axis=1) if at is None else at
            rows = np.arange(len(cards))
            before = cards[rows, on][:, None]
            after = before - asked.each
            had, has = before >= self.sizes, after >= self.sizes
            sums.share[:] += after * has - before * had
            sums.cards[:] += has.astype(np.int64) - had
            if asked.cards > 1:
                cards[rows, on] = 0  # the pod's next part is of another card

    def _usable(self, cpu: Int64s, memory: Int64s, sums: Sums) -> Int64s:
        """What each shape can use of nodes in these states, were they allowed, shape (nodes, shapes)."""
        usable: Int64s = sums.share.take(self.size_of, axis=1)
        fit = cpu[:, None] >= self.cpu
        if self.limited:
            served = memory[:, None] * self.per_mib
            np.minimum(served, cpu[:, None] * self.per_core, out=served)
            served >>= _FIXED
            np.minimum(usable, served, out=usable)
            fit &= memory[:, None] >= self.memory
        if self._several:
            fit &= sums.cards.take(self.size_of, axis=1) >= self.cards
        usable *= fit
        return usable

    def value(self, rows: Indices, cpu: Int64s, memory: Int64s, sums: Sums) -> Int64s:
        """The value of nodes in these states, in thousandths of cards times `SCALE`."""
        usable = self._usable(cpu, memory, sums)
        found: Int64s = np.einsum("ns,ns->n", usable, self.weights.take(rows, axis=0))
        return found


FGD_STEPS: Final = np.array(
    [ceil(CORES * SCALE * log(step / (_FGD_SCORES - step))) for step in range(1, _FGD_SCORES)], np.int64
)
"""The gains, in thousandths of cards times `SCALE`, from which on FGD's score is one more."""


def fgd(gained: Int64s) -> Int64s:
    """The score of FGD, 100 / (1 + e^-d) cut off to whole numbers, where fragmentation falls by `d` cards."""
    return np.searchsorted(FGD_STEPS, gained, side="right").astype(np.int64)


def prior(trial: "Trial") -> list[tuple[PodClass, int]]:
    """What is taken for usual before anything arrived: a pod with one card and its part of cores and memory, once."""
    static = trial.nodes.static
    names = [*static.cards.names]
    if not names:
        return []
    counts = {name: sum(facts.cards.counts.get(name, 0) for facts in static.facts) for name in names}
    name = max(names, key=lambda one: counts[one])
    with_cards = np.array([name in facts.cards for facts in static.facts], np.bool_)
    if not counts[name]:
        return []
    amounts = {"pods": 1, name: 1}
    for resource in ("cpu", "memory"):
        if (at := trial.resource_rows.get(resource)) is not None:
            amounts[resource] = int(static.allocatable[at][with_cards].sum()) // counts[name]
    requests = tuple(sorted((resource, amount) for resource, amount in amounts.items() if amount))
    return [(PodClass(requests, (WholeCards("main", name, 1),)), 1)]


def _have_cards(of: PodClass, trial: "Trial") -> Mask:
    """The nodes that have the card resources for which pods of the class ask."""
    found = np.ones(len(trial.nodes), np.bool_)
    for name in of.card_counts:
        at = trial.resource_rows.get(name)
        found &= False if at is None else trial.nodes.static.allocatable[at] > 0
    return found


def _grouped(counted: Sequence[tuple[PodClass, int]]) -> list[tuple[PodClass, int]]:
    """Classes that ask for nearly the same of the same nodes as one; those without cards are left out."""
    found: list[tuple[PodClass, Asked, int]] = []
    for of, count in counted:
        asked = Asked.of(of)
        if not asked.cards:
            continue
        for at, (other, theirs, before) in enumerate(found):
            if theirs.resembles(asked) and _where(other) == _where(of):
                found[at] = other, theirs, before + count
                break
        else:
            found.append((of, asked, count))
    return [(of, count) for of, _, count in found]


def _same(counted: Sequence[tuple[PodClass, int]]) -> list[tuple[PodClass, int]]:
    """Classes that ask for the same cards and cores of the same nodes as one."""
    found: dict[tuple[object, ...], tuple[PodClass, int]] = {}
    for of, count in counted:
        asked = Asked.of(of)
        key = (asked.cpu, asked.cards, asked.each, _where(of))
        first, before = found.get(key, (of, 0))
        found[key] = first, before + count
    return list(found.values())


def _where(of: PodClass) -> tuple[object, ...]:
    return of.node_selector, of.node_affinity, of.tolerations, of.choice


def _most_frequent(counted: Sequence[tuple[PodClass, int]], covered: int, most: int) -> list[tuple[PodClass, int]]:
    """The most frequent ones, until they are so many thousandths of all, or so many."""
    kept: list[tuple[PodClass, int]] = []
    total, sofar = sum(count for _, count in counted), 0
    for of, count in sorted(counted, key=lambda one: -one[1]):
        if sofar * 1000 >= total * covered or len(kept) >= most:
            break
        kept.append((of, count))
        sofar += count
    return kept
