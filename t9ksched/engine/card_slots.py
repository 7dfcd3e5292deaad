"""What pods need of divided cards where several of their containers ask for them: parts that may differ, and may be of
one card or of several.

How many pods fit on a node is found by placing one after the other, as `take` does it. A node is looked at once for
each state of its cards: nodes of one pool have few, and what is left after the next pod is known with it.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.card_parts import DividedCards, PartNeed
from t9ksched.engine.card_slot_search import Amounts, Slots, SlotSearch, taken
from t9ksched.engine.cards import bits
from t9ksched.model.card_filter import CardFilter
from t9ksched.model.cards import MOST_INDEXED, CardGrant, CardPart, CardRequest, ContainerGrant

_NONE: Final = np.iinfo(np.int64).max
_CARDS: Final = (1 << MOST_INDEXED) - 1
_MOST_STATES: Final = 1 << 15
State = tuple[int, bytes]
"""A kind of nodes, and what is left of the cards of one."""


class _Kind(NamedTuple):
    """Nodes on whose cards a pod needs as much: the memory that each request takes of each card, and the cards that it
    may have together.
    """

    wanted: list[tuple[int, ...]]
    groups: list[list[int]]


class SlotNeed:
    """What one pod of a class needs of the divided cards of one resource: parts for each of several containers.

    A share is a number: the mask of its cards, and above that for each of them which requests have a part of it.

    Attributes:
        only: which cards will do; None for any.
        together: whether all cards of a pod are to be attached to one NUMA node.
        count: cards that it has at least.
        slots: what each container needs.
        each: what each container needs by itself; `memory` is theirs.
    """

    def __init__(self, of: DividedCards, requests: tuple[CardRequest, ...], only: CardFilter | None = None) -> None:
        self.of = of
        self.requests = requests
        self.only = only
        self.together = only is not None and only.together
        self.count = max(one.count for one in requests)
        self.slots = Slots(requests)
        self.each = [of.need(one.count, one, only and only.of_container(one.container)) for one in requests]
        self.memory = [one.memory for one in self.each]
        columns = np.concatenate([*self.memory, of.numa]) if self.together else np.concatenate(self.memory)
        _, first, kind = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        self._kind: Indices = kind.reshape(-1)
        self._kinds = [self._of(row) for row in first.tolist()]
        self._fits: dict[State, bool] = {}
        self._pods: dict[State, int] = {}

    columns: Final = None
    """See `PartNeed`: there are none for parts of several containers."""

    @property
    def smallest(self) -> PartNeed:
        """What the container needs that needs least."""
        return min(self.each, key=lambda one: (one.cores, int(one.memory.min())))

    def _of(self, row: int) -> _Kind:
        wanted = list(zip(*([*each[:, row].tolist()] for each in self.memory), strict=True))
        numbers = self.of.numa[:, row].tolist() if self.together else [0] * len(wanted)
        groups = [[at for at, one in enumerate(numbers) if one == number] for number in sorted(set(numbers))]
        return _Kind(wanted, groups)

    def on(self, row: int) -> bool:
        """Whether the node of this row divides its cards."""
        return bool(self.of.nodes[row])

    # How many fit

    def rooms(self, free: Int64s) -> Int64s:
        """As `PartNeed.rooms` of all nodes."""
        return self.rooms_of(free, np.arange(free.shape[1]))

    def rooms_of(self, left: Int64s, rows: Indices) -> Int64s:
        """As `PartNeed.rooms_of`."""
        states = self._states(left, rows)
        return np.fromiter((_NONE if one is None else self._pods_in(one) for one in states), np.int64, len(rows))

    def fits(self, free: Int64s, rows: Indices | None = None) -> Mask:
        """As `PartNeed.fits`."""
        left, rows = (free, np.arange(free.shape[1])) if rows is None else (free[:, rows], rows)
        states = self._states(left, rows)
        return np.fromiter((one is None or self._fits_in(one) for one in states), np.bool_, len(rows))

    def room(self, left: Int64s, row: int) -> int:
        """As `PartNeed.room`."""
        return int(self.rooms_of(left[:, None], np.array([row]))[0])

    def _states(self, left: Int64s, rows: Indices) -> Iterator[State | None]:
        """The state of the cards of each of these nodes, None where they are not divided; `left` as for `rooms_of`."""
        counters = left[list(self.of.rows)]
        packed, size = counters.T.tobytes(), counters.itemsize * len(counters)
        kinds = zip(self.of.nodes[rows].tolist(), self._kind[rows].tolist(), strict=True)
        for nth, (divided, kind) in enumerate(kinds):
            yield (kind, packed[nth * size : (nth + 1) * size]) if divided else None

    def _left(self, state: State) -> list[Amounts]:
        cards = np.frombuffer(state[1], np.int64).reshape(3, -1)
        return list(zip(*cards.tolist(), strict=True))

    def _fits_in(self, state: State) -> bool:
        found = self._fits.get(state)
        if found is None:
            if len(self._fits) >= _MOST_STATES:
                self._fits.clear()
            found = self._fits[state] = self._search(self._kinds[state[0]], self._left(state)) is not None
        return found

    def _pods_in(self, state: State) -> int:
        """How many pods find cards one after the other. What is found for the states on the way is kept, too."""
        found = self._pods.get(state)
        if found is not None:
            return found
        if len(self._pods) >= _MOST_STATES:
            self._pods.clear()
        kind, left, way = self._kinds[state[0]], self._left(state), [state]
        while (on := self._search(kind, left)) is not None:
            takes = (self.slots.usage(those, wanted) for those, wanted in zip(on, kind.wanted, strict=True))
            left = [(a - d, b - e, c - f) for (a, b, c), (d, e, f) in zip(left, takes, strict=True)]
            state = state[0], np.array(left, np.int64).T.tobytes()
            if (found := self._pods.get(state)) is not None:
                break
            way.append(state)
        more = -1 if found is None else found
        for steps, one in enumerate(reversed(way), 1):
            self._pods[one] = more + steps
        return self._pods[way[0]]

    # Taking

    def take(self, left: Int64s, row: int, pods: int, card: int | None = None) -> Iterator[int]:
        """Take cards for pods on a node, one after the other: their shares, 0 where one does not fit. `left` is the
        node's column, a view, which is written to. A single pod gets a certain `card` if that suffices for it.
        """
        kind = self._kinds[self._kind[row]]
        for _ in range(pods):
            counters = [left[rows].tolist() for rows in self._counters]
            cards: list[Amounts] = list(zip(*counters, strict=True))
            on = self._search(kind._replace(groups=[[card]]), cards) if card is not None else None
            on = on or self._search(kind, cards)
            share = self._share({at: those for at, those in enumerate(on) if those}) if on is not None else 0
            self.move(left, row, share, 1)
            yield share

    @property
    def _counters(self) -> tuple[slice, slice, slice]:
        return self.of.cores, self.of.memory, self.of.places

    def _search(self, kind: _Kind, left: Sequence[Amounts]) -> list[int] | None:
        """Which requests get each card: of the fullest group of cards that suffices."""
        groups = kind.groups
        if len(groups) > 1:
            groups = sorted(groups, key=lambda those: sum(left[at][0] for at in those))
        spread = self.only is not None and self.only.spread
        for those in groups:
            if (on := SlotSearch(self.slots, left, kind.wanted, those, spread=spread).found()) is not None:
                return on
        return None

    def move(self, left: Int64s, row: int, share: int, sign: int, held: bool = False) -> None:
        """As `PartNeed.move`."""
        for at, on in self._on(share):
            if at < len(self.of.size):
                cores, memory, places = self._usage(row, at, on)
                taken(left, self._counters, at, (max(cores, held), memory, places), sign)

    def _usage(self, row: int, at: int, on: int) -> Amounts:
        return self.slots.usage(on, self._kinds[self._kind[row]].wanted[at])

    # Shares

    def _share(self, on: dict[int, int]) -> int:
        found = sum(1 << at for at in on)
        for nth, at in enumerate(sorted(on)):
            found |= on[at] << MOST_INDEXED + nth * len(self.requests)
        return found

    def _on(self, share: int) -> Iterator[tuple[int, int]]:
        """The cards of a share, and which requests have a part of each, as a mask."""
        width = len(self.requests)
        for nth, at in enumerate(bits(share & _CARDS)):
            yield at, share >> MOST_INDEXED + nth * width & (1 << width) - 1

    def share(self, grant: CardGrant) -> int:
        """The share of a pod that has these cards."""
        found: dict[int, int] = {}
        places = {request: nth for nth, request in enumerate(self.requests)}
        for request, indices in grant.split(self.requests):
            for at in indices:
                found[at] = found.get(at, 0) | 1 << places[request]
        return self._share(found)

    def mask(self, share: int) -> int:
        """The cards of a share."""
        return share & _CARDS

    def complete(self, share: int) -> bool:
        """Whether each container has as many cards as it needs."""
        those = [on for _, on in self._on(share)]
        return all(sum(on >> nth & 1 for on in those) == count for nth, count in enumerate(self.slots.counts))

    def parts(self, row: int, share: int) -> Iterator[CardPart]:
        """What a pod has with this share of a node."""
        for at, on in self._on(share):
            yield CardPart(self.of.resource, at, *self._usage(row, at, on))

    def given(self, share: int) -> Iterator[ContainerGrant]:
        """Which container has which cards."""
        those = list(self._on(share))
        for nth, request in enumerate(self.requests):
            yield request.container, request.resource, tuple(at for at, on in those if on >> nth & 1)
