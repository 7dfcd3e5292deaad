"""A job in the terms of its life cycle: what its kind decides, so that `lifecycle.py` needs no kinds."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from t9ksched.model.names import BATCH_GROUP
from t9ksched.workloads.actions import Expansion, Object
from t9ksched.workloads.ending import Ending
from t9ksched.workloads.jobspec import ReplicaType, RunPolicy
from t9ksched.workloads.parts import Owner, pod_name

RESUMED = "Resumed"
"""Reason of the condition Paused (False) of a job that has been paused; its resume overrides then apply."""

REVISION_ANNOTATION: Final = f"{BATCH_GROUP}/template-hash"
"""On a pod: the `revision` of the spec that it was made from."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job, read. Pods are built one by one, since most reconciliations of a job build none.

    Attributes:
        types: its replica types, in the order of their ranks.
        around: everything the job consists of except its pods.
        build: makes the pod of a replica type and an index.
        ending: what ends the job.
        min_member: pods that must run for the job to run.
        revision: changes with what the pods are made from (see `revision`).
        revisions: that of single pods, by name, which are made from more than the others.
        anew: companions that are there, and are deleted and made anew before any pod.
    """

    owner: Owner
    types: tuple[ReplicaType, ...]
    run_policy: RunPolicy
    paused: bool
    around: Expansion
    build: Callable[[ReplicaType, int], Object]
    ending: Ending
    min_member: int
    revision: str = ""
    revisions: Mapping[str, str] = field(default_factory=dict)
    anew: tuple[Object, ...] = ()

    def replicas(self) -> Iterator[tuple[ReplicaType, int, str]]:
        """Every replica: its type, its index in the type, its pod's name."""
        for kind in self.types:
            for index in range(kind.replicas):
                yield kind, index, pod_name(self.owner, kind, index)

    def revision_of(self, pod: str) -> str:
        """What the pod of that name is to be made from."""
        return self.revisions.get(pod, self.revision)

    @property
    def expansion(self) -> Expansion:
        """Everything the job consists of."""
        return replace(self.around, pods=tuple(self.build(kind, index) for kind, index, _ in self.replicas()))


def has_been_paused(obj: Mapping[str, Any]) -> bool:
    """Whether the job ran on after a pause, so that commands given for the resumption apply."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Paused" and each.get("reason") == RESUMED for each in conditions)


def revision(obj: Mapping[str, Any], fixed: Iterable[str]) -> str:
    """A hash of the fields of the spec that may change only while the job is paused, as the user wrote them: `fixed`
    and `runMode.debug`.

    Where an edit was not refused (older definitions, or a pause that ended before the controller saw it), it shows that
    the existing pods were made from another job size or template.
    """
    spec = obj["spec"]
    parts = [spec.get(name) for name in fixed]
    mode = spec.get("runMode")
    parts.append(mode.get("debug") if isinstance(mode, Mapping) else None)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
