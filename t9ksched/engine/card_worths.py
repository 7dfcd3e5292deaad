"""What pods have of physical cards, by class and node, for queues whose quotas count cards.

Until a pod has a node it is charged the most that it may have on any node of its queue, and what runs gives back the
least that it may have there: a quota holds whichever cards pods get.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.model.card_slices import CardLayout
from t9ksched.model.card_worth import levels_on, worth_on
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass

_MOST: Final = 1 << 62
"""More than any quota counts: a pod may ask for any number."""


class CardWorths:
    """The same for as long as no node changes. Amounts are in parts of `quantity.CARD`.

    Args:
        facts: of the nodes, one a row.
    """

    def __init__(self, facts: Sequence[NodeFacts]) -> None:
        self._facts = facts
        self._known: dict[PodClass, tuple[Int64s, Int64s]] = {}

    @cached_property
    def kinds(self) -> tuple[tuple[CardLayout, ...], Int64s]:
        """The ways in which nodes have cards, and which of them each node has, by position."""
        found: dict[CardLayout, int] = {}
        kind = np.fromiter((found.setdefault(one.card_layout, len(found)) for one in self._facts), np.int64)
        return tuple(found), kind

    def on(self, pod_class: PodClass) -> tuple[Int64s, Int64s]:
        """The least and the most that a pod has on each node, shape (nodes,); not to be written to."""
        known = self._known.get(pod_class)
        if known is None:
            layouts, kind = self.kinds
            each = (
                (min(least, _MOST), min(most, _MOST)) for least, most in (worth_on(pod_class, one) for one in layouts)
            )
            amounts = np.array(list(each), np.int64).reshape(-1, 2)
            known = self._known[pod_class] = amounts[kind, 0], amounts[kind, 1]
        return known

    def most_among(self, pod_class: PodClass, nodes: Mask) -> int:
        """The most that a pod may have on one of these nodes."""
        if not pod_class.accelerated:
            return 0
        return int(self.on(pod_class)[1][nodes].max(initial=0))

    def levels(self, pod_class: PodClass, nodes: Mask) -> tuple[int, ...]:
        """What a pod may have at most on these nodes, by node and by how dear the cards are that it leaves out there:
        each amount once, ascending, without nothing.
        """
        layouts, kind = self.kinds
        found = {level for at in np.unique(kind[nodes]).tolist() for level in levels_on(pod_class, layouts[at])}
        return tuple(sorted(min(one, _MOST) for one in found if one > 0))

    def most_on(self, pod_class: PodClass, row: int) -> int:
        """The most that a pod may have on the node of this row."""
        return int(self.on(pod_class)[1][row]) if pod_class.accelerated else 0

    def least(self, pod_class: PodClass) -> int:
        """The least that a pod may have where it may have any."""
        if not pod_class.accelerated:
            return 0
        least = self.on(pod_class)[0]
        return int(least[least > 0].min(initial=np.iinfo(np.int64).max)) if least.any() else 0
