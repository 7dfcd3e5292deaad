"""The cards of all nodes as columns of bit masks, one a card resource and 64 bits a node; what is free of them.

The engine counts and gives out the cards of thousands of nodes at once, so it keeps the inside of `CardGrant`s in
arrays. Of the engine, only `card_links.py` looks at a mask besides. `HeldCards` is live, `CardColumns` what placing
pods does not change, `IdleCards` what a trial has left. The lowest idle indices are given first, but where links are
known those that are linked best; results are cached, as nodes have few patterns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.arrays import Indices, Int64s, Mask, Masks
from t9ksched.engine.card_links import LinkTable, deal_linked
from t9ksched.model.card_size import CORES
from t9ksched.model.cards import CardGrant

Share = tuple[int, ...]
"""The cards of one pod, an opaque number for each card resource of its class."""
Needs = Sequence[tuple[int, int]]
"""What a pod asks for: row of the card resource, number of cards."""
NO_SHARES: Final[Mapping[int, Sequence[Share]]] = MappingProxyType({})
"""Shares by row, where no node divides cards."""
_NOTHING: Final[tuple[Share, ...]] = ()


@lru_cache(maxsize=1 << 16)
def split(idle: int, each: int, pods: int) -> tuple[int, ...]:
    """Masks of `pods` shares of `each` cards, lowest indices first. There must be enough idle cards."""
    shares = []
    for _ in range(pods):
        share = 0
        for _ in range(each):
            lowest = idle & -idle
            share |= lowest
            idle ^= lowest
        shares.append(share)
    return tuple(shares)


@lru_cache(maxsize=1 << 16)
def deal(idle: int, each: int, pods: int) -> tuple[tuple[tuple[int], ...], int]:
    """As `split`, each share as the only one of its pod, and what is left idle."""
    shares = split(idle, each, pods)
    return tuple((share,) for share in shares), idle & ~sum(shares)


@lru_cache(maxsize=1 << 14)
def granted(names: tuple[str, ...], share: Share) -> CardGrant:
    """The cards of a share, `names` being the card resources of its class. Empty where cards have no indices."""
    return CardGrant(tuple(sorted((name, mask) for name, mask in zip(names, share, strict=True) if mask)))


class LinkedNodes(NamedTuple):
    """Nodes that are linked alike, and of which the same cards of one resource take work.

    Attributes:
        resource: row of the card resource.
        table: the links of its cards.
        usable: the cards that take work, a mask.
        rows: the nodes, ascending.
    """

    resource: int
    table: LinkTable
    usable: int
    rows: Indices


class CardColumns:
    """The cards of the nodes that placing pods does not change.

    Attributes:
        names: card resources, sorted: the rows of every array here.
        usable: the cards that take work, shape (card resources, nodes).
        indexed: whether a node gives whole cards by index, same shape; elsewhere the resource is counted by number, or
            its cards are divided (`card_parts.py`), which are not usable here.
        links: how the cards are linked, by row of the card resource and of the node; nodes of which nothing is known
            are left out, and those whose links are worth nothing.
        linked: the same nodes, alike ones together.
    """

    def __init__(
        self, names: Iterable[str], usable: Masks, indexed: Mask, links: Mapping[tuple[int, int], LinkTable]
    ) -> None:
        """Arguments are as the attributes."""
        self.names = tuple(names)
        self.row_of = {name: at for at, name in enumerate(self.names)}
        self.usable, self.indexed, self.links = usable, indexed, links
        self.widths = [int(masks.max(initial=0)).bit_length() for masks in self.usable]
        """By card resource, how many indices the cards that take work have at most."""
        alike: dict[tuple[int, LinkTable, int], list[int]] = {}
        for (at, row), linked in self.links.items():
            alike.setdefault((at, linked, int(self.usable[at, row])), []).append(row)
        self.linked = [LinkedNodes(*key, np.array(rows, np.intp)) for key, rows in alike.items()]

    def free(self, held: Masks, name: str, used: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
        """How many cards of a resource are free on each node when `used` are taken and `held` have a known holder; and
        on which nodes that counts, because cards have indices there. Cards without a known holder take any.
        """
        row = self.row_of[name]
        unknown = np.maximum(used - np.bitwise_count(held[row]), 0)
        left: Int64s = np.bitwise_count(self.usable[row] & ~held[row]) - unknown
        return left, self.indexed[row]

    def indexed_part(self, node: int, grant: CardGrant) -> CardGrant:
        """Those of the cards whose resource has indices on the node of this row."""
        row_of, indexed = self.row_of, self.indexed
        return grant.only(name for name in grant.resources if name in row_of and indexed[row_of[name], node])

    def usable_part(self, node: int, grant: CardGrant) -> CardGrant:
        """Those of the cards that take work on the node of this row."""
        return grant & self.grant(self.usable, node)

    def grant(self, masks: Masks, node: int) -> CardGrant:
        """The cards of one node in a column of this shape."""
        return CardGrant.packed({name: int(masks[at, node]) for name, at in self.row_of.items()})


class HeldCards:
    """The cards of live nodes that have a known holder. A row is a node's as long as its table says so."""

    def __init__(self, rows: int) -> None:
        self._row_of: dict[str, int] = {}
        self._held: Masks = np.zeros((2, rows), np.uint64)
        self._shared: dict[tuple[int, str, int], int] = {}
        """Holders beyond the first of one card, by (row, resource, index)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The card resources, sorted."""
        return tuple(sorted(self._row_of))

    def know(self, resource: str) -> bool:
        """Have a column for this resource; whether it is new."""
        if resource in self._row_of:
            return False
        at = self._row_of[resource] = len(self._row_of)
        if at >= self._held.shape[0]:
            self._held = np.concatenate([self._held, np.zeros_like(self._held)], axis=0)
        return True

    def knows(self, grant: CardGrant) -> bool:
        """Whether there is a column for the resource of each of these cards."""
        for resource, _ in grant.masks:  # noqa: SIM110 - asked for each pod that is placed: `all` takes twice as long
            if resource not in self._row_of:
                return False
        return True

    def double(self) -> None:
        """Make room for twice as many nodes."""
        self._held = np.concatenate([self._held, np.zeros_like(self._held)], axis=1)

    def hold(self, row: int, grant: CardGrant) -> None:
        """One more pod holds these cards; their resources are known."""
        for resource, mask in grant.masks:
            at = self._row_of[resource]
            before = self._held.item(at, row)
            if before & mask:
                for index in bits(before & mask):
                    key = (row, resource, index)
                    self._shared[key] = self._shared.get(key, 0) + 1
            self._held[at, row] = before | mask

    def release(self, row: int, grant: CardGrant) -> None:
        """A pod that held these cards does no longer."""
        for resource, mask in grant.masks:
            at, gone = self._row_of[resource], mask
            for index in bits(mask):
                key = (row, resource, index)
                if key in self._shared:
                    gone &= ~(1 << index)
                    self._shared[key] -= 1
                    if not self._shared[key]:
                        del self._shared[key]
            self._held[at, row] = int(self._held[at, row]) & ~gone

    def clear(self, row: int) -> None:
        """The node is gone."""
        self._held[:, row] = 0
        self._shared = {key: count for key, count in self._shared.items() if key[0] != row}

    def on(self, row: int, resources: Iterable[str]) -> CardGrant:
        """The cards of these resources that have a holder on the node."""
        return CardGrant.packed({name: int(self._held[self._row_of[name], row]) for name in resources})

    def taken(self, row: int, grant: CardGrant) -> bool:
        """Whether one of these cards has a holder."""
        for resource, mask in grant.masks:
            at = self._row_of.get(resource)
            if at is not None and self._held.item(at, row) & mask:
                return True
        return False

    def freeze(self, order: NDArray[np.intp]) -> Masks:
        """The columns in order of names, for the nodes of these rows."""
        names = self.names
        held = np.empty((len(names), len(order)), np.uint64)
        for at, resource in enumerate(names):
            np.take(self._held[self._row_of[resource]], order, out=held[at], mode="clip")
        return held


