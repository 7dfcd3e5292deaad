"""Which pods are usual: the classes of those that have arrived, and how many of each.

Who makes views counts what arrives here and puts `shapes` into each view (`View.usual`), so that a plan depends on its
view alone. What is kept is bounded, whatever arrives: when too many have arrived, or are of too many classes, all
counts are halved, and the oldest of what is rarest is forgotten.
"""

from typing import Final

from t9ksched.model.podclass import PodClass

Counted = tuple[tuple[PodClass, int], ...]
"""Classes of pods in the order in which they first arrived, and how many of each."""

_GROWTH: Final = 4
"""The shapes are told anew when a quarter more pods have arrived: each time all nodes are valued anew."""
_MOST_CLASSES: Final = 1024
_MOST_PODS: Final = 1 << 17


class UsualPods:
    """Counts pods as they arrive."""

    def __init__(self) -> None:
        self._counts: dict[PodClass, int] = {}
        self._total = self._next = 0
        self._told: Counted = ()

    def arrived(self, pod_class: PodClass) -> None:
        """A pod has come."""
        counts = self._counts
        counts[pod_class] = counts.get(pod_class, 0) + 1
        self._total += 1
        if self._total >= _MOST_PODS or len(counts) > _MOST_CLASSES:
            self._forget()

    def shapes(self) -> Counted:
        """What has arrived, and how often; the same value until a quarter more has."""
        if self._total >= self._next:
            self._next = self._total + max(self._total // _GROWTH, 1)
            self._told = tuple(self._counts.items())
        return self._told

    def _forget(self) -> None:
        halved = {pod_class: count // 2 for pod_class, count in self._counts.items() if count > 1}
        frequent = sorted(halved, key=lambda one: -halved[one])[: _MOST_CLASSES // 2]
        kept = frozenset(frequent)
        self._counts = {pod_class: count for pod_class, count in halved.items() if pod_class in kept}
        self._total = sum(self._counts.values())
        self._next = 0
