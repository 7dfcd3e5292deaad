"""What the points of packing are found from, as numbers: nodes, and the usual shapes of pods.

`placement/packing.py` says what they mean. What machine code reads is looked at here, where it is given: an array of
another shape or type, or a position that does not exist, is a ValueError.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.kernel.checks import inside, machine


class PackingTables(msgspec.Struct, frozen=True):
    """Nodes and usual shapes.

    Attributes:
        cpu, memory: millicores and MiB that are free, shape (nodes,).
        cards: thousandths of each card that are free, shape (nodes, cards).
        version, valued, value: the version of each node, the one of which the value is known, and that value; shape
            (nodes,). The last two are written.
        size: the sizes of parts, in order, shape (sizes,).
        size_of, shape_cpu, shape_memory, shape_cards, per_core, per_mib: of each shape, shape (shapes,).
        weights: of each shape on each node, shape (nodes, shapes).
        step: the gains from which on FGD's score is one more.
        limited: whether cores and memory count before they run out; without it the rule is FGD's.
        whole: the sum of all weights, for FGD.
        full, half, unit, weight: a full score times the steps of loss that halve it, these steps, one point of FGD, and
            how much all of it counts.
    """

    cpu: Int64s
    memory: Int64s
    cards: Int64s
    version: Int64s
    valued: Int64s
    value: Int64s
    size: Int64s
    size_of: Int64s
    shape_cpu: Int64s
    shape_memory: Int64s
    shape_cards: Int64s
    per_core: Int64s
    per_mib: Int64s
    weights: Int64s
    step: Int64s
    limited: bool
    whole: int
    full: int
    half: int
    unit: int
    weight: int

    def __post_init__(self) -> None:
        nodes, shapes, sizes = len(self.cpu), len(self.size_of), len(self.size)
        for array in (self.cpu, self.memory, self.version, self.valued, self.value):
            machine(array, np.int64, nodes)
        machine(self.cards, np.int64, nodes, self.cards.shape[1])
        for array in (self.size_of, self.shape_cpu, self.shape_memory, self.shape_cards, self.per_core, self.per_mib):
            machine(array, np.int64, shapes)
        machine(self.weights, np.int64, nodes, shapes)
        machine(self.size, np.int64, sizes)
        machine(self.step, np.int64, len(self.step))
        inside(self.size_of.tolist(), sizes)
        if (np.diff(self.size) < 0).any():
            raise ValueError("sizes are not in order")


class AskedPod(NamedTuple):
    """What one pod takes: millicores, MiB, so many thousandths of each of `cards`; and what one step of loss is, more
    than 0.
    """

    cpu: int
    memory: int
    cards: int
    each: int
    step: int


class PackingPoints(Protocol):
    """Finds the points of nodes on some tables."""

    def renewal(self, asked: AskedPod, mask: Mask, seen: Int64s, points: Int64s) -> Callable[[], None]:
        """What writes the points of the nodes of this mask that are not seen as they are when it is called; all three
        of shape (nodes,).
        """
        ...
