"""When a running group gives its room back at the latest, and how long a waiting one holds its room once it has it.

Only an end that is enforced counts: by the scheduler (time limits, `maxDuration` of a queue), by a job's own controller
or by the kubelet (`activeDeadlineSeconds`). Ten seconds are added, which enforcement may take, and the time that the
pods get to end.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from t9ksched.model.duration import FARTHEST, FORESEEN
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.limits import agreed_limit, own_limit
from t9ksched.scheduler.state.losses import Loss
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.clocks import Clock
    from t9ksched.scheduler.state.state import ClusterState

_SECOND: Final = 1_000_000_000
_CLOCK_FOLLOWS: Final = _SECOND
"""How much later than its minimum runs the clock of a job is set at most."""
LEFT_NS: Final = 60 * _SECOND
"""How long pods whose PodGroup is gone are expected to end with it."""
_SLACK: Final = 10 * _SECOND
"""How much later than its limit a job is ended at most."""


class _OwnLimit(Enum):
    """Which limit of a job counts."""

    OWN = "own"


OWN: Final = _OwnLimit.OWN
"""The limit that a job has now."""


def pod_deadline(pod: PodRecord, spec: QueueSpec) -> int | None:
    """When the pod reaches its queue's `maxDuration`, in nanoseconds since the epoch; None without one, or before its
    time counts. Pods of DaemonSets and of system priority are exempt.
    """
    length = spec.duration
    since = pod.created if spec.max_duration_from == "Creation" else pod.started
    if length is None or not since or _exempt(pod):
        return None
    return since + int(length.total_seconds() * _SECOND)


class EndRules:
    """The rules, on the records of a state. Times are nanoseconds since the epoch.

    Args:
        start_timeout: seconds within which a bound group must run; 0 for no such limit.
        most_grace: the longest time, in seconds, that a pod gets to end.
    """

    def __init__(self, state: "ClusterState", start_timeout: int, most_grace: int) -> None:
        self._state = state
        self._start_timeout = start_timeout * _SECOND
        self._most_grace = most_grace

    def holding(self, gang: GangRecord) -> list[PodRecord]:
        """The pods of the group that have room and are ended with it; what an earlier group of its name left is not."""
        charges = self._state.charges
        if self._state.gangs_by_uid.get(gang.uid) is not gang:
            return []
        return [pod for pod in gang.members.values() if charges.get(pod.uid) is not None and not gang.inherited(pod)]

    def end(
        self, gang: GangRecord, pods: Sequence[PodRecord], now: int, limit: int | Literal[_OwnLimit.OWN] | None = OWN
    ) -> int | None:
        """When all of these pods of a group are gone at the latest; None where nothing enforces it, or only in the next
        century. With a `limit` in seconds, None for none, as it would be if the group had this one.
        """
        state, late = self._state, self._start_timeout
        clock = state.clocks.of(gang)
        if limit is OWN:
            limit = own_limit(state, gang)
        run = clock.run if clock is not None else None
        started = [pod.started for pod in pods]
        bound = (run.bound_at if run is not None else 0) or gang.first_bound or (max(started) if all(started) else 0)
        begins = bound + late if bound and late else 0
        """When it runs at the latest."""
        ends: list[int] = []
        if clock is not None and _told_to_end(clock, pods):
            # Plans rely on the end that was expected before.
            ends.append(max(clock.due or clock.run.ended_at, clock.run.missed_at))
        ran = (run.ran_at if run is not None else 0) or (now + _CLOCK_FOLLOWS if gang.runs() else 0)
        if (until := state.advance.until(gang)) is not None:
            ends.append(until - _SLACK - self._grace(pods))
        elif limit is not None and (since := ran or begins):
            ends.append(since + limit * _SECOND)
        queue = state.queues.get(gang.queue)
        if queue is not None and (length := queue.spec.duration) is not None:
            lengths = [
                pod_deadline(pod, queue.spec) or (begins and begins + int(length.total_seconds() * _SECOND))
                for pod in pods
            ]
            if all(lengths) and not any(map(_exempt, pods)):
                ends.append(max(lengths))
        job = state.jobs.get(job_of(gang))
        if job is not None and job.deadline is not None and (since := job.started or begins):
            ends.append(since + job.deadline * _SECOND)
        deadlines = [
            (pod.started or begins) + pod.active_deadline * _SECOND
            for pod in pods
            if pod.active_deadline is not None and (pod.started or begins)
        ]
        if len(deadlines) == len(pods):
            ends.append(max(deadlines))
        if not ends or min(ends) > FARTHEST:
            return None
        return min(ends) + _SLACK + self._grace(pods)

    def kept(self, gang: GangRecord, losses: Sequence[Loss]) -> int | None:
        """When a group that has lost all its pods, and whose room is kept for others in their place, gives it back at
        the latest; None where nothing enforces it. Its clock goes on without them.
        """
        clock, limit = self._state.clocks.of(gang), own_limit(self._state, gang)
        job = self._state.jobs.get(job_of(gang))
        ends = [clock.run.ran_at + limit * _SECOND] if clock is not None and clock.run.ran_at and limit else []
        if job is not None and job.deadline is not None and job.started:
            ends.append(job.started + job.deadline * _SECOND)
        grace = min(max(one.grace for one in losses), self._most_grace) * _SECOND
        return min(ends) + _SLACK + grace if ends else None

    def left(self, gang: GangRecord, now: int) -> list[PodRecord]:
        """The pods that a PodGroup left behind which is gone. Who deletes a job by hand deletes them one by one: for a
        minute they are expected to end when they were to; after that nothing ends them.
        """
        if gang.uid or not gang.former[0]:
            return []
        gang.gone_since = gang.gone_since or now
        if now >= gang.gone_since + LEFT_NS:
            return []
        return [pod for pod in gang.members.values() if self._state.charges.get(pod.uid) is not None]

    def lasts(self, gang: GangRecord, limit: int | Literal[_OwnLimit.OWN] | None = OWN) -> int:
        """How long a group that waits holds its room at most once it has it, in nanoseconds; 0 for ever, or nearly.
        `limit` as in `end`.
        """
        found = self._lengths(gang, limit, self._start_timeout)
        pods = [pod for pod in gang.members.values() if not pod.finished]
        return min(found) + _SLACK + self._grace(pods) if found and min(found) <= FORESEEN else 0

    def shortest(self, gang: GangRecord) -> int:
        """The shortest of the limits that end a group, in nanoseconds; 0 where there is none. Other than in `lasts`,
        the group runs as soon as it has its room, and gives it back at once when it is ended.
        """
        found = self._lengths(gang, OWN, 0)
        return min(found) if found and min(found) <= FORESEEN else 0

    def _lengths(self, gang: GangRecord, limit: int | Literal[_OwnLimit.OWN] | None, late: int) -> list[int]:
        """The limits of a group that are enforced, in nanoseconds since it has its room, if it runs so much later."""
        state, starts = self._state, bool(self._start_timeout)
        pods = [pod for pod in gang.members.values() if not pod.finished]
        found: list[int] = []
        if limit is OWN:
            limit = agreed_limit(state, gang)
        if limit is not None and starts:
            found.append(late + limit * _SECOND)
        queue = state.queues.get(gang.queue)
        length = queue.spec.duration if queue is not None else None
        if queue is not None and length is not None and not any(map(_exempt, pods)):
            if queue.spec.max_duration_from == "Creation":
                found.append(int(length.total_seconds() * _SECOND))
            elif starts:
                found.append(late + int(length.total_seconds() * _SECOND))
        job = state.jobs.get(job_of(gang))
        if job is not None and job.deadline is not None and (starts or job.kind == "Job"):
            found.append((0 if job.kind == "Job" else late) + job.deadline * _SECOND)
        deadlines = [pod.active_deadline for pod in pods]
        if starts and deadlines and None not in deadlines:
            found.append(late + max(seconds for seconds in deadlines if seconds is not None) * _SECOND)
        return found

    def _grace(self, pods: Sequence[PodRecord]) -> int:
        """How long these pods may take to end, in nanoseconds."""
        return min(max((pod.grace for pod in pods), default=0), self._most_grace) * _SECOND


def _exempt(pod: PodRecord) -> bool:
    return pod.system or (pod.owner is not None and pod.owner.kind == "DaemonSet")


def _told_to_end(clock: "Clock", pods: Iterable[PodRecord]) -> bool:
    """Whether all these pods of a job were ended, by its limit or because it did not start in time, and leave. What was
    placed since is not: it has not been bound yet by its clock.
    """
    run = clock.run
    if run.ended_code == Code.TIME_LIMIT_EXCEEDED:
        return True  # it is placed again only with another limit, and then this is no longer on record
    over = bool(run.ended_at or run.missed_at) and not run.bound_at
    return over and all(pod.deleting or pod.uid in clock.evicted for pod in pods)
