"""What is kept of a job's object, of whatever kind: the job as lists show it."""

from typing import Any, Final

from t9ksched.model import names, wall_clock
from t9ksched.model.api_resource import Resource
from t9ksched.model.duration import LONGEST_SECONDS
from t9ksched.scheduler.report.ended import had
from t9ksched.scheduler.report.restarts import restarts_of
from t9ksched.scheduler.state.asks import asks_of
from t9ksched.scheduler.state.job_record import IdleSince, JobRecord
from t9ksched.scheduler.state.objects import JobObject, nanoseconds
from t9ksched.scheduler.state.records import FINISHED
from t9ksched.workloads.activity import STATUS_FIELD, idle_times
from t9ksched.workloads.addons import MISSING
from t9ksched.workloads.conditions import INITIALIZED
from t9ksched.workloads.faulty import INVALID
from t9ksched.workloads.foreignstatus import is_suspended, phase_of
from t9ksched.workloads.gangform import Foreign
from t9ksched.workloads.gangs import at, is_ours, queue_asked
from t9ksched.workloads.registry import row_of
from t9ksched.workloads.serving import UNREADY
from t9ksched.workloads.taken import NAME_TAKEN, message_of, refusal_of

_DONE: Final = ("Completed", "Complete", "Succeeded", "Failed")
"""Conditions that say that a job is over."""


def job_record(job: JobObject, kind: Resource) -> JobRecord:
    """A job as lists show it; its queue is None when it does not use this scheduler."""
    meta = job.metadata
    row = row_of(kind)
    native, foreign = row.pod is not None, row.foreign
    if foreign is not None:
        labelled = meta.labels, meta.annotations
        ours = is_ours(row, labelled, job.spec)
        queue, priority = queue_asked(row, labelled, job.spec), 0
    elif row.pod is not None:
        template = _at(job.spec, row.pod[1:])
        ours = (template.get("spec") or {}).get("schedulerName") == names.SCHEDULER_NAME
        labels = (template.get("metadata") or {}).get("labels") or {}
        queue, priority = labels.get(names.QUEUE_LABEL) or names.DEFAULT_QUEUE, 0
    else:
        block = _at(job.spec, row.block[1:]).get("t9kScheduler")
        ours = isinstance(block, dict)
        block = block if isinstance(block, dict) else {}
        queue, priority = block.get("queue") or names.DEFAULT_QUEUE, int(block.get("priority") or 0)
    conditions = {c.get("type"): c for c in job.status.get("conditions") or [] if c.get("status") == "True"}
    done: dict[str, Any] = next((found for each in _DONE if (found := conditions.get(each))), {})
    if foreign is not None:
        phase = phase_of(foreign, job.spec, job.status)
    else:
        phase = row.phase(job.status) or _batch_phase(conditions, job.status)
    return JobRecord(
        uid=meta.uid,
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=meta.namespace,
        name=meta.name,
        created=nanoseconds(meta.creation_timestamp),
        queue=queue if ours else None,
        priority=priority,
        phase=phase,
        message=str(done.get("message") or ""),
        finished=nanoseconds(str(done.get("lastTransitionTime") or job.status.get("endTime") or "")),
        labels=meta.labels or {},
        asks=asks_of(meta.annotations),
        deadline=_deadline(job.spec, foreign, native=native),
        wants_pods=not (done or phase in FINISHED or meta.deletion_timestamp or _paused(job.spec)),
        started=nanoseconds(str(job.status.get("startTime") or "")),
        code=str((conditions.get("Failed") or {}).get("reason") or ""),
        had=had(job, kind.kind, kind.api_version) if phase in FINISHED else None,
        fault=_fault(job.status) if phase not in FINISHED else "",
        taken=message_of(job.status, NAME_TAKEN) if phase not in FINISHED else "",
        refused=refusal_of(job.status) if phase not in FINISHED else "",
        lacking=message_of(job.status, MISSING, *UNREADY) if phase not in FINISHED else "",
        idle=_idle(job),
        restarts=restarts_of(job.spec, job.status, batch=native) if phase not in FINISHED else None,
    )


def _at(spec: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The value below the spec at these keys; empty if a key is missing."""
    for key in keys:
        spec = spec.get(key) or {}
    return spec


def _idle(job: JobObject) -> IdleSince | None:
    """Since when nobody uses it."""
    times = idle_times(job.status) if STATUS_FIELD in job.status and not _paused(job.spec) else None
    if times is None:
        return None
    keep = str((job.metadata.annotations or {}).get(names.KEEP_UNTIL_ANNOTATION) or "")
    return IdleSince(wall_clock.nanoseconds(times[0]), wall_clock.nanoseconds(times[1]), keep)


def _fault(status: dict[str, Any]) -> str:
    """What our controllers find wrong with the job's spec."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("reason")) == (INITIALIZED, INVALID):
            return str(condition.get("message") or "")
    return ""


def _deadline(spec: dict[str, Any], foreign: Foreign | None, *, native: bool) -> int | None:
    """The seconds after which its own controller ends it."""
    if foreign is not None:
        seconds = at({"spec": spec}, foreign.deadline) if foreign.deadline else None
    else:
        seconds = (spec if native else spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
    return min(seconds, LONGEST_SECONDS) if isinstance(seconds, int) and seconds > 0 else None


def _paused(spec: dict[str, Any]) -> bool:
    """Whether the job's own spec stops it, in any of the ways in which its kind is stopped."""
    mode = spec.get("runMode")
    pause = mode.get("pause") if isinstance(mode, dict) else None
    enabled = pause.get("enabled") if isinstance(pause, dict) else str(mode or "").lower() == "paused"
    return bool(is_suspended(spec) or enabled)


def _batch_phase(conditions: dict[Any, Any], status: dict[str, Any]) -> str:
    """The phase of an object whose status has none: a batch Job's conditions, else what its pods say."""
    if "Complete" in conditions:
        return "Succeeded"
    if "Failed" in conditions:
        return "Failed"
    if "Suspended" in conditions:
        return "Paused"
    return "Running" if status.get("ready") else ""
