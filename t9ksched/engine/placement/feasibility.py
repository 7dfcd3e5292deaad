"""Which nodes are allowed at all, whatever room they have.

One boolean column per distinct constraint (queue's selector, pod's selector and affinity, tolerations, volumes, state
of the node), computed once and kept across cycles in a `FeasibilityCache`. When nodes change, only their entries are
computed again. It never changes a result: it holds pure functions of the nodes' facts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import FrozenNodes, Static
from t9ksched.engine.placement.scores import NODE_AFFINITY, SOFT_TAINTS, Scores, Source
from t9ksched.engine.plugins import PluginColumns
from t9ksched.engine.policy import Binpack
from t9ksched.model.cardmode import NOT_READY
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.taints import Taint, Toleration, untolerated

CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""What an unschedulable node stands for (Kubernetes adds this taint itself, a moment later)."""
CARD_HOLDERS: Final = "card holders"
DATABASE: Final = "database"
_MOST_COLUMNS: Final = 1024
_SOFT: Final = "PreferNoSchedule"


@dataclass(frozen=True, slots=True)
class Usable:
    """Nodes that take work: ready and not being deleted."""

    label: str = "not ready"

    def keys(self) -> None:
        """Reads no labels; not worth sharing between nodes."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.ready and not facts.deleting


@dataclass(frozen=True, slots=True)
class QueueNodes:
    """Nodes of a queue."""

    selector: LabelSelector | None
    label: str = "queue"

    def keys(self) -> tuple[str, ...]:
        return tuple(r.key for r in self.selector.requirements) if self.selector else ()

    def allows(self, facts: NodeFacts) -> bool:
        return self.selector is None or self.selector.matches(facts.labels)


@dataclass(frozen=True, slots=True)
class Selected:
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


@dataclass(frozen=True, slots=True)
class Schedulable:
    """Nodes that are not cordoned; those are for pods that tolerate it."""

    tolerated: bool
    label: str = "unschedulable"

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return self.tolerated or not facts.unschedulable


@dataclass(frozen=True, slots=True)
class Tolerated:
    """Nodes whose taints a pod tolerates, apart from the one that stands for a cordoned node (`Schedulable`)."""

    tolerations: tuple[Toleration, ...]
    label: str = "taints"

    def keys(self) -> None:
        """Reads no labels; the common node without taints is answered at once."""

    def allows(self, facts: NodeFacts) -> bool:
        if not facts.taints:
            return True
        taints = [taint for taint in facts.taints if taint.key != CORDONED.key]
        return untolerated(taints, self.tolerations) is None


@dataclass(frozen=True, slots=True)
class Reachable:
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


@dataclass(frozen=True, slots=True)
class Prepared:
    """Nodes whose accelerators are ready: of interest to pods that ask for some."""

    label: str = "accelerators not ready"

    def keys(self) -> None:
        """What decides was read when the node was seen."""

    def allows(self, facts: NodeFacts) -> bool:
        return facts.mode != NOT_READY


@dataclass(frozen=True, slots=True)
class CardsKnown:
    """Nodes of whose cards it is certain who holds them."""

    label: str = CARD_HOLDERS

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.unsure


@dataclass(frozen=True, slots=True)
class CardsCounted:
    """Nodes whose cards are given by number: nothing must be written down before."""

    label: str = DATABASE

    def keys(self) -> None:
        """Reads no labels."""

    def allows(self, facts: NodeFacts) -> bool:
        return not facts.honours


Constraint = Usable | QueueNodes | Selected | Schedulable | Tolerated | Reachable | Prepared | CardsKnown | CardsCounted


def _affinity_keys(affinity: NodeSelector | None, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The label keys an affinity reads besides `keys`; None when it reads the node's name."""
    if affinity is None or keys is None:
        return keys
    if any(term.fields for term in affinity.terms):
        return None
    return (*keys, *(r.key for term in affinity.terms for r in term.labels))


def constraints(selector: LabelSelector | None, pod_class: PodClass) -> tuple[Constraint, ...]:
    """Everything that decides where pods of this class may run in a queue, in the order in which it is explained."""
    found: list[Constraint] = [QueueNodes(selector), Selected(pod_class.node_selector, pod_class.node_affinity)]
    if pod_class.volume_affinity:
        found.append(Reachable(pod_class.volume_affinity))
    if pod_class.accelerated:
        found.append(Prepared())
    # A node that is not ready, or cordoned, has a taint that says so, too: the plainer word comes first.
    tolerated = untolerated((CORDONED,), pod_class.tolerations) is None
    found += [Usable(), Schedulable(tolerated), Tolerated(pod_class.tolerations)]
    if pod_class.cards:
        found.append(CardsKnown())
        if pod_class.unrecorded:
            found.append(CardsCounted())
    return tuple(found)


