"""What makes a node allowed for a pod, whatever room it has: one small class a constraint, one answer a node.

`constraints` lists those of a pod class in a queue; each has a label by which reasons count the nodes it excludes.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from operator import attrgetter, is_
from typing import Final

import msgspec

from t9ksched.engine.placement.card_constraints import (
    CardConstraint,
    CardsCounted,
    CardsKnown,
    NotByDra,
    Prepared,
    of_cards,
)
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.taints import OF_KUBERNETES, Taint, Toleration, untolerated
from t9ksched.model.volumes import counts_volumes

CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""What an unschedulable node stands for (Kubernetes adds this taint itself, a moment later)."""


class Usable(msgspec.Struct, frozen=True):
    """Nodes that take work: ready and not being deleted."""

    label: str = "not ready"

    def keys(self) -> None:
        """Reads no labels; not worth sharing between nodes."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.ready and not facts.deleting


class QueueNodes(msgspec.Struct, frozen=True):
    """Nodes of a queue."""

    selector: LabelSelector | None
    label: str = "queue"

    def keys(self) -> tuple[str, ...]:
        return tuple(r.key for r in self.selector.requirements) if self.selector else ()

    def allows(self, facts: NodeFacts) -> bool:
        return self.selector is None or self.selector.matches(facts.labels)


class Selected(msgspec.Struct, frozen=True):
    """Nodes that a pod's nodeSelector and required node affinity name."""

    node_selector: tuple[tuple[str, str], ...]
    affinity: NodeSelector | None
    label: str = "selector"

    def keys(self) -> tuple[str, ...] | None:
        return _affinity_keys(self.affinity, tuple(key for key, _ in self.node_selector))

    def allows(self, facts: NodeFacts) -> bool:
        if any(facts.labels.get(key) != value for key, value in self.node_selector):
            return False
        return self.affinity is None or self.affinity.matches(facts.labels, facts.name)


class Schedulable(msgspec.Struct, frozen=True):
    """Nodes that are not cordoned; those are for pods that tolerate it."""

    tolerated: bool
    label: str = "unschedulable"

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return self.tolerated or not facts.unschedulable


class Tolerated(msgspec.Struct, frozen=True):
    """Nodes whose taints a pod tolerates, apart from the one that stands for a cordoned node (`Schedulable`); with
    `ever` apart from all that Kubernetes sets of itself, and takes off again.
    """

    tolerations: tuple[Toleration, ...]
    ever: bool = False
    label: str = "taints"

    def keys(self) -> None:
        """Reads no labels; the common node without taints is answered at once."""

    def allows(self, facts: NodeFacts) -> bool:
        if not facts.taints:
            return True
        taints = [taint for taint in facts.taints if not self._is_apart(taint.key)]
        return untolerated(taints, self.tolerations) is None

    def _is_apart(self, key: str) -> bool:
        return key.startswith(OF_KUBERNETES) if self.ever else key == CORDONED.key


class NotAvoided(msgspec.Struct, frozen=True):
    """Nodes that rejected no pod of the same job a moment ago."""

    nodes: tuple[str, ...]
    label: str = "avoided"

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.name not in self.nodes


class Untainted(msgspec.Struct, frozen=True):
    """Nodes that count for a topology spread with `nodeTaintsPolicy: Honor`: those without a taint that a pod does not
    tolerate, the one of a cordoned node among them. As in kube-scheduler, `spec.unschedulable` alone excludes no node.
    """

    tolerations: tuple[Toleration, ...]
    label: str = "taints"

    def keys(self) -> None:
        """Reads no labels; the common node without taints is answered at once."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.taints or untolerated(facts.taints, self.tolerations) is None


class Reachable(msgspec.Struct, frozen=True):
    """Nodes from which all bound volumes of a pod can be reached."""

    affinities: tuple[NodeSelector, ...]
    label: str = "volumes"

    def keys(self) -> tuple[str, ...] | None:
        found: tuple[str, ...] | None = ()
        for affinity in self.affinities:
            found = _affinity_keys(affinity, found)
        return found

    def allows(self, facts: NodeFacts) -> bool:
        return all(affinity.matches(facts.labels, facts.name) for affinity in self.affinities)


Constraint = (
    Usable | QueueNodes | Selected | Schedulable | Tolerated | NotAvoided | Untainted | Reachable | CardConstraint
)


def _affinity_keys(affinity: NodeSelector | None, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The label keys an affinity reads besides `keys`; None when it reads the node's name."""
    if affinity is None or keys is None:
        return keys
    own = affinity.label_keys
    return None if own is None else (*keys, *(key for key in own if key not in keys))


