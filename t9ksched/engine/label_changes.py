"""Labels of nodes that changed, and who reads them: of whom nobody does, nothing changed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from t9ksched.engine.nodes import Static
from t9ksched.engine.placement.constraints import QueueNodes, Reachable, Selected
from t9ksched.model.labels import LabelSelector
from t9ksched.model.names import MGPU_POLICY
from t9ksched.model.podclass import PodClass

_OF_CARDS: Final = ("nvidia.com", "amd.com", "beta.amd.com")
"""Domains of labels that say what the cards of a node are."""


def changed_labels(old: Static, new: Static) -> frozenset[str] | None:
    """The keys of labels that nodes have otherwise than before; None where anything else of nodes changed, or what
    their cards are.
    """
    if old.names != new.names or old.resources != new.resources:
        return None
    found: set[str] = set()
    for was, now in zip(old.facts, new.facts, strict=True):
        if was is now:
            continue
        if replace(was, labels=now.labels) != now:
            return None
        found |= {key for key, _ in was.labels.items() ^ now.labels.items()}
    return None if any(map(_is_of_cards, found)) else frozenset(found)


def _is_of_cards(key: str) -> bool:
    return key.partition("/")[0] in _OF_CARDS or key.endswith(".replicas") or key == MGPU_POLICY


def read_labels(selector: LabelSelector | None, pod_class: PodClass, levels: Iterable[str]) -> frozenset[str] | None:
    """The keys of labels of nodes that decide where pods of the class may be, in a queue with that selector and within
    domains of these levels; None where more of a node decides than what it has and its labels.
    """
    found = set(levels)
    for keys in (
        QueueNodes(selector).keys(),
        Selected(pod_class.node_selector, pod_class.node_affinity).keys(),
        Reachable(pod_class.volume_affinity).keys(),
    ):
        if keys is None:
            return None
        found.update(keys)
    rules = pod_class.rules
    if rules is not None:
        if rules.prefer_nodes:
            return None
        found.update(term.topology_key for term in rules.terms)
    found.update(term.topology_key for term in pod_class.counted)
    return frozenset(found)