class IdleCards:
    """What a trial has left of the cards of each node: `idle`, shape (card resources, nodes)."""

    __slots__ = ("_links", "idle")

    def __init__(self, columns: CardColumns, held: Masks) -> None:
        self.idle: Masks = columns.usable & ~held
        self._links = columns.links

    def _deal(self, at: int, row: int, idle: int, each: int, pods: int) -> tuple[tuple[tuple[int], ...], int]:
        """As `deal`, by the links of the node's cards where they are known."""
        table = self._links.get((at, row))
        return deal(idle, each, pods) if table is None else deal_linked(table, idle, each, pods)

    def thousandths(self, where: "slice | Int64s", columns: CardColumns, *, empty: bool = False) -> list[Int64s]:
        """What is left of each card that takes work, a thousand or none, by card resource: shape (cards, nodes).
        `empty` as if no card were held.
        """
        found = []
        for width, masks in zip(columns.widths, (columns.usable if empty else self.idle)[:, where], strict=True):
            cards = np.arange(width, dtype=np.uint64)[:, None]
            found.append((masks[None] >> cards & np.uint64(1)).astype(np.int64) * CORES)
        return found

    def take_of(self, at: int, each: int, row: int, pods: int) -> tuple[Share, ...]:
        """As `take` for pods that ask for `each` cards of one resource, the one of row `at`."""
        idle = self.idle
        if self._links:
            shares, idle[at, row] = self._deal(at, row, idle.item(at, row), each, pods)
        else:
            shares, idle[at, row] = deal(idle.item(at, row), each, pods)
        return shares

    def take(self, needs: Needs, row: int, pods: int) -> tuple[Share, ...]:
        """Give `pods` pods their cards on one node, the lowest first; there must be enough. One share a pod."""
        dealt = [self._deal(at, row, int(self.idle[at, row]), each, pods)[0] for at, each in needs]
        mixed = tuple(zip(*[[share for (share,) in shares] for shares in dealt], strict=True))
        self.move(needs, row, mixed, 1)
        return mixed

    def take_many(self, needs: Needs, rows: Int64s, pods: Int64s) -> Iterator[tuple[Share, ...]]:
        """As `take` for many distinct nodes at once: the shares node by node."""
        if len(needs) == 1:  # what most classes ask for
            ((at, each),) = needs
            idle = zip(rows.tolist(), self.idle[at, rows].tolist(), pods.tolist(), strict=True)
            dealt = [self._deal(at, row, mask, each, count) for row, mask, count in idle]
            self.idle[at, rows] = np.array([left for _, left in dealt], np.uint64)
            return (shares for shares, _ in dealt)
        by_card = []
        for at, each in needs:
            idle = zip(rows.tolist(), self.idle[at, rows].tolist(), pods.tolist(), strict=True)
            dealt = [self._deal(at, row, mask, each, count) for row, mask, count in idle]
            by_card.append([[share for (share,) in shares] for shares, _ in dealt])
            self.idle[at, rows] = np.array([left for _, left in dealt], np.uint64)
        return (tuple(zip(*given, strict=True)) for given in zip(*by_card, strict=True))

    def share(self, needs: Needs, names: Sequence[str], row: int, grant: CardGrant) -> tuple[Share, ...]:
        """The share of one pod that has those of these cards which are idle on the node. Nothing is taken."""
        if not needs:
            return _NOTHING
        if not grant.masks:
            return ((0,) * len(needs),)
        masks, idle = dict(grant.masks), self.idle
        return (tuple(masks.get(name, 0) & int(idle[at, row]) for name, (at, _) in zip(names, needs, strict=True)),)

    def move(self, needs: Needs, row: int, shares: Sequence[Share], sign: int) -> None:
        """Take the cards of shares on a node (sign 1), or give them back (-1)."""
        for nth, (at, _) in enumerate(needs):
            taken = _union([share[nth] for share in shares])
            if not taken:
                continue
            idle = int(self.idle[at, row])
            self.idle[at, row] = idle & ~taken if sign > 0 else idle | taken


def share_of(grant: CardGrant, names: Sequence[str]) -> tuple[Share, ...]:
    """The share of one pod of a class with these card resources that has these cards."""
    masks = dict(grant.masks)
    return (tuple(masks.get(name, 0) for name in names),) if names else _NOTHING


def masks_of(grant: CardGrant) -> dict[str, int]:
    """The cards of each resource, as columns have them."""
    return dict(grant.masks)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def how_many(mask: int) -> int:
    """The number of cards of a mask."""
    return mask.bit_count()


def bits(mask: int) -> list[int]:
    """The indices of the cards of a mask, ascending."""
    return [index for index in range(mask.bit_length()) if mask >> index & 1]
