"""What the keys of a class are found from, as numbers.

`placement/class_fit.py` says what they mean. What machine code reads is looked at here, where it is given: an array of
another shape or type, or a position that does not exist, is a ValueError.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.kernel.checks import inside, machine


class PartColumns(msgspec.Struct, frozen=True):
    """What a pod needs of divided cards: as much of each of `count` cards.

    Attributes:
        count, cores: how many cards, and thousandths of each, at least 1.
        rows: of each card the rows of its cores, memory and places among the columns of free room, shape (cards,) each.
        wanted: memory on each, shape (cards, nodes).
        divide: the nodes that divide cards, shape (nodes,); the others are not asked for parts.
        everywhere: whether all nodes do.
    """

    count: int
    cores: int
    rows: tuple[Int64s, Int64s, Int64s]
    wanted: Int64s
    divide: Mask
    everywhere: bool


class KeyTables(msgspec.Struct, frozen=True):
    """A class, and the room that is left.

    Attributes:
        free: columns of free room, shape (resources, nodes), read as they are at each call.
        base, gain, bias, mask: as in `ClassFit`, shape (nodes,).
        needs: row of the resource and amount.
        parts: what it needs of divided cards; None where it asks for none.
    """

    free: Int64s
    base: Int64s
    gain: Int64s
    bias: Int64s | None
    mask: Mask
    needs: Sequence[tuple[int, int]]
    parts: PartColumns | None

    def __post_init__(self) -> None:
        nodes, resources = len(self.base), len(self.free)
        machine(self.free, np.int64, resources, nodes)
        for array in (self.base, self.gain) if self.bias is None else (self.base, self.gain, self.bias):
            machine(array, np.int64, nodes)
        machine(self.mask, np.bool_, nodes)
        inside([at for at, _ in self.needs], resources)
        if self.parts is not None:
            machine(self.parts.wanted, np.int64, len(self.parts.rows[0]), nodes)
            machine(self.parts.divide, np.bool_, nodes)
            for rows in self.parts.rows:
                machine(rows, np.int64, len(self.parts.wanted))
                inside(rows.tolist(), resources)


class KeyWriter(Protocol):
    """Finds the keys of a class on its tables."""

    def write(self, points: Int64s | None, rows: Indices | None, key: Int64s) -> None:
        """Write the keys of these rows, None for all. `points` are added to the score of each node. They and `key` have
        shape (nodes,).
        """
        ...
