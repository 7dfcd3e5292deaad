"""Node scores in whole numbers (binpack; the formula of the scheduling policy).

A node's score is 100 · Σ w_r · s_r / Σ w_r over the scored resources it has, with s_r the part of r that would be
allocated (MostAllocated) or left (LeastAllocated). It is linear in what is allocated, so a score is kept as `base` per
node plus `gain` per pod class, both scaled to whole numbers once: adding a pod adds its gain, taking it away restores
the base.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.nodes import FrozenNodes, Int64s, Static
from t9ksched.engine.policy import Binpack

FULL: Final = 1 << 56
"""Score of a node that is full in every scored resource, before the plugin's weight (100 in the formula)."""
_OVERCOMMIT: Final = 4
"""Beyond this multiple of a node's capacity more use does not change its score: keeps sums inside 64 bits."""


class Scores:
    """Scores on the nodes of one picture; `policy` None gives every node the same."""

    def __init__(self, static: Static, policy: Binpack | None) -> None:
        self._static = static
        self._steps: list[tuple[int, Int64s]] = []
        self.monotone = policy is None or policy.strategy == "MostAllocated"
        """A node's score never falls by placing a pod on it."""
        self._start = 0
        if policy is None or not policy.weight:
            return
        weights = policy.weights()
        scored = [(at, weights[name]) for at, name in enumerate(static.resources) if weights.get(name, 0) > 0]
        total = np.zeros(len(static.names), np.int64)
        for at, weight in scored:
            total += np.where(static.allocatable[at] > 0, weight, 0)
        sign = 1 if self.monotone else -1
        self._start = 0 if self.monotone else FULL * policy.weight
        for at, weight in scored:
            capacity = static.allocatable[at]
            step = np.zeros(len(capacity), np.int64)
            has = capacity > 0
            step[has] = FULL * weight // total[has] // capacity[has] * policy.weight
            self._steps.append((at, sign * step))

    def base(self, nodes: FrozenNodes) -> Int64s:
        """Score of each node as it is, shape (nodes,)."""
        base = np.full(len(nodes), self._start, np.int64)
        for at, step in self._steps:
            most = self._static.allocatable[at] * _OVERCOMMIT
            base += np.minimum(nodes.used[at], most) * step
        return base

    def gain(self, needs: Int64s) -> Int64s:
        """What a pod with these needs (one a resource) adds to each node's score."""
        gain = np.zeros(len(self._static.names), np.int64)
        for at, step in self._steps:
            if needs[at]:
                gain += np.minimum(self._static.allocatable[at] * _OVERCOMMIT, needs[at]) * step
        return gain


def scaled(raw: Int64s, among: NDArray[np.bool_], weight: int) -> Int64s:
    """A score from the worst (0) to the best (full, times the weight) of the nodes `among`."""
    if not among.any():
        return np.zeros_like(raw)
    low, high = int(raw[among].min()), int(raw[among].max())
    if low == high:
        return np.zeros_like(raw)
    steps: Int64s = np.clip(raw, low, high) - low
    return steps * (FULL * weight // (high - low))