def constraints(selector: LabelSelector | None, pod_class: PodClass) -> tuple[Constraint, ...]:
    """Everything that decides where pods of this class may run in a queue, in the order in which it is explained."""
    found: list[Constraint] = [QueueNodes(selector), Selected(pod_class.node_selector, pod_class.node_affinity)]
    if pod_class.volume_affinity:
        found.append(Reachable(pod_class.volume_affinity))
    if pod_class.extended:
        found.append(NotByDra(pod_class.extended))
    if pod_class.accelerated:
        found += [*of_cards(selector, pod_class), Prepared()]
    # A node that is not ready, or cordoned, has a taint that says so, too: the plainer reason comes first.
    tolerated = untolerated((CORDONED,), pod_class.tolerations) is None
    found += [Usable(), Schedulable(tolerated), Tolerated(pod_class.tolerations)]
    if pod_class.avoided:
        found.append(NotAvoided(pod_class.avoided))
    if pod_class.accelerated:
        found.append(CardsKnown())
    if pod_class.cards and pod_class.unrecorded:
        found.append(CardsCounted())
    return tuple(found)


def only_volumes_changed(old: NodeFacts, new: NodeFacts) -> bool:
    """Whether a node differs at most in how many volumes it can take, of which no constraint speaks."""
    if not all(map(is_, _others(old), _others(new))):
        return False
    before, after = old.allocatable, new.allocatable
    return all(before.get(name) == after.get(name) or counts_volumes(name) for name in before.keys() | after.keys())


_others: Final = attrgetter(*(field.name for field in fields(NodeFacts) if field.name != "allocatable"))


def lasting(selector: LabelSelector | None, pod_class: PodClass) -> tuple[list[Constraint], list[Constraint]]:
    """What of `constraints` does not change by itself; and what of that speaks of cards: a node whose accelerators are
    not ready may have others by the time they are.
    """
    cards: list[Constraint] = list(of_cards(selector, pod_class)) if pod_class.accelerated else []
    passing = Usable | Schedulable | Tolerated | NotAvoided | Prepared | CardsKnown | CardsCounted
    others = [one for one in constraints(selector, pod_class) if not isinstance(one, passing) and one not in cards]
    return [*others, Tolerated(pod_class.tolerations, ever=True)], cards


def evaluate(constraint: Constraint, facts: Iterable[NodeFacts]) -> Iterable[bool]:
    """Ask the constraint once per combination of the labels it reads: nodes of a pool are alike."""
    keys = constraint.keys()
    if keys is None:
        return map(constraint.allows, facts)
    if not keys:
        return (True for _ in facts) if _empty(constraint) else map(constraint.allows, facts)
    return _by_labels(keys, constraint.allows, facts)


def _empty(constraint: Constraint) -> bool:
    match constraint:
        case QueueNodes():
            return True
        case Selected(affinity=affinity):
            return affinity is None
        case Reachable(affinities=affinities):
            return not affinities
    return False


def _by_labels(
    keys: tuple[str, ...], allows: Callable[[NodeFacts], bool], facts: Iterable[NodeFacts]
) -> Iterable[bool]:
    known: dict[tuple[str | None, ...], bool] = {}
    for fact in facts:
        get = fact.labels.get
        values = tuple([get(key) for key in keys])
        answer = known.get(values)
        if answer is None:
            answer = known[values] = allows(fact)
        yield answer
