"""What the facts of live nodes say, as columns that are kept node by node.

`NodeTable` writes the facts of a node here when they change, so that freezing thousands of nodes after a change of one
copies numbers, and looks at no other.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.card_links import LinkTable, link_table
from t9ksched.engine.cards import CardColumns, masks_of
from t9ksched.model.cardchoice import kind_of
from t9ksched.model.node import NodeFacts

T = TypeVar("T", bound=np.generic)


class _Columns(Generic[T]):
    """Columns of one type by name of the resource, with an entry for each row of the live table."""

    def __init__(self, dtype: type[T], rows: int) -> None:
        self._dtype = dtype
        self._rows = rows
        self._named: dict[str, NDArray[T]] = {}

    def write(self, name: str, row: int, value: int) -> None:
        """The entry of a row; 0 where none was written."""
        column = self._named.get(name)
        if column is None:
            column = self._named[name] = np.zeros(self._rows, self._dtype)
        column[row] = value

    def double(self) -> None:
        """Make room for twice as many rows."""
        self._rows *= 2
        for name, column in self._named.items():
            self._named[name] = np.concatenate([column, np.zeros_like(column)])

    def take(self, names: Sequence[str], order: Indices) -> NDArray[T]:
        """The columns of these names, shape (names, rows)."""
        found = np.zeros((len(names), len(order)), self._dtype)
        for at, name in enumerate(names):
            if name in self._named:
                np.take(self._named[name], order, out=found[at], mode="clip")
        return found


class FactColumns:
    """The columns; `write` keeps them."""

    def __init__(self, rows: int, largest: int) -> None:
        """There is room for so many rows; no amount counts as more than `largest`."""
        self._rows = rows
        self._largest = largest
        self._allocatable = _Columns(np.int64, rows)
        self._cordoned = _Columns(np.int64, rows)
        self._usable = _Columns(np.uint64, rows)
        self._indexed = _Columns(np.bool_, rows)
        self._links: dict[str, dict[int, LinkTable]] = {}
        self._withdrawing: set[int] = set()
        """Rows of nodes with cordoned cards that are counted by number."""
        self._dividing: set[int] = set()
        self._reasons: set[int] = set()
        """Rows of nodes with cordoned cards, however these are counted."""
        self._modes: Counter[str] = Counter()
        """Of nodes that have accelerators, how many hand them out in which way."""

    @property
    def kinds(self) -> frozenset[str]:
        """What one unit of a card resource is on the nodes that have any (`model.cardchoice`)."""
        return frozenset(kind_of(mode, plain=True) for mode in self._modes)

    @property
    def divides(self) -> bool:
        """Whether a node divides cards."""
        return bool(self._dividing)

    def double(self) -> None:
        """Make room for twice as many rows."""
        self._rows *= 2
        for columns in (self._allocatable, self._cordoned, self._usable, self._indexed):
            columns.double()

    def write(self, row: int, facts: NodeFacts | None, before: NodeFacts | None) -> None:
        """The node of this row has these facts, or is gone; it had others `before`, or was not there."""
        if before is not None:
            self._erase(row, before)
        if facts is None:
            return
        cards = facts.cards
        for name, amount in (*facts.allocatable.items(), *cards.counters.items()):
            self._allocatable.write(name, row, min(amount, self._largest))
        for name, amount in facts.cordoned.items():
            self._cordoned.write(name, row, amount)
            self._withdrawing.add(row)
        if cards.divided:
            self._dividing.add(row)
        if facts.why_cordoned:
            self._reasons.add(row)
        if facts.accelerated:
            self._modes[facts.mode] += 1
        usable = masks_of(cards.usable)
        links = facts.links
        table = link_table(links) if links is not None else None
        for name, count in cards.counts.items():
            if name in cards.divided:
                continue
            self._indexed.write(name, row, 1)
            self._usable.write(name, row, usable.get(name, 0))
            if table is not None and links is not None and table.any and count == len(links):
                self._links.setdefault(name, {})[row] = table

    def _erase(self, row: int, facts: NodeFacts) -> None:
        cards = facts.cards
        for name in (*facts.allocatable, *cards.counters):
            self._allocatable.write(name, row, 0)
        for name in facts.cordoned:
            self._cordoned.write(name, row, 0)
        for name in cards.counts:
            self._indexed.write(name, row, 0)
            self._usable.write(name, row, 0)
            self._links.get(name, {}).pop(row, None)
        self._withdrawing.discard(row)
        self._dividing.discard(row)
        self._reasons.discard(row)
        if facts.accelerated:
            self._modes[facts.mode] -= 1
            if not self._modes[facts.mode]:
                del self._modes[facts.mode]

    def allocatable(self, resources: Sequence[str], order: Indices) -> Int64s:
        """What the nodes of these rows have, shape (resources, rows)."""
        return self._allocatable.take(resources, order)

    def withdrawn(self, resources: Sequence[str], order: Indices) -> Int64s | None:
        """How many cards that are counted by number take no work, shape (resources, rows); None when nowhere any."""
        return self._cordoned.take(resources, order) if self._withdrawing else None

    def cards(self, names: Sequence[str], order: Indices) -> CardColumns:
        """The cards of the nodes of these rows; `names` are all card resources, sorted."""
        links: dict[tuple[int, int], LinkTable] = {}
        if any(self._links.values()):
            position = self._positions(order)
            for at, name in enumerate(names):
                theirs = self._links.get(name, {})
                links |= {(at, int(position[row])): theirs[row] for row in sorted(theirs, key=position.item)}
        return CardColumns(names, self._usable.take(names, order), self._indexed.take(names, order), links)

    def cordoned(self, order: Indices) -> tuple[int, ...]:
        """Where among the nodes of these rows those with cordoned cards are."""
        if not self._reasons:
            return ()
        position = self._positions(order)
        return tuple(sorted(int(position[row]) for row in self._reasons))

    def _positions(self, order: Indices) -> Indices:
        """Of each row, where it is in the order."""
        position = np.full(self._rows, -1, np.intp)
        position[order] = np.arange(len(order))
        return position
