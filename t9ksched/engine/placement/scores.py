"""Node scores in whole numbers: binpack by the formula of the scheduling policy, preferences, nodes without cards.

A node's score is 100 · Σ w_r · s_r / Σ w_r over the scored resources it has, with s_r the part of r that would be
allocated (MostAllocated) or left (LeastAllocated). It is linear in what is allocated, so a score is kept as `base` per
node plus `gain` per pod class, both scaled to whole numbers once: adding a pod adds its gain, taking it away restores
the base.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.nodes import FrozenNodes, Static
from t9ksched.engine.policy import Binpack

_MOST_GAINS: Final = 64
FULL: Final = 1 << 56
"""Score of a node that is full in every scored resource, before the plugin's weight (100 in the formula)."""
_OVERCOMMIT: Final = 4
"""Beyond this multiple of a node's capacity more use does not change its score: keeps sums inside 64 bits."""


class _Scored(NamedTuple):
    """A scored resource.

    Attributes:
        at: its row.
        step: what a unit of it is worth on each node, 0 where a node has none, shape (nodes,).
        most: so many units count there, shape (nodes,).
        least: so many do on every node that has some.
    """

    at: int
    step: Int64s
    most: Int64s
    least: int


class Scores:
    """Scores on the frozen nodes of one cycle; `policy` None gives every node the same."""

    def __init__(self, static: Static, policy: Binpack | None) -> None:
        self._static = static
        self._steps: list[_Scored] = []
        self._gains: dict[bytes, Int64s] = {}
        """By needs. A cycle asks for the classes of the one before it, mostly."""
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
            most = capacity * _OVERCOMMIT
            self._steps.append(_Scored(at, sign * step, most, int(most[has].min(initial=0))))

    def base(self, nodes: FrozenNodes) -> Int64s:
        """Score of each node as it is, shape (nodes,)."""
        base = np.full(len(nodes), self._start, np.int64)
        for at, step, most, _ in self._steps:
            base += np.minimum(nodes.used[at], most) * step
        return base

    def gain(self, needs: Int64s) -> Int64s:
        """What a pod with these needs (one a resource) adds to each node's score; not to be written to."""
        known = self._gains.get(asked := needs.tobytes())
        if known is not None:
            return known
        gain: Int64s | None = None
        for at, step, most, least in self._steps:
            if needs[at]:
                part = step * (needs[at] if needs[at] <= least else np.minimum(most, needs[at]))
                gain = part if gain is None else np.add(gain, part, out=gain)
        if gain is None:
            gain = np.zeros(len(self._static.names), np.int64)
        gain.flags.writeable = False
        if len(self._gains) >= _MOST_GAINS:
            self._gains.clear()
        self._gains[asked] = gain
        return gain

    def gain_of(self, needs: Int64s, row: int) -> np.int64:
        """The same for one node."""
        gain = np.int64(0)
        for at, step, most, _ in self._steps:
            if needs[at]:
                gain += min(most[row], needs[at]) * step[row]
        return gain


class Source(NamedTuple):
    """One thing that a pod prefers about nodes.

    Attributes:
        weight: beside other sources, as kube-scheduler weighs them by default.
        raw: what it gives each node, in its own unit, shape (nodes,).
        from_zero: it is measured from 0, which is worth the least (or, of penalties, the most), else from the worst
            node to the best.
    """

    weight: int
    raw: Int64s
    from_zero: bool = False


SOFT_TAINTS: Final = 3
NODE_AFFINITY: Final = 2
POD_AFFINITY: Final = 2
SPREAD: Final = 2
"""Weights of sources: those of kube-scheduler's plugins TaintToleration, NodeAffinity, InterPodAffinity and
PodTopologySpread."""


def combined(sources: Sequence[Source], among: NDArray[np.bool_], weight: int) -> Int64s | None:
    """What preferences add to the score of each node, from 0 to a full score times the weight; None when nothing.

    Each source is brought to the same scale over the nodes `among`, then their mean is taken by their weights. A source
    that gives all those nodes the same has no say, so one that speaks alone has the whole weight.
    """
    if weight <= 0 or not sources or not among.any():
        return None
    telling: list[tuple[int, Int64s, int]] = []
    for source in sources:
        low, high = int(source.raw[among].min()), int(source.raw[among].max())
        if low == high:
            continue
        steps: Int64s = np.clip(source.raw, low, high)
        if source.from_zero:
            low, high = min(low, 0), max(high, 0)
        telling.append((source.weight, steps - low, high - low))
    whole = sum(share for share, _, _ in telling)
    total: Int64s | None = None
    for share, steps, size in telling:
        part = steps * (FULL * weight * share // (whole * size))
        total = part if total is None else total + part
    return total


def without_cards(bare: NDArray[np.bool_], among: NDArray[np.bool_], weight: int) -> Int64s | None:
    """A full score, times the weight, for `bare` nodes: those without accelerators.

    None where all or none of `among` have some.
    """
    if weight <= 0:
        return None
    if not bare[among].any() or bare[among].all():
        return None
    return np.where(bare, FULL * weight, 0).astype(np.int64)
