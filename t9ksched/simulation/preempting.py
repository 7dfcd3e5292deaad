"""Replays of policies that preempt: at each event it is chosen anew which jobs run.

The planner is asked about all jobs that have not ended, those that run as well, on a cluster without jobs, in the order
of what they have left; a job that finds no room is passed. Where that is service, the jobs that `packing` chooses go
before the others, large ones first, so that they find room on the nodes. One that ran and is not chosen is preempted.
What it has done is kept, stopping and resuming take no time, and a job that goes on may be on other nodes than before.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import merge

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.plugins import PluginUse
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.gang import Gang
from t9ksched.model.queue import QueueSpec
from t9ksched.simulation.cluster import QUEUE, Cluster, Gangs
from t9ksched.simulation.job import Job, Run, nanoseconds, seconds
from t9ksched.simulation.lines import Entry, Key, Lines
from t9ksched.simulation.packing import Part, chosen
from t9ksched.simulation.policies import Contender, Remaining

_ORDER = "remaining"


class Preempting:
    """The state of a replay. Times are nanoseconds since the trace began; jobs are known by their positions."""

    def __init__(self, jobs: Sequence[Job], cluster: Cluster, contender: Contender, remaining: Remaining) -> None:
        self._jobs = jobs
        self._capacity = cluster.capacity
        self._service = remaining == "service"
        self._gangs = Gangs(cluster)
        self._empty = cluster.table().freeze()
        self._queues = {QUEUE: QueueState(QueueSpec(ordering=contender.ordering))}
        self._memory = Memory()
        self._ranks: dict[str, int] = {}
        use = PluginUse(_ORDER, _LeastFirst(self._ranks))
        self._policy: Policy = replace(contender.policy, gang_order=(_ORDER, "basic"), plugins=(use,))
        self._left = [nanoseconds(job.runs) for job in jobs]
        self._waiting = Lines("passing")
        self._running: dict[int, Gang] = {}
        self._started: dict[int, int] = {}
        self._stopped: dict[int, int] = {}
        self._pauses: dict[int, list[tuple[float, float]]] = {}
        self._plans = 0

    def run(self, progress: Callable[[int], None]) -> tuple[tuple[Run, ...], int]:
        """Go from event to event until every job has ended: what became of the jobs, and how often was planned."""
        comes = [(nanoseconds(job.submitted), at) for at, job in enumerate(self._jobs)]
        comes.reverse()
        now = ended = 0
        while comes or self._running:
            before, events = now, [now + self._left[at] for at in self._running]
            now = min(events + [moment for moment, _ in comes[-1:]])
            for at in list(self._running):
                self._left[at] -= now - before
                if not self._left[at]:
                    del self._running[at]
                    ended += 1
            while comes and comes[-1][0] <= now:
                at = comes.pop()[1]
                self._waiting.add(self._gangs.of(self._jobs[at], at), self._jobs[at].cards, self._key(at))
            if self._waiting:
                self._choose(now)
            progress(ended)
        return tuple(self._run(at) for at in range(len(self._jobs))), self._plans

    def _run(self, at: int) -> Run:
        job = self._jobs[at]
        return Run(job, max(job.submitted, seconds(self._started[at])), tuple(self._pauses.get(at, ())))

    def _key(self, at: int) -> Key:
        """The place of a job among all; of equals, one that runs goes before one that does not."""
        left = self._left[at] * (self._jobs[at].cards if self._service else 1)
        return left, 0 if at in self._running else 1, nanoseconds(self._jobs[at].submitted), at

    def _choose(self, now: int) -> None:
        """Ask the planner which jobs run from now on."""
        self._plans += 1
        run: list[Entry] = []
        for at, gang in self._running.items():
            insort(run, (self._key(at), gang), key=_key_of)
        waiting = {gang.uid: gang for gang in self._waiting.candidates(self._capacity)}
        waits = [(self._key(int(uid)), gang) for uid, gang in waiting.items()]
        gangs = tuple(gang for _, gang in merge(run, waits, key=_key_of))
        if self._service:
            gangs = self._packed(run, gangs)
        self._ranks.clear()
        self._ranks.update((gang.uid, place) for place, gang in enumerate(gangs))
        found = plan(View(self._empty, self._queues, gangs), self._policy, now, self._memory)
        placed = {one.gang for one in found.assignments}
        for at, gang in list(self._running.items()):
            if gang.uid not in placed:
                del self._running[at]
                self._stopped[at] = now
                self._waiting.add(gang, self._jobs[at].cards, self._key(at))
        for uid, gang in waiting.items():
            if uid in placed:
                self._go_on(int(uid), gang, now)

    def _packed(self, run: Sequence[Entry], gangs: Sequence[Gang]) -> tuple[Gang, ...]:
        """These gangs, which are some of those that have not ended: those that fit together best go first."""
        positions = (int(gang.uid) for _, gang in merge(run, self._waiting.everything(), key=_key_of))
        parts = [Part(at, self._jobs[at].cards, self._left[at]) for at in positions]
        cards = {str(part.at): part.cards for part in chosen(parts, self._capacity)}
        return tuple(sorted(gangs, key=lambda gang: -cards.get(gang.uid, 0)))

    def _go_on(self, at: int, gang: Gang, now: int) -> None:
        self._waiting.started(gang, self._jobs[at].cards, self._key(at))
        self._running[at] = gang
        self._started.setdefault(at, now)
        if at in self._stopped:
            self._pauses.setdefault(at, []).append((seconds(self._stopped.pop(at)), seconds(now)))


class _LeastFirst:
    """Orders gangs by the ranks that they have at the moment."""

    def __init__(self, ranks: dict[str, int]) -> None:
        self._ranks = ranks

    def gang_rank(self, gang: Gang, now: int) -> int:
        """Smaller goes first."""
        return self._ranks[gang.uid]


def _key_of(entry: Entry) -> Key:
    return entry[0]
