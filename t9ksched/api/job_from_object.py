"""A job from its Kubernetes object: for the answer to a submission, and where the leader cannot be asked."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from t9ksched.api.http.responses import Json, at
from t9ksched.model.card_worth import asked
from t9ksched.model.job import FINISHED, TERMINATING, JobMembers, JobReason, JobView
from t9ksched.model.names import SCHEDULER_NAME, TIME_LIMIT_ANNOTATION
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.quantity import as_cards
from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import TimeLimit, limit_seconds, shortest, time_limit
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from t9ksched.workloads import taken
from t9ksched.workloads.foreignstatus import phase_of
from t9ksched.workloads.gangs import at as at_keys
from t9ksched.workloads.phase import ending
from t9ksched.workloads.registry import KINDS
from t9ksched.workloads.shape import Workload


def from_object(
    obj: Mapping[str, Any],
    workload: Workload,
    acceptance: Acceptance | None = None,
    members: Sequence[Workload] = (),
) -> Json:
    """The job of an object; `members` are the pods that were submitted with a PodGroup."""
    meta, status = obj["metadata"], obj.get("status") or {}
    parts = members or (workload,)
    total = sum(part.replicas for part in parts)
    minimum = sum(template.min_replicas for part in parts for template in part.templates)
    if workload.kind == "PodGroup" and workload.scheduler:
        minimum = PodGroupSpec.parse(obj.get("spec")).min_member
    phase = _phase(workload.kind, obj.get("spec") or {}, status)
    if meta.get("deletionTimestamp") and phase not in FINISHED:
        phase = TERMINATING
    return JobView(
        api_version=workload.api_version,
        namespace=meta.get("namespace"),
        kind=workload.kind,
        name=meta["name"],
        uid=meta.get("uid", ""),
        group=workload.group or (meta["name"] if workload.kind == "PodGroup" else None),
        queue=(acceptance.queue if acceptance else None) or workload.queue or None,
        priority=acceptance.priority if acceptance else workload.priority,
        submitter=acceptance.submitter if acceptance else None,
        phase=phase,
        members=_members(obj, workload, phase, minimum, total),
        gpus=sum(count * sum(of.card_counts.values()) for part in parts for of, count in part.classes),
        cards=as_cards(sum(count * asked(of) for part in parts for of, count in part.classes)),
        submitted_at=meta.get("creationTimestamp"),
        started_at=status.get("startTime"),
        finished_at=status.get("completionTime"),
        position=None,
        reason=_why_failed(workload.kind, status) if phase == "Failed" else _why_waiting(status, phase),
        planned_start=None,
        expected_start=None,
        time_limit=_time_limit(obj, workload, acceptance),
        labels=meta.get("labels") or {},
    ).to_json()


def _members(obj: Mapping[str, Any], workload: Workload, phase: str, minimum: int, total: int) -> JobMembers:
    """How many members there are and where, as far as the object says."""
    if workload.kind == "Pod":
        bound = bool((obj.get("spec") or {}).get("nodeName")) and phase not in FINISHED
        return JobMembers(minimum, total, int(bound), *(int(phase == one) for one in ("Running", *FINISHED)))
    status = obj.get("status") or {}
    told = status.get("aggregate") or {}
    running, succeeded, failed = (
        int(told.get(mine) or status.get(theirs) or 0)
        for mine, theirs in (("running", "ready"), ("succeeded", "succeeded"), ("failed", "failed"))
    )
    return JobMembers(minimum, total, 0, running, succeeded, failed)


def _time_limit(obj: Mapping[str, Any], workload: Workload, acceptance: Acceptance | None) -> TimeLimit:
    """The job's own limit as far as the object and its acceptance say; its queue's is the leader's to tell."""
    spec, annotations = obj.get("spec") or {}, obj["metadata"].get("annotations") or {}
    row = KINDS[workload.kind]
    if row.foreign is not None:
        deadline = at_keys(obj, row.foreign.deadline) if row.foreign.deadline else None
    else:
        policy = spec if row.pod is not None else spec.get("runPolicy") or {}
        deadline = policy.get("activeDeadlineSeconds") if isinstance(policy, Mapping) else None
    own = acceptance.time_limit_seconds if acceptance is not None else None
    if acceptance is None and workload.scheduler == SCHEDULER_NAME:
        with suppress(ValueError):
            own = limit_seconds(str(annotations.get(TIME_LIMIT_ANNOTATION) or ""))
    return time_limit(shortest((own, deadline if isinstance(deadline, int) else None)), None)


def from_event(event: Event) -> Json:
    """An event of history."""
    return {name: getattr(event, name) for name in Event.__struct_fields__} | {"at": at(event.at)}


def _why_failed(kind: str, status: Mapping[str, Any]) -> JobReason | None:
    """Why a failed job failed, as far as its own object says."""
    if kind == "Pod":
        ended = ending({"status": status})
        return JobReason("PodFailed", ended.how + ended.last_words)
    conditions = [each for each in status.get("conditions") or () if each.get("type") == "Failed"]
    said = next((each for each in conditions if each.get("status") == "True"), None)
    return JobReason(said.get("reason") or "PodFailed", said.get("message") or "") if said else None


def _why_waiting(status: Mapping[str, Any], phase: str) -> JobReason | None:
    """Why a job waits, as far as its own object says: a name that it needs is taken."""
    message = taken.message_of(status, taken.NAME_TAKEN) if phase == "Pending" else ""
    return JobReason(str(Code.NAME_TAKEN), message) if message else None


def _phase(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    foreign = KINDS[kind].foreign
    if foreign is not None:
        return phase_of(foreign, spec, status) or "Pending"
    if kind != "Job":
        return KINDS[kind].phase(status) or "Pending"
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return "Succeeded" if condition["type"] == "Complete" else "Failed"
    # Its `active` pods may wait; the `ready` ones run.
    return "Running" if status.get("ready") else "Pending"
