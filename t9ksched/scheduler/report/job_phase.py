"""The phase of a job: as its controller reports it, if it does, else by its pods."""

from collections.abc import Sequence
from typing import Final

from t9ksched.model.job import TERMINATING
from t9ksched.model.names import AFTER_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.timelimit import written
from t9ksched.scheduler.report.observed_job import ObservedJob, ended_owner, groups_of, members_of
from t9ksched.scheduler.report.single_pod import to_start
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.workloads.registry import STOPS, kind_named

_BEFORE_IT_RUNS: Final = ("Pending", "Resuming")


def phase_now(state: ClusterState, uid: str) -> str | None:
    """The phase of the job of that UID; None when there is none."""
    if to_start(state, uid) is not None:  # as most of many that start are, which are asked several times
        return "Pending"
    record, gangs = state.jobs.get(uid), groups_of(state, uid)
    there = record is not None or bool(gangs) or ended_owner(state, uid) is not None
    return _phase(state, uid, record, gangs, members_of(gangs)) if there else None


def on_its_way(state: ClusterState, uid: str) -> bool:
    """Whether pods of the job of that UID are being bound."""
    return any(pod.assumed for gang in groups_of(state, uid) for pod in gang.members.values())


def phase(view: ObservedJob, state: ClusterState) -> str:
    """The job's own phase where its controller keeps one, else what its pods say."""
    return _phase(state, view.uid, view.record, view.gangs, view.pods)


def why_ended(state: ClusterState, uid: str) -> Reason | None:
    """Why a limit ended the job of that UID, while it has not been resumed."""
    clock = state.clocks.by_job.get(uid)
    if clock is None or not clock.run.ended_code:
        return None
    code = Code(clock.run.ended_code)
    helps = "the job is resumed"
    if code is Code.DEPENDENCY_NOT_MET:
        helps = f"its annotation {AFTER_ANNOTATION} is changed, and the job is resumed"
    if code is Code.TIME_LIMIT_EXCEEDED:
        helps = f"the job is resumed with a time limit other than {written(clock.run.ended_limit)}"
    return Reason(code, clock.run.message, unblocks=(helps,))


def _phase(
    state: ClusterState, uid: str, record: JobRecord | None, gangs: list[GangRecord], pods: list[PodRecord]
) -> str:
    if (record is None or record.phase not in FINISHED) and _terminates(state, uid, record, gangs, pods):
        return TERMINATING
    clock = state.clocks.by_job.get(uid)
    ended = clock.run.ended_code if clock is not None else ""
    if clock is not None and ended and any(pod.holds and pod.uid not in clock.evicted for pod in pods):
        ended = ""
    if ended == Code.DEPENDENCY_NOT_MET:
        return FINISHED[1]  # it never ran, and is not to: that its owner is only paused tells nobody
    if record is not None and record.phase:
        # One that is resumed as it was stays ended: nothing of it starts before it has another limit.
        kind = record.api_version.rpartition("/")[0], record.kind
        stays = ended == Code.TIME_LIMIT_EXCEEDED and kind in STOPS and record.phase in _BEFORE_IT_RUNS
        return "Paused" if stays else record.phase
    if ended:
        owner = next((gang.owner for gang in gangs if gang.owner is not None), None) or ended_owner(state, uid)
        group = owner.api_version.rpartition("/")[0] if owner is not None else ""
        return "Paused" if owner is not None and (group, owner.kind) in STOPS else "Failed"
    by_pods = _by_pods(gangs, pods)
    if record is None or by_pods not in FINISHED:
        return by_pods
    if record.wants_pods and (row := kind_named(record.kind)) is not None and row.steps:
        return "Pending"  # its next step may follow: only its own controller knows which is the last
    # The controller of a batch Job reports when it gives up; until then it replaces failed pods.
    return "Pending" if by_pods == "Failed" and record.wants_pods else by_pods


def lived_by_pods(gangs: Sequence[GangRecord]) -> str:
    """The phase of a job by its pods alone, also while it is being deleted."""
    return _by_pods(gangs, members_of(list(gangs)))


def _by_pods(gangs: Sequence[GangRecord], pods: list[PodRecord]) -> str:
    phases = {pod.phase for pod in pods}
    if "Running" in phases:
        return "Running" if any(map(_is_up, gangs)) else "Pending"
    if not phases or not phases.issubset(FINISHED):
        return "Pending"
    return "Failed" if "Failed" in phases else "Succeeded"


def _terminates(
    state: ClusterState, uid: str, record: JobRecord | None, gangs: list[GangRecord], pods: list[PodRecord]
) -> bool:
    """Whether its object is being deleted, or is gone while its last pods end. A scheduler that was started after the
    deletion judges by the pods: all of them are being deleted.
    """
    if uid in state.deleted:
        return not any(pod.orphaned for pod in pods)
    left = False
    for pod in pods:
        if pod.phase not in FINISHED:
            if not pod.deleting:
                return False
            left = True
    return left and record is None and not any(_has_object(state, gang) for gang in gangs)


def _has_object(state: ClusterState, gang: GangRecord) -> bool:
    """Whether the object of the group's job is there, or is of a kind that is not followed; a pod is its own."""
    if gang.owner is not None:
        return gang.owner.uid in state.owners or not state.owners.shows(gang.owner)
    return bool(gang.uid) and not gang.virtual


def _is_up(gang: GangRecord) -> bool:
    """Whether enough members run or succeeded; failed ones count as gone unless they were replaced."""
    running = succeeded = failed = 0
    for pod in gang.members.values():
        running += pod.phase == "Running"
        succeeded += pod.phase == "Succeeded"
        failed += pod.phase == "Failed"
    least = gang.minimum.members
    wanted = min(least, max(len(gang.members) - failed, least - failed))
    return running > 0 and running + succeeded >= wanted


def goes_on(view: ObservedJob, now: str) -> bool:
    """Whether a job without a controller, whose phase is `now`, runs as it is: its failed pods are not replaced, and
    none of its pods waits.
    """
    if now != "Running" or (view.record is not None and view.record.phase):
        return False
    return not any(pod.waiting for pod in view.pods)
