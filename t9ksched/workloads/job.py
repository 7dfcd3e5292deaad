"""A job in the terms of its life cycle: what its kind decides, so that `lifecycle.py` needs no kinds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t9ksched.workloads.actions import Expansion
from t9ksched.workloads.jobspec import ReplicaType, RunPolicy

RESUMED = "Resumed"
"""Reason of the condition Paused (False) of a job that has been paused; its resume overrides then apply."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job, read and expanded.

    Attributes:
        types: its replica types; pods of type `t` stand in `expansion.pods` in order of types and indices.
        leader: name of the pod whose end is the job's end.
        min_member: pods that must run for the job to run.
        all_matter: a replica that may not be restarted fails the job, whichever it is; else only the leader does.
    """

    types: tuple[ReplicaType, ...]
    run_policy: RunPolicy
    paused: bool
    expansion: Expansion
    leader: str
    min_member: int
    all_matter: bool = False


def has_been_paused(obj: Mapping[str, Any]) -> bool:
    """Whether the job ran on after a pause, so that commands given for the resumption apply."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Paused" and each.get("reason") == RESUMED for each in conditions)
