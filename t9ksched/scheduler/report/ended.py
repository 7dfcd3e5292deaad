"""What is reported of a job that has ended: the numbers of its members, and why it failed.

Pods of an ended job may be gone, deleted by its clean-up policy or by hand. Its own object still says how many members
it asked for, how they fared and how it ended, and says so after a restart as well.
"""

from collections.abc import Iterable
from typing import Any, Final

from t9ksched.model.errors import Invalid
from t9ksched.scheduler.state.job_record import Had
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.records import FINISHED, PodRecord
from t9ksched.workloads.read import read

_FIRST: Final = 3
"""Failed pods that are named."""


def had(job: JobObject, kind: str, api_version: str) -> Had | None:
    """What an ended job of a kind with pod templates had, by its object; None where that cannot be read."""
    meta = {"name": job.metadata.name, "namespace": job.metadata.namespace}
    try:
        workload = read({"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": job.spec})
    except Invalid:
        return None
    counts = _counts(job.status)
    return Had(
        minimum=sum(template.min_replicas for template in workload.templates),
        total=workload.replicas,
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        classes=workload.classes,
    )


def _counts(status: dict[str, Any]) -> dict[str, int]:
    """Members that succeeded and failed: `aggregate` of our kinds, the status itself of a batch Job."""
    source = status.get("aggregate") or status
    found = {name: source.get(name) for name in ("succeeded", "failed")}
    return {name: count if isinstance(count, int) else 0 for name, count in found.items()}


def failure(pods: Iterable[PodRecord]) -> str:
    """How the failed pods among these ended, the first few by name; empty if none failed."""
    failed = sorted((pod for pod in pods if pod.phase == FINISHED[1]), key=lambda pod: pod.name)
    told = [f"pod {pod.name} {pod.ending or 'failed'}" for pod in failed[:_FIRST]]
    if len(failed) > _FIRST:
        told.append(f"and {len(failed) - _FIRST} more failed")
    return "; ".join(told)
