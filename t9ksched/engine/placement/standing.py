"""Where the pods stand that one term of rules about pods selects: numbers by node, of nodes with such pods only."""

from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.model.gang import Neighbours
from t9ksched.model.podrules import PodTerm

K = TypeVar("K", str, int)
COUNTS: Final = 0
"""Pods that the term selects."""
LEAVING: Final = 1
"""Those of them that are being deleted."""
HOLDERS: Final = 2
"""Pods with required anti-affinity to those that it selects."""
WEIGHTS: Final = 3
"""Summed weights of the preferences of placed pods for those that it selects."""
PROMISED: Final = 4
"""Room reserved for such pods; the pods are not there yet, so that it is known of a cycle only."""

Column = tuple[Indices, Int64s]
"""Rows of nodes, each once, and a number for each."""
NO_COLUMN: Final[Column] = (np.zeros(0, np.intp), np.zeros(0, np.int64))


def shift(numbers: dict[K, int], node: K, by: int) -> None:
    """Change the number of a node, known by name or by row; 0 is not kept."""
    found = numbers.get(node, 0) + by
    if found:
        numbers[node] = found
    else:
        numbers.pop(node, None)


class Standing:
    """What is known of one term; not to be changed once a cycle was given it.

    Attributes:
        used: any pod's anti-affinity, or preference, placed or waiting, selects pods by this term.
        version: of the latest cycle in which something changed.
    """

    __slots__ = ("_columns", "_index", "_numbers", "term", "used", "version")

    def __init__(self, term: PodTerm) -> None:
        self.term = term
        self.used = False
        self.version = 0
        self._numbers: tuple[dict[str, int], ...] = ({}, {}, {}, {})
        self._index: Mapping[str, int] = {}
        self._columns: dict[int, Column] = {}

    def copy(self) -> "Standing":
        """The same, to be changed."""
        found = Standing(self.term)
        found.used, found.version = self.used, self.version
        found._numbers = tuple(dict(one) for one in self._numbers)
        return found

    def equals(self, other: "Standing") -> bool:
        """Whether it says the same, whenever that came about."""
        return self.used == other.used and self._numbers == other._numbers

    def move(self, group: Neighbours, sign: int) -> None:
        """It selects pods of a group (1), or does not any more (-1)."""
        counts, leaving = self._numbers[COUNTS], self._numbers[LEAVING]
        for node, pods in group.nodes:
            shift(counts, node, sign * pods)
            if group.leaving:
                shift(leaving, node, sign * pods)

    def keep_away(self, group: Neighbours, sign: int) -> None:
        """Pods of a group have required anti-affinity to those that it selects."""
        for node, pods in group.nodes:
            shift(self._numbers[HOLDERS], node, sign * pods)

    def draw(self, group: Neighbours, weight: int) -> None:
        """Pods of a group prefer to be near those that it selects, or prefer not to."""
        for node, pods in group.nodes:
            shift(self._numbers[WEIGHTS], node, weight * pods)

    def column(self, what: int, index: Mapping[str, int]) -> Column:
        """Numbers by row of the nodes in this index; of other nodes nothing is told."""
        if self._index is not index:
            self._index, self._columns = index, {}
        found = self._columns.get(what)
        if found is None:
            found = NO_COLUMN
            if what != PROMISED and (numbers := self._numbers[what]):
                there = [(index[node], number) for node, number in numbers.items() if node in index]
                if there:
                    rows, values = zip(*there, strict=True)
                    found = np.array(rows, np.intp), np.array(values, np.int64)
            self._columns[what] = found
        return found
