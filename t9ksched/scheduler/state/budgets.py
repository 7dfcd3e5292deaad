"""PodDisruptionBudgets, and the groups whose eviction would violate one: other groups of the same queue priority are
evicted before them. A budget is preferred, not absolute: if no other victim makes room a guarded job is evicted too, as
with kube-scheduler.
"""

from collections import Counter, defaultdict
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


class Budgets:
    """All budgets, kept event by event."""

    def __init__(self) -> None:
        self._known: defaultdict[str, dict[str, tuple[LabelSelector, int]]] = defaultdict(dict)

    def upsert(self, item: DisruptionBudget) -> None:
        """A budget appeared or changed."""
        meta, raw = item.metadata, item.spec.selector
        self.remove(item)
        if raw is None:
            return
        try:
            selector = LabelSelector.parse(raw, "spec.selector")
        except Invalid as error:
            log.warning("this disruption budget is not heeded", budget=f"{meta.namespace}/{meta.name}", why=str(error))
            return
        self._known[meta.namespace][meta.name] = (selector, max(0, item.status.disruptions_allowed))

    def remove(self, item: DisruptionBudget) -> None:
        """A budget is gone."""
        meta = item.metadata
        mine = self._known[meta.namespace]
        mine.pop(meta.name, None)
        if not mine:
            del self._known[meta.namespace]

    def guard(
        self, groups: Iterable[Running], pods: Mapping[str, PodRecord], queues: Mapping[str, Queue]
    ) -> tuple[Running, ...]:
        """The same groups, those marked whose eviction would break a budget.

        Of several groups under one budget as many stay unmarked as it allows, in the order of eviction.
        """
        found = list(groups)
        if not self._known:
            return tuple(found)
        left = {
            (namespace, name): allowed for namespace, mine in self._known.items() for name, (_, allowed) in mine.items()
        }

        def order(at: int) -> tuple[int, int, int]:
            queue = queues.get(found[at].queue)
            return (queue.spec.priority if queue else 0, found[at].priority, -found[at].created)

        for at in sorted(range(len(found)), key=order):
            needs = self._breaks(found[at], pods)
            if all(left[key] >= count for key, count in needs.items()):
                for key, count in needs.items():
                    left[key] -= count
            else:
                found[at] = structs.replace(found[at], guarded=True)
        return tuple(found)

    def _breaks(self, group: Running, pods: Mapping[str, PodRecord]) -> Counter[tuple[str, str]]:
        """How many pods each budget would lose by the smallest eviction of the group: one surplus member, or the whole
        gang.
        """
        needs: Counter[tuple[str, str]] = Counter()
        mine = self._known.get(group.name.partition("/")[0])
        if not mine:
            return needs
        above = surplus(group)
        going: Iterable[RunningPod] = [group.pods[above[0]]] if above else group.pods
        for pod in going:
            record = pods.get(pod.uid)
            if record is None or pod.leaving:
                continue
            for name, (selector, _) in mine.items():
                if selector.matches(record.labels):
                    needs[record.namespace, name] += 1
        return needs
