"""The class of a pod for the engine: with the free volumes that it needs, and with nodes excluded; and which nodes show
the kind of cards that roles have.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from t9ksched.model.podclass import PodClass

if TYPE_CHECKING:
    from t9ksched.scheduler.state.records import PodRecord


def taking(pod_class: PodClass, to_bind: Sequence[tuple[str, str]]) -> PodClass:
    """The class with the free volumes that the pod needs on its node, as claims and resources. It is not charged with
    them: once they are its own they are free no more.
    """
    if not to_bind:
        return pod_class
    counts = Counter(resource for _, resource in to_bind if resource)
    return replace(pod_class, requests=tuple(sorted([*pod_class.requests, *counts.items()]))) if counts else pod_class


@lru_cache(maxsize=1024)
def unrecorded(pod_class: PodClass) -> PodClass:
    """The same class of pods, kept off nodes that give cards by index."""
    return replace(pod_class, unrecorded=True)


def off(pod_class: PodClass, nodes: frozenset[str]) -> PodClass:
    """The same class of pods, kept off these nodes."""
    return replace(pod_class, avoided=tuple(sorted(nodes))) if nodes else pod_class


def card_nodes(pods: Iterable["PodRecord"]) -> tuple[tuple[str, str], ...]:
    """For roles with placed members that ask for cards, the node of one of them; sorted by role."""
    found: dict[str, str] = {}
    for pod in pods:
        if pod.placed and not pod.deleting and pod.pod_class is not None and pod.pod_class.plain:
            place = pod.node or pod.assumed
            if place:
                found.setdefault(pod.role, place)
    return tuple(sorted(found.items()))
