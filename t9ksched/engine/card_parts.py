"""Parts of cards: how many pods fit on nodes that divide their cards, and which cards they get.

The counters of each divided card (cores, memory, places) are rows of the same columns that have all other amounts, so
that what is taken, given back, lent or undone moves them along. A part must be on one card: room is counted card by
card, never in sum. A whole card is all its counters.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.cards import bits, how_many
from t9ksched.engine.kernel.key_tables import PartColumns
from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_size import CORES
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardPart, CardRequest, SharedCards, counter
from t9ksched.model.quantity import CARD

T = TypeVar("T")
_NONE: Final = np.iinfo(np.int64).max
LARGEST: Final = 1 << 50
"""MiB; more than any card has."""
_MOST_NEEDS: Final = 512
Card = tuple[int, int, int, int]
"""A card of one node: how many parts fit on it, cores and memory left, and its index."""


class DividedCards:
    """The divided cards of one resource on the nodes of one cycle.

    Attributes:
        resource: what they are called.
        nodes: the nodes that divide them, shape (nodes,).
        everywhere: whether all nodes do.
        cores, memory, places: the rows of the cards' counters among the columns of amounts, in order of indices.
        size: memory of each card in MiB, shape (cards, nodes).
        numa: the NUMA node to which each card is attached, same shape.
        rows: all of these rows.
        unit: how many MiB pods mean by one of memory, shape (nodes,).
    """

    def __init__(
        self, resource: str, tables: Sequence[CardTable], rows: Mapping[str, int], allocatable: Int64s
    ) -> None:
        self.resource = resource
        sizes = [table.divided.get(resource, ()) for table in tables]
        most = max(map(len, sizes))
        self.nodes: Mask = np.array([bool(each) for each in sizes], np.bool_)
        self.everywhere = bool(self.nodes.all())
        self.cores = _rows([rows[counter(resource, at, "cores")] for at in range(most)])
        self.memory = _rows([rows[counter(resource, at, "memory")] for at in range(most)])
        self.places = _rows([rows[counter(resource, at, "places")] for at in range(most)])
        self.rows = tuple(
            row for each in (self.cores, self.memory, self.places) for row in range(*each.indices(len(allocatable)))
        )
        self.size: Int64s = allocatable[self.memory]
        self.numa: Int64s = np.zeros(self.size.shape, np.int64)
        for row, each in enumerate(sizes):
            self.numa[: len(each), row] = [card.numa for card in each]
        self.unit: Int64s = np.array([each[0].unit if each else 1 for each in sizes], np.int64)
        self._cards = sizes
        self._tables = tables
        self._needs: dict[tuple[int, CardRequest, CardFilter | None], PartNeed] = {}
        self._slots: dict[tuple[tuple[CardRequest, ...], CardFilter | None], Any] = {}
        self._kinds: dict[tuple[bytes, int, bool], int] = {}
        self._kind_of: dict[int, int] = {}

    def need(self, count: int, request: CardRequest, only: CardFilter | None = None) -> "PartNeed":
        """What a pod needs that asks so for `count` cards, `only` of these; kept, because every cycle asks for the
        same.
        """
        key = count, request, only
        found = self._needs.get(key)
        if found is None:
            if len(self._needs) >= _MOST_NEEDS:
                self._needs.clear()
            found = self._needs[key] = PartNeed(self, count, request, only)
            if only is not None:
                dear = found.worth() > only.most_cards if only.most_cards else False
                found.memory[self._unfit(only) | dear] = LARGEST
        return found

    def slots(self, requests: tuple[CardRequest, ...], only: CardFilter | None, make: Callable[[], T]) -> T:
        """As `need` for pods of which several containers ask for cards; `make` makes it where it is not kept yet."""
        key = requests, only
        if key not in self._slots:
            if len(self._slots) >= _MOST_NEEDS:
                self._slots.clear()
            self._slots[key] = make()
        found: T = self._slots[key]
        return found

    def _unfit(self, only: CardFilter) -> Mask:
        """The cards that will not do, shape (cards, nodes)."""
        found = np.zeros(self.size.shape, np.bool_)
        for row, sizes in enumerate(self._cards):
            for at, size in enumerate(sizes):
                found[at, row] = not only.allows(size.model, size.uuid)
        return found

    def kind(self, row: int) -> int:
        """A number that nodes have in common which divide such cards alike."""
        found = self._kind_of.get(row)
        if found is None:
            cards = self.size[:, row].tobytes(), int(self.unit[row]), bool(self.nodes[row])
            found = self._kind_of[row] = self._kinds.setdefault(cards, len(self._kinds))
        return found

    @cached_property
    def counts(self) -> Int64s:
        """How many cards each node has, shape (nodes,)."""
        return np.array([len(each) for each in self._cards], np.int64)

    @cached_property
    def withdrawn(self) -> Int64s:
        """How many of them take no work, shape (nodes,)."""
        masks = (table.withdrawn for table in self._tables)
        return np.array([mask.count(self.resource) if mask else 0 for mask in masks], np.int64)

    def part_free(self, free: Int64s, where: "slice | Indices") -> Int64s:
        """What is left of each card in thousandths, of cores or of memory, whichever is less: shape (cards, nodes)."""
        memory = free[self.memory][:, where] * CORES // np.maximum(self.size[:, where], 1)
        return np.maximum(np.minimum(free[self.cores][:, where], memory), 0)

    def part_free_on(self, left: Int64s, row: int) -> list[int]:
        """The same of each card of one node, of which `left` is the column."""
        columns = zip(left[self.cores].tolist(), left[self.memory].tolist(), self.size[:, row].tolist(), strict=True)
        return [max(min(cores, memory * CORES // max(size, 1)), 0) for cores, memory, size in columns]


class PartNeed:
    """What one pod of a class needs of the divided cards of one resource: as much of each of `count` cards.

    Attributes:
        cores: thousandths of each card.
        whole: whether it takes all of each.
        percent: of the memory of each card, where it asks so; else 0.
        least: MiB that a card must have, where it asks so; else 0. Shape as `memory`.
        memory: MiB on each, shape (cards, nodes) as `DividedCards.size`: on cards of another size a percentage is
            another amount, on cards that will not do it is `LARGEST`.
        only: which cards will do; None for any.
        groups: where all cards of a pod are to be attached to one NUMA node: of each such number the cards, shapes as
            `memory`. Empty where any will do.
    """

    def __init__(self, of: DividedCards, count: int, request: CardRequest, only: CardFilter | None = None) -> None:
        self.of = of
        self.only = only
        self.count = count
        together = only is not None and only.together and count > 1
        numbers = np.unique(of.numa) if together else ()
        self.groups: tuple[Mask, ...] = tuple(of.numa == number for number in numbers) if len(numbers) > 1 else ()
        self.cores, wanted, percent = CORES, 0, 100
        if isinstance(request, SharedCards):
            self.cores, wanted, percent = min(request.cores, CORES), request.memory, request.memory_percent
        self.whole = self.cores >= CORES
        self.percent = 100 if self.whole else 0 if wanted else percent or 100
        self.least: Int64s = np.minimum(np.full_like(of.size, wanted) * of.unit, LARGEST - 1)
        self.memory: Int64s = self.least
        if self.whole:  # nobody else uses what it leaves, and it must be as large as it says
            self.memory = np.maximum(self.least, np.maximum(of.size, 1))
        elif not wanted:
            self.memory = -(-np.maximum(of.size, 1) * self.percent // 100)

    def worth(self) -> Int64s:
        """What a pod has of physical cards on each card, if it had as much of all of its cards: shape as `memory`."""
        of_memory = -(-np.minimum(self.memory, self.of.size) * CARD // np.maximum(self.of.size, 1))
        found: Int64s = self.count * np.maximum(self.cores * CARD // CORES, of_memory)
        return found

    def on(self, row: int) -> bool:
        """Whether the node of this row divides its cards."""
        return bool(self.of.nodes[row])

    def rooms(self, free: Int64s, rows: Indices | None = None) -> Int64s:
        """How many pods find cards on each of these nodes (None for all), `free` being all columns; very many where
        cards are not divided.
        """
        of = self.of
        if rows is None and not of.everywhere:
            found = np.full(free.shape[1], _NONE, np.int64)
            here = np.flatnonzero(of.nodes)
            found[here] = self.rooms(free, here)
            return found
        counters = free[of.cores], free[of.memory], free[of.places], self.memory
        pods = self._pods_of(self._fits(*(counters if rows is None else [each[:, rows] for each in counters])), rows)
        return pods if rows is None or of.everywhere else np.where(of.nodes[rows], pods, _NONE)

    def rooms_of(self, left: Int64s, rows: Indices) -> Int64s:
        """As `rooms`, where `left` has columns for these nodes alone, in this order: shape (resources, len(rows))."""
        of = self.of
        counters = left[of.cores], left[of.memory], left[of.places], self.memory[:, rows]
        if of.everywhere:
            return self._pods_of(self._fits(*counters), rows)
        found = np.full(len(rows), _NONE, np.int64)
        here = np.flatnonzero(of.nodes[rows])
        if len(here):
            found[here] = self._pods_of(self._fits(*(each[:, here] for each in counters)), rows[here])
        return found

    def fits_of(self, left: Int64s, rows: Indices) -> Int64s:
        """How many parts fit on each card, for columns as `rooms_of` has them, of nodes that divide their cards; shape
        (cards, len(rows)).
        """
        of = self.of
        return self._fits(left[of.cores], left[of.memory], left[of.places], self.memory[:, rows])

    def _fits(self, cores: Int64s, memory: Int64s, places: Int64s, wanted: Int64s) -> Int64s:
        """How many parts fit on each card, from what is left of it; equal shapes (cards, …)."""
        fits = np.minimum(places, memory // wanted)
        fits = np.minimum(fits, cores // self.cores) if self.cores else np.where(cores > 0, fits, 0)
        found: Int64s = np.maximum(fits, 0)
        return found

    def fits(self, free: Int64s, rows: Indices | None = None) -> Mask:
        """Whether a pod finds cards on each of these nodes: where `rooms` is more than 0, in less time."""
        of = self.of
        counters = free[of.cores], free[of.memory], free[of.places], self.memory
        cores, memory, places, wanted = counters if rows is None else [each[:, rows] for each in counters]
        fits: Mask = cores >= max(self.cores, 1)
        fits &= memory >= wanted
        fits &= places > 0
        found: Mask = np.logical_or.reduce(fits) if self.count == 1 else fits.sum(axis=0) >= self.count
        if self.groups:
            groups = (group if rows is None else group[:, rows] for group in self.groups)
            found = np.logical_or.reduce([(fits & group).sum(axis=0) >= self.count for group in groups])
        return found if of.everywhere else found | ~(of.nodes if rows is None else of.nodes[rows])

    @cached_property
    def columns(self) -> PartColumns | None:
        """The same as numbers for machine code; None where cards are in groups."""
        if self.groups:
            return None
        of = self.of
        cores, memory, places = (
            np.arange(each.start, each.stop, each.step) for each in (of.cores, of.memory, of.places)
        )
        wanted = np.ascontiguousarray(self.memory)
        return PartColumns(
            self.count, max(self.cores, 1), (cores, memory, places), wanted, of.nodes, everywhere=of.everywhere
        )

    def _pods_of(self, fits: Int64s, rows: Indices | None) -> Int64s:
        """As `_pods`, on nodes of these rows (None for all): every pod has cards of one group, if there are groups."""
        if not self.groups:
            return self._pods(fits)
        each = [group if rows is None else group[:, rows] for group in self.groups]
        found: Int64s = np.sum([self._pods(np.where(group, fits, 0)) for group in each], axis=0)
        return found

    def _pods(self, fits: Int64s) -> Int64s:
        """How many pods with `count` cards each, from how many parts fit on each card, shape (cards, nodes)."""
        pods: Int64s = fits.sum(axis=0) // self.count
        if self.count == 1:
            return pods
        while True:  # a card serves each pod once: no card has more parts than there are pods
            fewer = np.minimum(fits, pods).sum(axis=0) // self.count
            if np.array_equal(fewer, pods):
                return pods
            pods = fewer

    def room(self, left: Int64s, row: int) -> int:
        """How many pods find cards on one node, which divides its cards; `left` is its column."""
        return sum(self._room([each for each, *_ in those]) for those in self._grouped(left, row))

    def _room(self, fits: Sequence[int]) -> int:
        pods = sum(fits) // self.count
        while self.count > 1 and (fewer := sum(min(each, pods) for each in fits) // self.count) < pods:
            pods = fewer
        return pods

    def _grouped(self, left: Int64s, row: int) -> list[list[Card]]:
        """The cards of a node on which a part fits: all of them, or of each group."""
        cards = list(self._cards(left, row))
        if not self.groups:
            return [cards]
        return [[card for card in cards if group[card[-1], row]] for group in self.groups]

    def _open(self, left: Int64s, row: int, pods: int) -> list[Card]:
        """The cards among which the next of so many pods gets its own: a group that has enough, of the one with most
        room, a single pod of the fullest.
        """
        able = [those for those in self._grouped(left, row) if len(those) >= self.count]
        if pods > 1:
            return max(able, key=lambda those: self._room([each for each, *_ in those]), default=[])
        return min(able, key=lambda those: sum(cores for _, cores, *_ in those), default=[])

    def _cards(self, left: Int64s, row: int) -> Iterator[Card]:
        """The cards of a node on which a part fits: how many parts, cores and memory left, and the index."""
        of, asked = self.of, self.cores
        columns = (left[of.cores], left[of.memory], left[of.places], self.memory[:, row])
        for at, (cores, memory, places, wanted) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
            if cores >= asked and cores > 0 and memory >= wanted and places > 0:
                fits = min(places, memory // wanted)
                yield (min(fits, cores // asked) if asked else fits), cores, memory, at

    def take(self, left: Int64s, row: int, pods: int, card: int | None = None) -> Iterator[int]:
        """Take cards for pods on a node, which must fit; the cards of each as a mask. `left` is the node's column, a
        view, which is written to.

        One that asks for one card gets the fullest that suffices, unless it says otherwise; of many with several cards
        each, every one gets the cards with the most left, so that all find some. A single pod gets a certain `card` if
        that is given.
        """
        spread = self.only is not None and self.only.spread
        if card is not None:
            self.move(left, row, 1 << card, 1)
            yield 1 << card
            return
        if pods == 1 and self.count == 1 and not self.groups:
            at = self._one(left, row, spread=spread)
            if at is not None:
                self.move(left, row, 1 << at, 1)
            yield 0 if at is None else 1 << at
            return
        order = _most if self.count > 1 and pods > 1 else _emptiest if spread else _fullest
        for _ in range(pods):
            cards = self._open(left, row, pods) if self.groups else self._cards(left, row)
            cards = sorted(cards, key=order)[: self.count]
            mask = sum(1 << at for *_, at in cards)
            self.move(left, row, mask, 1)
            yield mask

    def _one(self, left: Int64s, row: int, *, spread: bool) -> int | None:
        """The fullest card of a node on which a part fits, or with `spread` the emptiest; None where none."""
        of, asked = self.of, max(self.cores, 1)
        columns = (left[of.cores], left[of.memory], left[of.places], self.memory[:, row])
        able = [
            (cores, memory, at)
            for at, (cores, memory, places, wanted) in enumerate(zip(*(each.tolist() for each in columns), strict=True))
            if cores >= asked and memory >= wanted and places > 0
        ]
        if not able:
            return None
        *_, at = max(able, key=lambda card: (*card[:2], -card[2])) if spread else min(able)
        return at

    def move(self, left: Int64s, row: int, mask: int, sign: int, held: bool = False) -> None:
        """Take a part of each of these cards of a node (sign 1), or give it back (-1); `left` as for `take`. Cards that
        no node has, because it was given others meanwhile, are left out.

        What is only `held` takes some cores, though the pod will take none: it runs where some are left.
        """
        of, cores = self.of, max(self.cores, held)
        for at in bits(mask & (1 << len(of.size)) - 1):
            left[of.cores][at] -= sign * cores
            left[of.memory][at] -= sign * self.memory[at, row]
            left[of.places][at] -= sign

    def parts(self, row: int, mask: int) -> Iterator[CardPart]:
        """What a pod has with these cards of a node."""
        for index in bits(mask):
            yield CardPart(self.of.resource, index, self.cores, int(self.memory[index, row]))

    def share(self, grant: CardGrant) -> int:
        """The share of a pod that has these cards."""
        return sum(1 << at for at in grant.indices(self.of.resource))

    def complete(self, mask: int) -> bool:
        """Whether a share has as many cards as are needed."""
        return how_many(mask) == self.count


def _rows(rows: list[int]) -> slice:
    """Rows as a slice: the counters of one kind stand at equal distances, because names are sorted."""
    step = rows[1] - rows[0] if len(rows) > 1 else 1
    found = slice(rows[0], rows[-1] + 1, step)
    assert list(range(*found.indices(rows[-1] + 1))) == rows
    return found


def _most(card: Card) -> tuple[int, int]:
    fits, _, _, at = card
    return -fits, at


def _fullest(card: Card) -> tuple[int, int, int]:
    _, cores, memory, at = card
    return cores, memory, at


def _emptiest(card: Card) -> tuple[int, int, int]:
    _, cores, memory, at = card
    return -cores, -memory, at
