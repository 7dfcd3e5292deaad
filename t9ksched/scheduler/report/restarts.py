"""What is reported of a job whose members ended and are replaced: how they ended, when replacements come, and where
they will run. Controllers replace a failed pod after a pause that doubles with each failure. As long as no pod waits
for a place, no cycle judges the job, so the engine gives no reason.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.ended import failure
from t9ksched.scheduler.state.job_record import JobRecord, Restarts
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import FINISHED, GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.workloads.jobspec import DEFAULT_BACKOFF_LIMIT
from t9ksched.workloads.replica import pause

_BATCH_LIMIT: Final = 6
"""`backoffLimit` of a batch Job that names none."""
_SECOND: Final = 1_000_000_000


def restarts_of(spec: Mapping[str, Any], status: Mapping[str, Any], *, batch: bool) -> Restarts | None:
    """How many times members of a job were replaced, as its controller counts; None if none was."""
    if batch:
        failed, limit = _count(status.get("failed")), spec.get("backoffLimit")
        return Restarts(failed, _BATCH_LIMIT if limit is None else _count(limit)) if failed else None
    times: dict[str, int] = {}
    for task in status.get("tasks") or ():
        for replica in task.get("replicas") or ():
            if count := max(_count(replica.get("restartCount")), _count(replica.get("disruptionCount"))):
                times[str(replica.get("name"))] = count
    if not times:
        return None
    limit = (spec.get("runPolicy") or {}).get("backoffLimit")
    most = None if "backoffCount" not in status else DEFAULT_BACKOFF_LIMIT if limit is None else _count(limit)
    return Restarts(_count(status.get("backoffCount")), most, times)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def restarting(record: JobRecord | None, gangs: list[GangRecord], state: ClusterState) -> Reason | None:
    """The reason that members of the job's gangs ended and are being replaced; None if that is not so or not known. It
    says how the remaining ended pods ended, how many restarts are used, when the next pod is created, and whether room
    is reserved for it.
    """
    if record is None or not record.wants_pods or record.phase in FINISHED or record.restarts is None:
        return None
    pods = [pod for gang in gangs for pod in gang.members.values()]
    failed = [pod for pod in pods if pod.phase == FINISHED[1]]
    if not failed and all(pod.placed for pod in pods) and pods:
        return None
    known = record.restarts
    what = failure(failed) or "members of it ended, and are made anew"
    if known.used:
        what += f" ({known.used} restart{'s' * (known.used > 1)} used" + (f" of {known.most})" if known.most else ")")
    if any(not pod.finished and not pod.placed for pod in pods):
        when = "what takes their place is there and waits"
    else:
        when = f"its controller makes {'others' if len(failed) > 1 else 'another'} {_when(record, failed)}"
    return Reason(
        Code.GANG_INCOMPLETE,
        f"{what}; {when}; {_kept(gangs, state)}",
        unblocks=("its controller makes its pods again",),
    )


def _when(record: JobRecord, failed: list[PodRecord]) -> str:
    assert record.restarts is not None
    times = record.restarts.times
    if record.kind == "Job":
        last = timestamp(max((pod.ended for pod in failed), default=0))
        return f"a while after {last or 'that'}: the pause of a batch Job doubles with each failure"
    ends = [pod.ended + int(pause(times.get(pod.name, 1)) * _SECOND) for pod in failed if pod.ended]
    if not ends or all(times.get(pod.name, 1) <= 1 for pod in failed):
        return "at once"
    return f"at {timestamp(min(ends))}, after a pause that doubles with each failure"


def _kept(gangs: Iterable[GangRecord], state: ClusterState) -> str:
    """Where the replacements will run, by the gangs: during a restart there may be no pod."""
    found = [state.refills.kept_for(gang) for gang in gangs if not gang.virtual]
    kept = [loss for losses, _ in found for loss in losses]
    if not kept:
        return "no room is kept: it waits for a place in its queue, with the age that the job has"
    until = min((end for losses, end in found if losses and end), default=0)
    nodes = ", ".join(sorted({loss.place for loss in kept if loss.place})[:3])
    where = f"room is kept for it on {nodes}" if nodes else "the first room that fits is kept for it"
    return where + (f" until {timestamp(until)}" if until else "")
