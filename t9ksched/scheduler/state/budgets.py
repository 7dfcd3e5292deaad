"""PodDisruptionBudgets, and the groups whose eviction would violate one: other groups of the same queue priority are
evicted before them. A budget is preferred, not absolute: if no other victim makes room a guarded job is evicted too, as
with kube-scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import structlog
from msgspec import structs

from t9ksched.engine.placement.term_lookup import TermLookup
from t9ksched.engine.victims.victim_table import surplus
from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.labels import LabelSelector
from t9ksched.model.pod import Metadata
from t9ksched.model.podrules import Peers, PodTerm
from t9ksched.model.queue import Queue
from t9ksched.scheduler.state.change_feed import Topic
from t9ksched.scheduler.state.records import PodRecord

log = structlog.get_logger(__name__)


class BudgetSpec(msgspec.Struct, gc=False, rename="camel"):
    """`spec` of a budget; without a selector it selects no pods, with an empty one all pods of its namespace."""

    selector: dict[str, Any] | None = None


class BudgetStatus(msgspec.Struct, gc=False, rename="camel"):
    """`status` of a budget, as the cluster's disruption controller keeps it."""

    disruptions_allowed: int = 0


class DisruptionBudget(msgspec.Struct, gc=False, rename="camel"):
    """A PodDisruptionBudget as the API server has it."""

    metadata: Metadata
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


BudgetKey = tuple[str, str]
"""Namespace and name of a budget."""
Needs = frozenset[tuple[BudgetKey, int]]
"""How many pods each budget would lose, of those that would lose any."""
Rank = tuple[int, int, int]

_MOST_ANSWERS: Final = 10_000
"""So many answers are kept of what budgets would lose by pods with certain labels."""


def rank(group: Running, queues: Mapping[str, Queue]) -> Rank:
    """Sorts groups in the order of eviction."""
    queue = queues.get(group.queue)
    return (queue.spec.priority if queue else 0, group.priority, -group.created)


def namespace_of(group: Running) -> str:
    """The namespace of the group and its pods."""
    return group.name.partition("/")[0]


class Budgets:
    """All budgets, kept event by event.

    Attributes:
        changed: budgets that came, went, select other pods or allow another number; only while it is followed.
        relabelled: groups, by UID, of which pods have other labels than before; only while it is followed.
    """

    def __init__(self) -> None:
        self._terms: dict[BudgetKey, PodTerm] = {}
        """The pods that each budget selects; the same object while it selects the same."""
        self._allowed: dict[BudgetKey, int] = {}
        self._lookup: TermLookup[BudgetKey] = TermLookup()
        self._needs: dict[tuple[object, ...], tuple[list[Mapping[str, str]], Needs]] = {}
        """What all would lose by pods of a namespace with these labels, by identity."""
        self.changed: Topic[BudgetKey] = Topic()
        self.relabelled: Topic[str] = Topic()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def __iter__(self) -> Iterator[BudgetKey]:
        return iter(self._terms)

    def upsert(self, item: DisruptionBudget) -> None:
        """A budget appeared or changed."""
        meta, raw = item.metadata, item.spec.selector
        key = (meta.namespace, meta.name)
        if raw is None:
            self.remove(item)
            return
        try:
            selector = LabelSelector.parse(raw, "spec.selector")
        except Invalid as error:
            self.remove(item)
            log.warning("this disruption budget is not heeded", budget=f"{meta.namespace}/{meta.name}", why=str(error))
            return
        term = PodTerm((Peers(selector, (meta.namespace,)),), "")
        if (known := self._terms.get(key)) != term:
            if known is not None:
                self._lookup.remove(key)
            self._terms[key] = term
            self._lookup.add(term, key)
            self._needs.clear()
        self._allowed[key] = max(0, item.status.disruptions_allowed)
        self._note(key)

    def remove(self, item: DisruptionBudget) -> None:
        """A budget is gone."""
        key = (item.metadata.namespace, item.metadata.name)
        if self._terms.pop(key, None) is not None:
            self._lookup.remove(key)
            self._needs.clear()
            del self._allowed[key]
            self._note(key)

    def _note(self, key: BudgetKey) -> None:
        if self.changed.followed:
            self.changed.note(key)

    def has_other_labels(self, group: str) -> None:
        """A pod of the group of this UID has other labels than before."""
        if self.relabelled.followed:
            self.relabelled.note(group)

    def term(self, key: BudgetKey) -> PodTerm | None:
        """The pods that a budget selects, the same object while it selects the same; None without such a budget."""
        return self._terms.get(key)

    def allowed(self, key: BudgetKey) -> int:
        """How many pods a budget may lose now."""
        return self._allowed.get(key, 0)

    def going(self, group: Running, pods: Mapping[str, PodRecord]) -> list[Mapping[str, str]]:
        """Labels of the pods that the smallest eviction of the group takes: one surplus member, or the whole gang."""
        above = surplus(group)
        going: Iterable[RunningPod] = [group.pods[above[0]]] if above else group.pods
        return [record.labels for pod in going if not pod.leaving and (record := pods.get(pod.uid)) is not None]

    def needs(self, namespace: str, going: list[Mapping[str, str]]) -> Needs:
        """What budgets would lose if the pods with these labels, which are in this namespace, went. The labels must not
        be changed: pods that have the same ones get the same answer.
        """
        alike = namespace, *map(id, going)
        known = self._needs.get(alike)
        if known is None:
            found: dict[BudgetKey, int] = {}
            for labels in going:
                for key in self._lookup.selecting(namespace, labels, {}):
                    found[key] = found.get(key, 0) + 1
            if len(self._needs) >= _MOST_ANSWERS:
                self._needs.clear()
            known = self._needs[alike] = going, frozenset(found.items())
        return known[1]

    def guard(
        self, groups: Iterable[Running], pods: Mapping[str, PodRecord], queues: Mapping[str, Queue]
    ) -> tuple[Running, ...]:
        """The same groups, those marked whose eviction would break a budget.

        Of several groups under one budget as many stay unmarked as it allows, in the order of eviction.
        """
        found = list(groups)
        left: dict[BudgetKey, int] = {}
        for at in sorted(range(len(found)), key=lambda at: (rank(found[at], queues), found[at].uid)) if self else ():
            group = found[at]
            needs = self.needs(namespace_of(group), self.going(group, pods))
            if all(left.get(key, self._allowed[key]) >= count for key, count in needs):
                for key, count in needs:
                    left[key] = left.get(key, self._allowed[key]) - count
            else:
                found[at] = structs.replace(group, guarded=True)
        return tuple(found)
