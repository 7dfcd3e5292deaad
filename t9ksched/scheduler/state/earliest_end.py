"""When a job that runs is ended at the earliest, of all limits that end it: its own, its queue's, its controller's.

A job that asks to be told before its end is told so long before this. The keeper of each limit enforces it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import written
from t9ksched.scheduler.state.end_rules import pod_deadline
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_SECOND: Final = 1_000_000_000


class End(NamedTuple):
    """An end that is enforced.

    Attributes:
        at: when, in nanoseconds since the epoch; `seconds` is the length of the limit that sets it.
        limit: the limit with its length, for sentences.
        code: as what the job is ended.
    """

    at: int
    seconds: int
    limit: str
    code: Code = Code.TIME_LIMIT_EXCEEDED


def own_end(since: int, seconds: int) -> End:
    """The end by the job's own limit, counted from that moment."""
    return End(since + seconds * _SECOND, seconds, f"time limit of {written(seconds)}")


def ended_elsewhere(state: "ClusterState", gangs: Sequence[GangRecord]) -> bool:
    """Whether something other than its own limit ends a job that can be told to stop: a single pod cannot."""
    if not gangs or all(pod.owner is None for gang in gangs for pod in gang.members.values()):
        return False
    queue, job = state.queues.get(gangs[0].queue), state.jobs.get(job_of(gangs[0]))
    if (queue is not None and queue.spec.duration is not None) or (job is not None and job.deadline is not None):
        return True
    return any(pod.active_deadline is not None for gang in gangs for pod in gang.members.values())


def earliest_end(state: "ClusterState", gang: GangRecord, pods: Iterable[PodRecord], own: End | None) -> End | None:
    """The first of the ends of a job with these pods; None where nothing ends it."""
    ends = [own] if own is not None else []
    queue, job = state.queues.get(gang.queue), state.jobs.get(job_of(gang))
    if job is not None and job.deadline is not None and job.started:
        ends.append(_deadline(job.started, job.deadline))
    length = queue.spec.duration if queue is not None else None
    for pod in pods:
        if pod.active_deadline is not None and pod.started:
            ends.append(_deadline(pod.started, pod.active_deadline))
        if queue is not None and length is not None and (at := pod_deadline(pod, queue.spec)) is not None:
            limit = f"maxDuration of {queue.spec.max_duration} of the queue {queue.name!r}"
            ends.append(End(at, int(length.total_seconds()), limit, Code.MAX_DURATION_EXCEEDED))
    return min(ends, key=lambda end: end.at, default=None)


def _deadline(since: int, seconds: int) -> End:
    return End(since + seconds * _SECOND, seconds, f"activeDeadlineSeconds of {seconds}")
