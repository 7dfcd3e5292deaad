"""The domains of a node label: nodes with the same value are one."""

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s


class Domains:
    """The domains of one label.

    Attributes:
        of: the domain of each node, shape (nodes,); the number of domains for nodes without the label.
        names: the label's values, sorted.
        rows: the nodes of the first domain, then of the second, and so on, each in order.
        starts: where each domain begins in `rows`, shape (domains,).
    """

    def __init__(self, of: Indices, names: list[str]) -> None:
        self.of = of
        self.names = names
        inside = np.flatnonzero(of < len(names))
        self.rows: Indices = inside[np.argsort(of[inside], kind="stable")]
        self.starts: Indices = np.searchsorted(of[self.rows], np.arange(len(names)))
        self._each_is_its_row = np.array_equal(of, np.arange(len(names)))

    def sums(self, column: Int64s) -> Int64s:
        """The sum over the nodes of each domain of a column, shape (nodes,): shape (domains,), not to be written to."""
        if self._each_is_its_row:
            return column
        if not self.names:
            return np.zeros(0, np.int64)
        found: Int64s = np.add.reduceat(column.take(self.rows), self.starts)
        return found
