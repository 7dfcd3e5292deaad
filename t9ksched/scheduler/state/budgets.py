"""PodDisruptionBudgets, and the groups whose eviction would violate one: other groups of the same queue priority are
evicted before them. A budget is preferred, not absolute: if no other victim makes room a guarded job is evicted too, as
with kube-scheduler.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import structlog
from msgspec import structs

from t9ksched.engine.victims.victim_table import surplus
from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.labels import LabelSelector
from t9ksched.model.pod import Metadata
from t9ksched.model.queue import Queue
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
Rank = tuple[int, int, int]


def rank(group: Running, queues: Mapping[str, Queue]) -> Rank:
    """Sorts groups in the order of eviction."""
    queue = queues.get(group.queue)
    return (queue.spec.priority if queue else 0, group.priority, -group.created)


class Budgets:
    """All budgets, kept event by event."""

    def __init__(self) -> None:
        self._selectors: dict[BudgetKey, LabelSelector] = {}
        self._allowed: dict[BudgetKey, int] = {}
        self._relabelled: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._selectors)

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
        if self._selectors.get(key) != selector:
            self._selectors[key] = selector
        self._allowed[key] = max(0, item.status.disruptions_allowed)

    def remove(self, item: DisruptionBudget) -> None:
        """A budget is gone."""
        key = (item.metadata.namespace, item.metadata.name)
        self._selectors.pop(key, None)
        self._allowed.pop(key, None)

    def relabelled(self, group: str) -> None:
        """A pod of the group of this UID has other labels than before."""
        if self._selectors:
            self._relabelled.add(group)

    def take_relabelled(self) -> set[str]:
        """Groups of which pods were relabelled since the last call, by UID."""
        found, self._relabelled = self._relabelled, set()
        return found

    def selecting(self) -> dict[BudgetKey, object]:
        """What each budget selects; the same object while it selects the same."""
        return dict(self._selectors)

    def allowed(self) -> dict[BudgetKey, int]:
        """How many pods each budget may lose now."""
        return dict(self._allowed)

    def going(self, group: Running, pods: Mapping[str, PodRecord]) -> list[Mapping[str, str]]:
        """Labels of the pods that the smallest eviction of the group takes: one surplus member, or the whole gang."""
        above = surplus(group)
        going: Iterable[RunningPod] = [group.pods[above[0]]] if above else group.pods
        return [record.labels for pod in going if not pod.leaving and (record := pods.get(pod.uid)) is not None]

    def loses(self, key: BudgetKey, going: Iterable[Mapping[str, str]]) -> int:
        """How many of these pods, which are in its namespace, the budget of that key selects."""
        return sum(map(self._selectors[key].matches, going))

    def guard(
        self, groups: Iterable[Running], pods: Mapping[str, PodRecord], queues: Mapping[str, Queue]
    ) -> tuple[Running, ...]:
        """The same groups, those marked whose eviction would break a budget.

        Of several groups under one budget as many stay unmarked as it allows, in the order of eviction.
        """
        found = list(groups)
        left = dict(self._allowed)
        for at in sorted(range(len(found)), key=lambda at: (rank(found[at], queues), found[at].uid)):
            group = found[at]
            space, going = group.name.partition("/")[0], self.going(group, pods) if left else []
            needs = {key: count for key in left if key[0] == space and (count := self.loses(key, going))}
            if all(left[key] >= count for key, count in needs.items()):
                for key, count in needs.items():
                    left[key] -= count
            else:
                found[at] = structs.replace(group, guarded=True)
        return tuple(found)
