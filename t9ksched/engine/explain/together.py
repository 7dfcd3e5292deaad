"""Whether unlike pods fit together on nodes with nothing on them, where sums prove nothing: an exact search.

A state says how many nodes of each kind have how much left. Nodes that are alike count as one kind, so the order in
which alike pods go to alike nodes makes no other state; a state from which the rest found no way is not tried twice.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.work import Meter, Work

_MOST_PODS: Final = 64
"""Gangs with more pods are not searched; sums prove what there is to prove of many."""
_MOST_STATES: Final = 2_000
_A_STATE: Final = 1_000
"""Units of work to look at a state."""
_SOME: Final = 8

_Node = tuple[tuple[bool, ...], tuple[int, ...]]
"""Which kinds of pods a node takes at all, and what it has left of each resource that these need."""
_State = dict[_Node, int]


def fit_together(
    needs: Sequence[Int64s], pods: Sequence[int], masks: Sequence[Mask], has: Int64s, meter: Meter
) -> Work[bool | None]:
    """Whether so many pods of each kind fit on the nodes; None where that was not found out.

    `needs` are what one pod takes, shape (resources,); `masks` which nodes take such pods, shape (nodes,); `has` is
    what the nodes have, shape (resources, nodes).
    """
    if (yield from _one_after_the_other(needs, pods, masks, has, meter)):
        return True
    if sum(pods) > _MOST_PODS:
        return None
    asked = np.flatnonzero(np.logical_or.reduce([of > 0 for of in needs]))
    able: Mask = np.array(masks)
    rows = np.flatnonzero(able.any(axis=0))
    meter.spent += len(rows) * (len(asked) + len(masks))
    takes, amounts = able[:, rows].T.tolist(), has[np.ix_(asked, rows)].T.tolist()
    kinds: Counter[_Node] = Counter(zip(map(tuple, takes), map(tuple, amounts), strict=True))
    yield
    start = {node: min(number, sum(pods)) for node, number in kinds.items()}  # each pod needs one at most
    return (yield from _Search([tuple(of[asked].tolist()) for of in needs], meter).all_fit(start, pods))


def _one_after_the_other(
    needs: Sequence[Int64s], pods: Sequence[int], masks: Sequence[Mask], has: Int64s, meter: Meter
) -> Work[bool]:
    """Whether all fit where each kind fills the first nodes that take its pods."""
    left = has.copy()
    for of, count, mask in zip(needs, pods, masks, strict=True):
        asked = np.flatnonzero(of)
        rooms = np.where(mask, np.minimum.reduce(left[asked] // of[asked, None], initial=count), 0)
        before = np.cumsum(rooms) - rooms
        if int(before[-1] + rooms[-1]) < count:
            return False
        left -= of[:, None] * np.clip(count - before, 0, rooms)
        meter.spent += 2 * has.size
        yield
    return True


class _Search:
    """Places pods kind after kind, those of the first kind first."""

    def __init__(self, needs: Sequence[tuple[int, ...]], meter: Meter) -> None:
        self._needs = needs
        self._meter = meter
        self._vain: set[tuple[tuple[int, ...], frozenset[tuple[_Node, int]]]] = set()

    def all_fit(self, start: _State, pods: Sequence[int]) -> Work[bool | None]:
        """Whether all fit; None when the search ended at its bound."""
        waiting = [(start, tuple(pods))]
        for nth in range(_MOST_STATES):
            if not waiting:
                return False
            state, left = waiting.pop()
            if not any(left):
                return True
            waiting += self._next(state, left)
            self._meter.spent += _A_STATE
            if not nth % _SOME:
                yield
        return None

    def _next(self, state: _State, left: tuple[int, ...]) -> list[tuple[_State, tuple[int, ...]]]:
        """The states after one more pod, the likeliest to succeed last; none where the rest cannot fit."""
        seen = left, frozenset(state.items())
        if seen in self._vain or not self._may(state, left):
            return []
        self._vain.add(seen)
        kind = next(at for at, pods in enumerate(left) if pods)
        rest = tuple(pods - (at == kind) for at, pods in enumerate(left))
        found = []
        # The node with the least left is tried first, so that large ones stay for pods that need them.
        for node in sorted(state, key=lambda one: one[1], reverse=True):
            if self._room(node, kind):
                after = Counter(state)
                after[node] -= 1
                after[node[0], tuple(has - need for has, need in zip(node[1], self._needs[kind], strict=True))] += 1
                found.append((self._useful(after, rest), rest))
        return found

    def _useful(self, state: _State, left: tuple[int, ...]) -> _State:
        """The state without nodes that can take none of the rest."""
        kinds = [at for at, pods in enumerate(left) if pods]
        return {node: count for node, count in state.items() if count and any(self._room(node, at) for at in kinds)}

    def _may(self, state: _State, left: tuple[int, ...]) -> bool:
        """Whether the rest of each kind would fit if those of the others were not there."""
        return all(
            sum(count * self._room(node, at) for node, count in state.items()) >= pods
            for at, pods in enumerate(left)
            if pods
        )

    def _room(self, node: _Node, kind: int) -> int:
        """How many pods of a kind the node takes."""
        takes, has = node
        if not takes[kind]:
            return 0
        return min((one // need for one, need in zip(has, self._needs[kind], strict=True) if need), default=_MOST_PODS)
