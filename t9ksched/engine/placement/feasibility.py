"""Which nodes are allowed, as columns kept across cycles.

One boolean column per distinct constraint (`constraints.py`), computed once. When nodes change, only their entries are
computed again. A cache never changes a result: it holds pure functions of the nodes' facts.
"""

from collections import Counter
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import FrozenNodes, Static
from t9ksched.engine.placement.card_constraints import Prepared
from t9ksched.engine.placement.constraints import (
    Constraint,
    QueueNodes,
    Selected,
    Usable,
    constraints,
    evaluate,
    lasting,
    only_volumes_changed,
)
from t9ksched.engine.placement.domains import Domains
from t9ksched.engine.placement.scores import NODE_AFFINITY, SOFT_TAINTS, Scores, Source
from t9ksched.engine.plugins import PluginColumns
from t9ksched.engine.policy import Binpack
from t9ksched.engine.work import Meter, Work
from t9ksched.model.card_models import card_memory, card_model
from t9ksched.model.labels import LabelSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass

_MOST_COLUMNS: Final = 1024
_NODES_AT_ONCE: Final = 2048
"""So many nodes are asked about a constraint in one step."""
_A_NODE: Final = 50
"""Units of work to ask a node about a constraint."""
_SOFT: Final = "PreferNoSchedule"


class FeasibilityCache:
    """Columns kept across cycles. One cache follows one live table; a fresh one gives the same plans, only later."""

    def __init__(self) -> None:
        self._static: Static | None = None
        self._columns: dict[Constraint, Mask] = {}
        self._joined: dict[tuple[object, ...], Mask] = {}
        self._totals: dict[LabelSelector | None, Int64s] = {}
        self._scores: dict[Binpack | None, Scores] = {}
        self.plugged = PluginColumns()
        self._domains: dict[str, Domains] = {}
        self._whole: Int64s | None = None
        self._bare: Mask | None = None
        self._models: dict[str, list[Source]] = {}
        self._softly: list[int] | None = None
        """Nodes with a taint that only asks pods to stay away."""
        self.together: dict[tuple[object, ...], bool | None] = {}
        """Whether unlike pods fit together on empty nodes, as `explain` found out, by what it looked at."""
        self.computed = 0
        """How many entries of columns were computed, for benchmarks and tests of the cache."""

    def follow(self, nodes: FrozenNodes) -> None:
        """Bring what is kept up to these nodes: entries of nodes that came or changed are computed again."""
        old, new = self._static, nodes.static
        if old is new:
            return
        self._static = new
        self._softly = self._bare = self._whole = None
        self._domains.clear()
        self._models.clear()
        self._joined.clear()
        self._totals.clear()
        self._scores.clear()
        self.together.clear()
        if old is None:
            self._columns.clear()
            return
        if old.names == new.names:
            stale = [row for row, facts in enumerate(new.facts) if _moved(old.facts[row], facts)]
            source = None
        else:
            source = np.array([old.index.get(name, -1) for name in new.names], np.intp)
            stale = [row for row, at in enumerate(source.tolist()) if at < 0 or _moved(old.facts[at], new.facts[row])]
        for constraint, column in self._columns.items():
            moved = column
            if source is not None:
                moved = column[source] if len(column) else np.zeros(len(source), np.bool_)
            elif stale:
                # Masks already handed out belong to older frozen nodes and stay as they were.
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
            found = np.fromiter(evaluate(constraint, static.facts), np.bool_, len(static.facts))
            self._keep(constraint, found)
        return found

    def _keep(self, constraint: Constraint, column: Mask) -> None:
        if len(self._columns) >= _MOST_COLUMNS:
            self._columns.clear()
        self._columns[constraint] = column
        self.computed += len(column)

    def prepare(self, selector: LabelSelector | None, pod_class: PodClass, meter: Meter) -> Work[None]:
        """Compute, in slices, the columns that `allowed` will ask for: of a new class on thousands of nodes each takes
        milliseconds.
        """
        if (selector, *pod_class.constraints) in self._joined:
            return
        static = self._static
        assert static is not None, "follow() comes first"
        for constraint in constraints(selector, pod_class):
            if constraint in self._columns:
                continue
            found = np.zeros(len(static.facts), np.bool_)
            for at in range(0, len(found), _NODES_AT_ONCE):
                some = static.facts[at : at + _NODES_AT_ONCE]
                found[at : at + len(some)] = np.fromiter(evaluate(constraint, some), np.bool_, len(some))
                meter.spent += _A_NODE * len(some)
                yield
                if self._static is not static:
                    return  # a cycle on other nodes began meanwhile
            self._keep(constraint, found)

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

    def ever(self, selector: LabelSelector | None, pod_class: PodClass) -> Mask:
        """As `allowed`, with the nodes that are away for now (`lasting`); not to be written to."""
        key = ("ever", selector, *pod_class.constraints)
        found = self._joined.get(key)
        if found is None:
            if len(self._joined) >= _MOST_COLUMNS:
                self._joined.clear()
            others, cards = lasting(selector, pod_class)
            found = np.logical_and.reduce([self.column(one) for one in others])
            if cards:
                found = found & (np.logical_and.reduce([self.column(one) for one in cards]) | ~self.column(Prepared()))
            self._joined[key] = found
        return found

    def domains(self, key: str) -> tuple[Indices, list[str]]:
        """Domain of each node by a label, their number for nodes without it; and the label's values, sorted."""
        found = self.domains_of(key)
        return found.of, found.names

    def domains_of(self, key: str) -> Domains:
        """The domains of a label."""
        found = self._domains.get(key)
        if found is None:
            assert self._static is not None, "follow() comes first"
            values = [facts.labels.get(key) for facts in self._static.facts]
            names = sorted({value for value in values if value is not None})
            index: dict[str | None, int] = {value: at for at, value in enumerate(names)}
            of = np.array([index.get(value, len(names)) for value in values], np.intp)
            found = self._domains[key] = Domains(of, names)
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

    def card_models(self, resource: str) -> list[Source]:
        """What models of cards say of the nodes that have them: the larger the card, and the fewer there are of its
        model, the less. Nodes that do not tell how large count as the smallest, those with cards of several models as
        their largest card, and their scarcest.
        """
        found = self._models.get(resource)
        if found is None:
            static = self._static
            assert static is not None, "follow() comes first"
            on = [facts.models(resource) or (card_model(facts.labels) or "",) for facts in static.facts]
            count: Counter[str] = Counter()
            for facts, models in zip(static.facts, on, strict=True):
                of_each = 1 if resource in facts.cards.divided else facts.allocatable.get(resource, 0)
                for model in models:
                    count[model] += of_each
            large = np.array([-_largest(facts, resource) for facts in static.facts], np.int64)
            many = np.array([min(count[model] for model in models) for models in on], np.int64)
            found = self._models[resource] = [Source(1, large), Source(1, many)]
        return found

    def whole(self) -> Int64s:
        """Allocatable of all nodes, summed, at least 1; shape (resources,)."""
        if self._whole is None:
            assert self._static is not None, "follow() comes first"
            self._whole = np.maximum(self._static.allocatable.sum(axis=1), 1)
        return self._whole

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


def _moved(old: NodeFacts, new: NodeFacts) -> bool:
    return old is not new and not only_volumes_changed(old, new)


def _largest(facts: NodeFacts, resource: str) -> int:
    """MiB of the largest card of a node; 0 where it does not tell."""
    sizes = facts.cards.divided.get(resource, ())
    return max((one.memory for one in sizes), default=0) or card_memory(facts.labels) or 0
