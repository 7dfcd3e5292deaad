"""A job in the terms of its life cycle: what its kind decides, so that `lifecycle.py` needs no kinds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from t9ksched.workloads.actions import Expansion, Object
from t9ksched.workloads.jobspec import ReplicaType, RunPolicy
from t9ksched.workloads.parts import Owner, pod_name

RESUMED = "Resumed"
"""Reason of the condition Paused (False) of a job that has been paused; its resume overrides then apply."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job, read. Pods are built one by one, since most looks at a job build none.

    Attributes:
        types: its replica types, in the order of their ranks.
        around: everything the job consists of but its pods.
        build: makes the pod of a replica type and an index.
        leader: name of the pod whose end is the job's end.
        min_member: pods that must run for the job to run.
        all_matter: a replica that may not be restarted fails the job, whichever it is; else only the leader does.
    """

    owner: Owner
    types: tuple[ReplicaType, ...]
    run_policy: RunPolicy
    paused: bool
    around: Expansion
    build: Callable[[ReplicaType, int], Object]
    leader: str
    min_member: int
    all_matter: bool = False

    def replicas(self) -> Iterator[tuple[ReplicaType, int, str]]:
        """Every replica: its type, its index in the type, its pod's name."""
        for kind in self.types:
            for index in range(kind.replicas):
                yield kind, index, pod_name(self.owner, kind, index)

    @property
    def expansion(self) -> Expansion:
        """Everything the job consists of."""
        return replace(self.around, pods=tuple(self.build(kind, index) for kind, index, _ in self.replicas()))


def has_been_paused(obj: Mapping[str, Any]) -> bool:
    """Whether the job ran on after a pause, so that commands given for the resumption apply."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Paused" and each.get("reason") == RESUMED for each in conditions)
