"""The reason that a job shows: why it waits, why a limit ended it, or why it failed."""

from collections.abc import Iterable
from typing import Final

from t9ksched.model.job import JobReason
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.ended import failure
from t9ksched.scheduler.report.observed_job import ObservedJob
from t9ksched.scheduler.report.restarts import restarting
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState

POD_FAILED: Final = "PodFailed"
"""The code of a failed job when only its pods show why."""


def taken(view: ObservedJob) -> Reason | None:
    """That a name the job needs is taken, that the API server refuses what it needs, that the cluster lacks a
    project that it needs, or why a service has no pods; None where its controller says nothing of that.
    """
    if view.record is not None and view.record.taken:
        return Reason(Code.NAME_TAKEN, view.record.taken, unblocks=("the object of that name is deleted",))
    if view.record is not None and (message := refused(view)):
        return Reason(Code.INVALID_POD, message, unblocks=("its spec is corrected",))
    if view.record is not None and view.record.lacking:
        return Reason(Code.INVALID_POD, view.record.lacking)
    return None


def refused(view: ObservedJob) -> str:
    """What the API server says of what the job needs, as a sentence; empty where it refuses nothing."""
    words = view.record.refused if view.record is not None else ""
    return f"the API server refuses what it needs: {words}" if words else ""


def shown_reason(
    view: ObservedJob, now: str, waiting: GangRecord | None, limited: Reason | None, state: ClusterState
) -> JobReason | None:
    """Why it waits, why a limit ended it, or why it failed."""
    if now == "Failed" and limited is None:
        return why_failed(view)
    if now == "Pending" and (name_taken := taken(view)) is not None:
        return JobReason(str(name_taken.code), name_taken.message)
    reason = waiting.reasons[0] if waiting is not None and now not in FINISHED else limited
    if now == "Pending" and (reason is None or reason.code == Code.GANG_INCOMPLETE):
        reason = restarting(view.record, view.gangs, state) or reason
    if now == "Pending" and reason is None and view.gangs:
        reason = unjudged(view.gangs)
    if now in ("Pending", "Starting") and reason is None and (why := hindered(view.pods)) is not None:
        return why
    if reason is None and now not in FINISHED and (message := refused(view)):
        return JobReason(str(Code.INVALID_POD), message)  # of an edit: what runs goes on as it was
    return JobReason(str(reason.code), reason.message) if reason is not None else None


def hindered(pods: Iterable[PodRecord]) -> JobReason | None:
    """What keeps a pod that has a node from running, such as an image that cannot be pulled; None where nothing is."""
    for pod in pods:
        if pod.hindrance is not None:
            code, message = pod.hindrance
            return JobReason(code, f"pod {pod.name}: {message}")
    return None


def unjudged(gangs: Iterable[GangRecord]) -> Reason | None:
    """Why a job waits that no cycle judges, because no pod of it exists or waits; None where a cycle will judge it."""
    short, members = None, False
    for gang in gangs:
        members = members or bool(gang.members)
        if short is None and gang.ran and not any(pod.waiting for pod in gang.members.values()):
            short = gang
    if not members:
        message = "no pod of it exists: none was made yet, or all are gone"
        return Reason(Code.GANG_INCOMPLETE, message, unblocks=("its controller makes its pods",))
    if short is None or short.complete():
        return None
    placed, least = short.placed_count(), short.minimum.members
    message = f"{placed} of {least} members have a place, and no pod of it waits for one: what runs goes on"
    return Reason(Code.GANG_INCOMPLETE, message, unblocks=("its other pods are created again",))


def why_failed(view: ObservedJob) -> JobReason:
    """Why a failed job failed: as its controller reports it, else how its pods ended."""
    record, told = view.record, failure(view.pods)
    if record is not None and record.message:
        # Other controllers report only that a job failed; the controllers of t9ksched report how.
        message = f"{record.message}: {told}" if told and record.kind == "Job" else record.message
        return JobReason(record.code or POD_FAILED, message)
    return JobReason(POD_FAILED, told or "a pod of it failed and is gone")
