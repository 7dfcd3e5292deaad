"""What a workload is, whatever its kind: its scheduler, its queue, and the pods that it will have.

A `Workload` is what admission judges and what lists show. Totals are effective requests over all replicas, in units
(millicores, bytes, counts): `totals` of everything the object asks for now (elastic: expectedReplicas), `min_totals`
of what it needs at least (elastic and autoscaled: minReplicas), which is what a quota is compared with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from t9ksched.model.errors import Invalid
from t9ksched.model.pod import decode_pod_spec, pod_class
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import QuantityError


@dataclass(frozen=True, slots=True)
class Template:
    """Pods that are alike: one replica type of a job.

    Attributes:
        role: the replica type as the user wrote it, `""` where the kind has but one.
        replicas: how many the object asks for now.
        min_replicas: how many it needs at least.
        metadata, spec: the pod template, as written; spec is a PodSpec.
        path: the path of the spec in the object, such as `spec.replicaSpecs[0].template.spec`.
        requests: effective requests of one replica, in units.
    """

    role: str
    replicas: int
    min_replicas: int
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    path: str
    requests: Mapping[str, int] = field(default_factory=dict)

    @property
    def annotations(self) -> dict[str, str]:
        """The template's own annotations; none where they are no mapping."""
        found = self.metadata.get("annotations")
        return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}

    @property
    def pod_class(self) -> PodClass | None:
        """What one replica asks for of nodes; None where that cannot be read."""
        try:
            return pod_class(decode_pod_spec(self.spec), annotations=self.annotations)
        except (Invalid, QuantityError, msgspec.ValidationError):
            return None

    @property
    def node_selector(self) -> dict[str, str]:
        """The template's own nodeSelector."""
        return dict(self.spec.get("nodeSelector") or {})


@dataclass(frozen=True)
class Workload:
    """A workload as admission and lists see it.

    Attributes:
        scheduler: `t9k-scheduler`, or the name of the scheduler that places the pods instead of us.
        queue: the queue asked for (`default` if none is named), `""` if another scheduler places the pods.
        group: the PodGroup a plain Pod joins by label; its queue then pays.
        node_selectors: path and nodeSelector of every template that has one.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    scheduler: str
    queue: str
    priority: int
    templates: tuple[Template, ...]
    group: str | None = None

    @property
    def node_selectors(self) -> tuple[tuple[str, dict[str, str]], ...]:
        """Every nodeSelector with its path."""
        return tuple((f"{t.path}.nodeSelector", t.node_selector) for t in self.templates if t.node_selector)

    @property
    def totals(self) -> dict[str, int]:
        """Requests of all replicas asked for now."""
        return _total((template.replicas, template.requests) for template in self.templates)

    @property
    def min_totals(self) -> dict[str, int]:
        """Requests of the replicas that it needs at least."""
        return _total((template.min_replicas, template.requests) for template in self.templates)

    @cached_property
    def classes(self) -> tuple[tuple[PodClass, int], ...]:
        """What its pods ask for of nodes, with their numbers, as far as that can be read."""
        return tuple((of, template.replicas) for template in self.templates if (of := template.pod_class) is not None)

    @property
    def replicas(self) -> int:
        """Pods asked for now."""
        return sum(template.replicas for template in self.templates)


def _total(parts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for count, requests in parts:
        for name, amount in requests.items():
            total[name] = total.get(name, 0) + count * amount
    return {name: amount for name, amount in sorted(total.items()) if amount}
