"""Plays the jobs of a trace through the planner of the live service, on virtual time.

Time moves from one event to the next: jobs come, jobs end. All events of one moment happen before the planner is asked
what starts now; a start takes no time. A job is a gang that needs all its pods at once.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from t9ksched.engine.memory import Memory
from t9ksched.engine.plan import Assignment
from t9ksched.engine.planner import plan
from t9ksched.engine.usual_pods import UsualPods
from t9ksched.engine.view import QueueState, View
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import Reservation
from t9ksched.simulation.cluster import QUEUE, Cluster, Gangs
from t9ksched.simulation.job import Job, Replay, Run, nanoseconds, seconds
from t9ksched.simulation.lines import Lines
from t9ksched.simulation.policies import Contender
from t9ksched.simulation.preempting import Preempting


def replay(
    jobs: Sequence[Job], cluster: Cluster, contender: Contender, progress: Callable[[int], None] = lambda ended: None
) -> Replay:
    """Play the jobs, which are in the order of their submission; `progress` hears how many have ended so far."""
    fitting = [job for job in jobs if job.cards <= cluster.capacity]
    if contender.remaining is not None:
        runs, plans = Preempting(fitting, cluster, contender, contender.remaining).run(progress)
        return Replay(runs, len(jobs) - len(fitting), plans)
    return _Replaying(fitting, cluster, contender).run(progress, len(jobs) - len(fitting))


@dataclass(slots=True)
class _Place:
    """What a running job holds: its pods' nodes, with their cards."""

    gang: Gang
    pods: list[Assignment]


class _Replaying:
    """The state of a replay. Times are nanoseconds since the trace began; jobs are known by their positions."""

    def __init__(self, jobs: Sequence[Job], cluster: Cluster, contender: Contender) -> None:
        self._jobs = jobs
        self._cluster = cluster
        self._contender = contender
        self._free = cluster.capacity
        self._nodes = cluster.table()
        self._memory = Memory()
        self._usual = UsualPods()
        self._policy = contender.policy_for({str(at): job for at, job in enumerate(jobs)})
        self._queues = {QUEUE: QueueState(QueueSpec(ordering=contender.ordering))}
        self._waiting = Lines(contender.shown)
        self._plans_starts = contender.policy.planning is not None
        self._gangs = Gangs(cluster, contender.by_priority, last=self._plans_starts)
        self._expected: dict[str, ExpectedEnd] = {}
        self._planned: tuple[Reservation, ...] = ()
        self._first_plans: dict[str, int] = {}
        self._running: dict[str, _Place] = {}
        self._ends: list[tuple[int, int]] = []
        self._started: dict[int, int] = {}
        self._plans = 0

    def run(self, progress: Callable[[int], None], too_large: int) -> Replay:
        """Go from event to event until every job has ended."""
        comes = [(nanoseconds(job.submitted), at) for at, job in enumerate(self._jobs)]
        comes.reverse()
        ended = 0
        while comes or self._ends:
            now = min(events[at][0] for events, at in ((comes, -1), (self._ends, 0)) if events)
            while self._ends and self._ends[0][0] <= now:
                self._end(heapq.heappop(self._ends)[1])
                ended += 1
            while comes and comes[-1][0] <= now:
                self._come(comes.pop()[1])
            if gangs := self._waiting.candidates(self._free):
                self._plan(gangs, now)
            progress(ended)
        return Replay(tuple(self._run(at) for at in range(len(self._jobs))), too_large, self._plans)

    def _run(self, at: int) -> Run:
        """What became of the job; one that started at once waited for no time at all, however its time is rounded."""
        job = self._jobs[at]
        planned = self._first_plans.get(str(at))
        started = max(job.submitted, seconds(self._started[at]))
        return Run(job, started, planned=None if planned is None else seconds(planned))

    def _come(self, at: int) -> None:
        job = self._jobs[at]
        gang = self._gangs.of(job, at)
        for member in gang.waiting:
            self._usual.arrived(member.pod_class)
        self._waiting.add(gang, job.cards, self._contender.key(job, at))

    def _plan(self, gangs: tuple[Gang, ...], now: int) -> None:
        """Ask the planner which of the gangs start, and let them start."""
        self._plans += 1
        known = {gang.uid: gang for gang in gangs}
        view = View(
            self._nodes.freeze(),
            self._queues,
            gangs,
            self._planned,
            expected_ends=tuple(self._expected.values()),
            usual=self._usual.shapes(),
        )
        found = plan(view, self._policy, now, self._memory)
        begun: dict[str, list[Assignment]] = {}
        for one in found.assignments:
            begun.setdefault(one.gang, []).append(one)
        for uid, pods in begun.items():
            self._start(_Place(known[uid], pods), now)
        for reserved in found.planned:
            self._first_plans.setdefault(reserved.owner, reserved.since)
        if self._contender.promises:
            self._planned = found.planned

    def _start(self, place: _Place, now: int) -> None:
        gang = place.gang
        at, pod_class = int(gang.uid), gang.waiting[0].pod_class
        job = self._jobs[at]
        for one in place.pods:
            self._nodes.charge(self._nodes.row(one.node), pod_class, one.grant)
        self._running[gang.uid] = place
        if self._plans_starts:
            rooms = tuple((node, pod_class, pods) for node, pods in Counter(one.node for one in place.pods).items())
            parts = tuple((one.node, one.grant.divided) for one in place.pods if one.grant.parts)
            self._expected[gang.uid] = ExpectedEnd(gang.uid, QUEUE, now + gang.lasts, rooms, parts)
        self._started[at] = now
        self._free -= job.cards
        self._waiting.started(gang, job.cards, self._contender.key(job, at))
        heapq.heappush(self._ends, (now + nanoseconds(job.runs), at))

    def _end(self, at: int) -> None:
        place = self._running.pop(str(at))
        self._expected.pop(str(at), None)
        self._free += self._jobs[at].cards
        pod_class = place.gang.waiting[0].pod_class
        for one in place.pods:
            self._nodes.discharge(self._nodes.row(one.node), pod_class, one.grant)
