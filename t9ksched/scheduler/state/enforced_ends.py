"""When running groups give their room back at the latest: what planned starts rely on.

Only an end that is enforced counts: by the scheduler (time limits, `maxDuration` of a queue), by a job's own controller
or by the kubelet (`activeDeadlineSeconds`). Ten seconds are added, which enforcement may take, and the time that the
pods get to end. Kept while starts are planned; a change of a group costs one calculation.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final

from t9ksched.model.gang import ExpectedEnd
from t9ksched.model.podclass import PodClass
from t9ksched.model.queue import DurationFrom, QueueSpec
from t9ksched.scheduler.state.limits import own_limit
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_SECOND: Final = 1_000_000_000
_SLACK: Final = 10 * _SECOND
"""How much later than its limit a job is ended at most."""
_A_STEP: Final = 200
"""Groups that are looked at in one step, about a millisecond."""


def pod_deadline(pod: PodRecord, spec: QueueSpec) -> int | None:
    """When the pod reaches its queue's `maxDuration`, in nanoseconds since the epoch; None without one, or before its
    time counts. Pods of DaemonSets and of system priority are exempt.
    """
    length = spec.duration
    since = pod.created if spec.max_duration_from == "Creation" else pod.started
    if length is None or not since or _exempt(pod):
        return None
    return since + int(length.total_seconds() * _SECOND)


class EnforcedEnds:
    """The expected ends of running groups, and how long waiting ones hold their room once they have it.

    Args:
        start_timeout: seconds within which a bound group must run; 0 for no such limit.
        most_grace: the longest time, in seconds, that a pod gets to end.
    """

    def __init__(self, state: "ClusterState", start_timeout: int, most_grace: int) -> None:
        self._state = state
        self.rules = (start_timeout, most_grace)
        self._start_timeout = start_timeout * _SECOND
        self._most_grace = most_grace
        self._gangs = state.feed.gangs.follow()
        self._clocks = state.feed.clocks.follow()
        self._ends: dict[GangRecord, ExpectedEnd] = {}
        self._lengths: dict[str, tuple[str, DurationFrom]] | None = None
        """`maxDuration` of each queue and from when it counts; None before the first look."""
        self._found: tuple[ExpectedEnd, ...] | None = None

    def close(self) -> None:
        """Follow the changes no longer."""
        self._gangs.close()
        self._clocks.close()

    def follow(self, now: int) -> Generator[None, None, tuple[ExpectedEnd, ...]]:
        """Take in what changed, in steps of about a millisecond; returns all expected ends."""
        state = self._state
        changed = dict.fromkeys(self._gangs.take())
        for uid in self._clocks.take():
            changed |= dict.fromkeys(state.groups_of(uid))
        lengths = {
            name: (queue.spec.max_duration, queue.spec.max_duration_from) for name, queue in state.queues.items()
        }
        if self._lengths is None:
            changed |= dict.fromkeys(state.gangs.values())
        elif lengths != self._lengths:
            other = {name for name in lengths | self._lengths if lengths.get(name) != self._lengths.get(name)}
            changed |= {gang: None for gang in state.gangs.values() if gang.queue in other}
        self._lengths = lengths
        for count, gang in enumerate(changed, start=1):
            self._look(gang, now)
            if count % _A_STEP == 0:
                yield
        if self._found is None:
            self._found = tuple(self._ends.values())
        return self._found

    def lasts(self, gang: GangRecord) -> int:
        """How long a group that waits holds its room at most once it has it, in nanoseconds; 0 for ever."""
        state, late = self._state, self._start_timeout
        pods = [pod for pod in gang.members.values() if not pod.finished]
        found: list[int] = []
        limit = own_limit(state, gang)
        if limit is not None and late:
            found.append(late + limit * _SECOND)
        queue = state.queues.get(gang.queue)
        length = queue.spec.duration if queue is not None else None
        if queue is not None and length is not None and not any(map(_exempt, pods)):
            if queue.spec.max_duration_from == "Creation":
                found.append(int(length.total_seconds() * _SECOND))
            elif late:
                found.append(late + int(length.total_seconds() * _SECOND))
        job = state.jobs.get(job_of(gang))
        if job is not None and job.deadline is not None and (late or job.kind == "Job"):
            found.append((0 if job.kind == "Job" else late) + job.deadline * _SECOND)
        deadlines = [pod.active_deadline for pod in pods]
        if late and deadlines and None not in deadlines:
            found.append(late + max(seconds for seconds in deadlines if seconds is not None) * _SECOND)
        return min(found) + _SLACK + self._grace(pods) if found else 0

    def _look(self, gang: GangRecord, now: int) -> None:
        """Find the end of a group anew."""
        rooms: dict[tuple[str, PodClass], int] = {}
        holding: list[PodRecord] = []
        if self._state.gangs_by_uid.get(gang.uid) is gang:
            for pod in gang.members.values():
                charge = self._state.charges.get(pod.uid)
                if charge is not None and not gang.inherited(pod):
                    holding.append(pod)
                    what = charge.node, charge.pod_class
                    rooms[what] = rooms.get(what, 0) + 1
        end = self._end(gang, holding, now) if holding else None
        before = self._ends.get(gang)
        if end is None:
            if before is not None:
                del self._ends[gang]
                self._found = None
            return
        found = ExpectedEnd(gang.uid, gang.queue, end, tuple((node, of, pods) for (node, of), pods in rooms.items()))
        if found != before:
            self._ends[gang] = found
            self._found = None

    def _end(self, gang: GangRecord, pods: Sequence[PodRecord], now: int) -> int | None:
        """When all of these pods of a group are gone at the latest; None where nothing enforces it."""
        state, late = self._state, self._start_timeout
        clock, limit = state.clocks.of(gang), own_limit(state, gang)
        run = clock.run if clock is not None else None
        started = [pod.started for pod in pods]
        bound = (run.bound_at if run is not None else 0) or gang.first_bound or (max(started) if all(started) else 0)
        begins = bound + late if bound and late else 0
        """When it runs at the latest."""
        ends: list[int] = []
        if run is not None and (run.ended_at or run.missed_at) and not run.bound_at:
            ends.append(max(run.ended_at, run.missed_at))  # its pods were told to end
        ran = (run.ran_at if run is not None else 0) or (now if gang.runs() else 0)  # the clock follows in a second
        if limit is not None and (since := ran or begins):
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
        return min(ends) + _SLACK + self._grace(pods) if ends else None

    def _grace(self, pods: Sequence[PodRecord]) -> int:
        """How long these pods may take to end, in nanoseconds."""
        return min(max((pod.grace for pod in pods), default=0), self._most_grace) * _SECOND


def _exempt(pod: PodRecord) -> bool:
    return pod.system or (pod.owner is not None and pod.owner.kind == "DaemonSet")
