"""What changed of nodes that gangs which wait are told of: their labels, and whether they take work. Of a gang whose
pods cannot be on such a node, and that reads none of these labels, nothing changed.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from t9ksched.engine.nodes import Static
from t9ksched.engine.placement.constraints import QueueNodes, Reachable, Selected
from t9ksched.model.labels import LabelSelector
from t9ksched.model.names import MGPU_POLICY
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass

_OF_CARDS: Final = ("nvidia.com", "amd.com", "beta.amd.com")
"""Domains of labels that say what the cards of a node are."""
_MOST: Final = 256
"""So many nodes that changed at once are looked at one by one."""


class NodeChanges(NamedTuple):
    """The keys of labels that nodes have otherwise than before; and by row the nodes that became ready, cordoned or
    tainted, or are no more.
    """

    labels: frozenset[str]
    turned: dict[int, NodeFacts]


def changed_nodes(old: Static, new: Static) -> NodeChanges | None:
    """What changed; None where that is more than the labels of nodes, and whether they take work, where a label says
    what their cards are, or where very many nodes changed.
    """
    if old.names != new.names or old.resources != new.resources:
        return None
    labels: set[str] = set()
    turned: dict[int, NodeFacts] = {}
    rows = [row for row, (was, now) in enumerate(zip(old.facts, new.facts, strict=True)) if was is not now]
    if len(rows) > _MOST:
        return None
    for row in rows:
        was, now = old.facts[row], new.facts[row]
        state = replace(was, ready=now.ready, unschedulable=now.unschedulable, taints=now.taints, deleting=now.deleting)
        if replace(state, labels=now.labels) != now:
            return None
        if state != was:
            turned[row] = now
        labels |= {key for key, _ in was.labels.items() ^ now.labels.items()}
    return None if any(map(_is_of_cards, labels)) else NodeChanges(frozenset(labels), turned)


def _is_of_cards(key: str) -> bool:
    return key.partition("/")[0] in _OF_CARDS or key.endswith(".replicas") or key == MGPU_POLICY


def read_labels(selector: LabelSelector | None, pod_class: PodClass, levels: Iterable[str]) -> frozenset[str] | None:
    """The keys of labels of nodes that decide where pods of the class may be, in a queue with that selector and within
    domains of these levels; None where more of a node decides than what it has and its labels.
    """
    found = set(levels)
    for one in _selecting(selector, pod_class):
        if (keys := one.keys()) is None:
            return None
        found.update(keys)
    rules = pod_class.rules
    if rules is not None:
        if rules.prefer_nodes:
            return None
        found.update(term.topology_key for term in rules.terms)
    found.update(term.topology_key for term in pod_class.counted)
    return frozenset(found)


def selects(selector: LabelSelector | None, pod_class: PodClass, facts: NodeFacts) -> bool:
    """Whether pods of the class might be on the node, in a queue with that selector, if it took work and had room."""
    return all(one.allows(facts) for one in _selecting(selector, pod_class))


def _selecting(selector: LabelSelector | None, pod_class: PodClass) -> tuple[QueueNodes, Selected, Reachable]:
    return (
        QueueNodes(selector),
        Selected(pod_class.node_selector, pod_class.node_affinity),
        Reachable(pod_class.volume_affinity),
    )