class FeasibilityCache:
    """Columns kept across cycles. One cache follows one live table; a fresh one gives the same plans, only later."""

    def __init__(self) -> None:
        self._static: Static | None = None
        self._columns: dict[Constraint, Mask] = {}
        self._joined: dict[tuple[object, ...], Mask] = {}
        self._totals: dict[LabelSelector | None, Int64s] = {}
        self._scores: dict[Binpack | None, Scores] = {}
        self.plugged = PluginColumns()
        self._domains: dict[str, tuple[Indices, list[str]]] = {}
        self._bare: Mask | None = None
        self._softly: list[int] | None = None
        """Nodes with a taint that only asks pods to stay away."""
        self.computed = 0
        """How many entries of columns were computed, for benchmarks and tests of the cache."""

    def follow(self, nodes: FrozenNodes) -> None:
        """Bring what is kept up to these nodes: entries of nodes that came or changed are computed again."""
        old, new = self._static, nodes.static
        if old is new:
            return
        self._static = new
        self._softly = self._bare = None
        self._domains.clear()
        self._joined.clear()
        self._totals.clear()
        self._scores.clear()
        if old is None:
            self._columns.clear()
            return
        if old.names == new.names:
            stale = [row for row, facts in enumerate(new.facts) if old.facts[row] is not facts]
            source = None
        else:
            source = np.array([old.index.get(name, -1) for name in new.names], np.intp)
            stale = [row for row, at in enumerate(source.tolist()) if at < 0 or old.facts[at] is not new.facts[row]]
        for constraint, column in self._columns.items():
            moved = column
            if source is not None:
                moved = column[source] if len(column) else np.zeros(len(source), np.bool_)
            elif stale:
                # Masks already handed out belong to an older picture and stay as they were.
                moved = column.copy()
            for row in stale:
                moved[row] = constraint.allows(new.facts[row])
            self._columns[constraint] = moved
        self.computed += len(stale) * len(self._columns)

    def column(self, constraint: Constraint) -> Mask:
        """Nodes that one constraint allows; shape (nodes,), not to be written to."""
        found = self._columns.get(constraint)
        if found is None:
            static = self._static
            assert static is not None, "follow() comes first"
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
            found = np.fromiter(_evaluate(constraint, static.facts), np.bool_, len(static.facts))
            self._columns[constraint] = found
            self.computed += len(static.facts)
        return found

    def allowed(self, selector: LabelSelector | None, pod_class: PodClass) -> Mask:
        """Nodes on which pods of the class may run in a queue with this selector; not to be written to."""
        key = (selector, *pod_class.constraints)
        found = self._joined.get(key)
        if found is None:
            if len(self._joined) >= _MOST_COLUMNS:
                self._joined.clear()
            found = np.logical_and.reduce([self.column(c) for c in constraints(selector, pod_class)])
            self._joined[key] = found
        return found

    def domains(self, key: str) -> tuple[Indices, list[str]]:
        """Domain of each node by a label, their number for nodes without it; and the label's values, sorted."""
        found = self._domains.get(key)
        if found is None:
            assert self._static is not None, "follow() comes first"
            values = [facts.labels.get(key) for facts in self._static.facts]
            names = sorted({value for value in values if value is not None})
            index: dict[str | None, int] = {value: at for at, value in enumerate(names)}
            of = np.array([index.get(value, len(names)) for value in values], np.intp)
            found = self._domains[key] = (of, names)
        return found

    def preferred(self, pod_class: PodClass) -> list[Source]:
        """What preferred node affinity and soft taints say of the nodes."""
        static = self._static
        assert static is not None, "follow() comes first"
        if self._softly is None:
            self._softly = [
                row for row, facts in enumerate(static.facts) if any(t.effect == _SOFT for t in facts.taints)
            ]
        found = []
        if pod_class.rules is not None and pod_class.rules.prefer_nodes:
            raw = np.zeros(len(static.names), np.int64)
            for points, nodes in pod_class.rules.prefer_nodes:
                raw += points * self.column(Selected((), nodes))
            found.append(Source(NODE_AFFINITY, raw, from_zero=True))
        if self._softly:
            raw = np.zeros(len(static.names), np.int64)
            for row in self._softly:
                soft = (taint for taint in static.facts[row].taints if taint.effect == _SOFT)
                raw[row] = -sum(not any(one.tolerates(t) for one in pod_class.tolerations) for t in soft)
            found.append(Source(SOFT_TAINTS, raw, from_zero=True))
        return found

    def bare(self) -> Mask:
        """Nodes without accelerators."""
        if self._bare is None:
            static = self._static
            assert static is not None, "follow() comes first"
            self._bare = np.fromiter((not facts.accelerated for facts in static.facts), np.bool_, len(static.facts))
        return self._bare

    def scores(self, binpack: Binpack | None) -> Scores:
        """How these nodes are scored by a policy."""
        found = self._scores.get(binpack)
        if found is None:
            assert self._static is not None, "follow() comes first"
            found = self._scores[binpack] = Scores(self._static, binpack)
        return found

    def total(self, selector: LabelSelector | None) -> Int64s:
        """Allocatable of the nodes a queue may use, summed; shape (resources,)."""
        found = self._totals.get(selector)
        if found is None:
            assert self._static is not None, "follow() comes first"
            mask = self.column(QueueNodes(selector)) & self.column(Usable())
            found = self._static.allocatable[:, mask].sum(axis=1)
            self._totals[selector] = found
        return found


def _evaluate(constraint: Constraint, facts: Iterable[NodeFacts]) -> Iterable[bool]:
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
