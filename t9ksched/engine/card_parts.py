"""Parts of cards: how many pods fit on nodes that divide their cards, and which cards they get.

The counters of each divided card (cores, memory, places) are rows of the same columns that have all other amounts, so
that what is taken, given back, lent or undone moves them along. A part must be on one card: room is counted card by
card, never in sum. A whole card is all its counters.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.cards import bits
from t9ksched.model.cards import CORES, CardPart, CardRequest, CardTable, SharedCards, counter

_NONE: Final = np.iinfo(np.int64).max


class DividedCards:
    """The divided cards of one resource on the nodes of one cycle.

    Attributes:
        resource: what they are called.
        nodes: the nodes that divide them, shape (nodes,).
        cores, memory, places: the row of each card's counter among the columns of amounts, by index.
        size: memory of each card in MiB, shape (cards, nodes).
    """

    def __init__(
        self, resource: str, tables: Sequence[CardTable], rows: Mapping[str, int], allocatable: Int64s
    ) -> None:
        self.resource = resource
        sizes = [table.divided.get(resource, ()) for table in tables]
        most = max(map(len, sizes))
        self.nodes: Mask = np.array([bool(each) for each in sizes], np.bool_)
        self.cores: Indices = np.array([rows[counter(resource, at, "cores")] for at in range(most)], np.intp)
        self.memory: Indices = np.array([rows[counter(resource, at, "memory")] for at in range(most)], np.intp)
        self.places: Indices = np.array([rows[counter(resource, at, "places")] for at in range(most)], np.intp)
        self.size: Int64s = allocatable[self.memory]


class PartNeed:
    """What one pod of a class needs of the divided cards of one resource: as much of each of `count` cards.

    Attributes:
        cores: thousandths of each card.
        memory: MiB on each, shape (cards, nodes) as `DividedCards.size`: on cards of another size a percentage is
            another amount.
    """

    def __init__(self, of: DividedCards, count: int, request: CardRequest) -> None:
        self.of = of
        self.count = count
        self.cores, wanted, percent = CORES, 0, 100
        if isinstance(request, SharedCards) and request.cores < CORES:
            self.cores, wanted, percent = request.cores, request.memory, request.memory_percent
        self.memory: Int64s = np.full_like(of.size, wanted) if wanted else -(-of.size * (percent or 100) // 100)

    def on(self, row: int) -> bool:
        """Whether the node of this row divides its cards."""
        return bool(self.of.nodes[row])

    def rooms(self, free: Int64s, rows: Indices | None = None) -> Int64s:
        """How many pods find cards on each node of `rows` (None for all), whose columns `free` has in this order; very
        many where cards are not divided.
        """
        of = self.of
        here = of.nodes if rows is None else of.nodes[rows]
        found = np.full(free.shape[1], _NONE, np.int64)
        if here.any():
            some = free[:, here]
            memory = self.memory[:, here] if rows is None else self.memory[:, rows[here]]
            found[here] = self._pods(self._fits(some[of.cores], some[of.memory], some[of.places], memory))
        return found

    def _fits(self, cores: Int64s, memory: Int64s, places: Int64s, wanted: Int64s) -> Int64s:
        """How many parts fit on each card; all arguments have one shape."""
        fits = np.minimum(places, memory // np.maximum(wanted, 1))
        fits = np.minimum(fits, cores // self.cores) if self.cores else np.where(cores > 0, fits, 0)
        return np.maximum(fits, 0)

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

    def room(self, free: Int64s, row: int) -> int:
        """How many pods find cards on one node, which divides its cards."""
        return int(self.rooms(free[:, row : row + 1], np.array([row]))[0])

    def take(self, free: Int64s, row: int, pods: int) -> Iterator[int]:
        """Take cards for pods on a node, which must fit; the cards of each as a mask.

        One that asks for one card gets the fullest that suffices; of many with several cards each, every one gets the
        cards with the most left, so that all find some.
        """
        of = self.of
        for _ in range(pods):
            column = free[:, row : row + 1]
            fits = self._fits(column[of.cores], column[of.memory], column[of.places], self.memory[:, row : row + 1])
            cards = np.flatnonzero(fits[:, 0])
            left = column[of.cores, 0][cards], column[of.memory, 0][cards]
            if self.count > 1 and pods > 1:
                order = np.lexsort((cards, -fits[cards, 0]))
            else:
                order = np.lexsort((cards, left[1], left[0]))
            mask = sum(1 << card for card in cards[order[: self.count]].tolist())
            self.move(free, row, mask, 1)
            yield mask

    def move(self, free: Int64s, row: int, mask: int, sign: int) -> None:
        """Take a part of each of these cards (sign 1), or give it back (-1)."""
        of = self.of
        for at in bits(mask):
            free[of.cores[at], row] -= sign * self.cores
            free[of.memory[at], row] -= sign * int(self.memory[at, row])
            free[of.places[at], row] -= sign

    def parts(self, row: int, mask: int) -> Iterator[CardPart]:
        """What a pod has with these cards of a node."""
        for index in bits(mask):
            yield CardPart(self.of.resource, index, self.cores, int(self.memory[index, row]))


def divided_cards(tables: Sequence[CardTable], rows: Mapping[str, int], allocatable: Int64s) -> dict[str, DividedCards]:
    """The resources of which some node divides cards. `rows` has the counters' rows of `allocatable`."""
    resources = sorted({resource for table in tables for resource in table.divided})
    return {resource: DividedCards(resource, tables, rows, allocatable) for resource in resources}


def part_needs(
    divided: Mapping[str, DividedCards], counts: Mapping[str, int], requests: Sequence[CardRequest]
) -> tuple[PartNeed | None, ...]:
    """What a class needs of divided cards, one for each card resource in `counts`; None where no node divides it."""
    asked = {request.resource: request for request in requests}
    return tuple(
        PartNeed(divided[name], count, asked[name]) if name in divided else None for name, count in counts.items()
    )
