"""How good forecasts are on recorded jobs: prints JSON.

    python tests/benchmarks/forecasts.py FILE [--limits exact] [--plans 10] [--queues 11] [--nodes 14] [--jobs 300]
        [--skip 0] [--first 0] [--every 0] [--record]

FILE is a trace as `t9ksched simulate replay --format philly` takes it. Each user of it is a virtual cluster: a queue
with nodes of 8 cards of its own, in which jobs start first come, first served, with conservative planning and
backfilling (`ordering: Backfill`). The engine decides at every submission and end on virtual time. A job that does not
start at once has its first forecast there, as the service makes it: its planned start; for those that have none,
because `--plans` gangs of the queue have one, the walk of the worker of forecasts, from the present of that moment.
With `--every` walks are so many seconds apart at least, as in the service, and jobs have their first forecast later;
those that have started before are counted as `without_forecast`, as those that start at once.

With `--limits exact` jobs may run as long as they do. With `--limits learned` they have no limit: their run times are
learned from those that have ended, and forecasts are 80 % intervals.

Of each queue the jobs `--first` to `--first` + `--jobs` are played, and those after the first `--skip` of them counted.
A forecast is given to the minute, rounded up, and reported as `t9ksched forecast-accuracy` does; `exact` beside it has
the moments before they are rounded, against which one cycle counts as a second.
"""

import argparse
import heapq
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.forecast import LEARNED, PLAN, UNKNOWN, Forecast, Outcome, accuracy
from t9ksched.model.gang import Gang
from t9ksched.model.queue import QueueSpec
from t9ksched.model.reservation import Reservation
from t9ksched.model.run_times import Likeness, RunTimes
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.forecast_worker import Interval, starts, task
from t9ksched.simulation.cluster import CARD, Cluster, Gangs
from t9ksched.simulation.job import Job, nanoseconds
from t9ksched.simulation.places import Books, Place, by_gang
from t9ksched.simulation.present import Occupant, Present
from t9ksched.simulation.traces import read
from tests.benchmarks.timing import report

CARDS: Final = 8
SECOND: Final = 1_000_000_000
KIND: Final = "Job"
MOST_RUNS: Final = 2000
"""Of how many jobs the service learns."""
WALK_SECONDS: Final = 3600.0
"""No walk is cut short: on a machine at rest the service's limit is not reached here."""


@dataclass(slots=True)
class Known:
    """A job that waits or runs: when it came, and what was forecast for it first; `raw` is not rounded."""

    job: Job
    gang: Gang
    first: Forecast | None = None
    raw: int = 0


class VirtualCluster:
    """A queue with nodes of its own on virtual time. Times are nanoseconds since the trace began."""

    def __init__(self, name: str, jobs: Sequence[Job], nodes: int, policy: Policy, *, learned: bool) -> None:
        cluster = Cluster(nodes, CARDS)
        quota = {CARD: cluster.capacity}
        queues = {name: QueueState(QueueSpec(quota=quota, ordering="Backfill"))}
        self._name = name
        self._jobs = jobs
        self._policy = policy
        self._learned = learned
        self._books = Books(View(cluster.table().freeze(), queues, ()))
        self._gangs = Gangs(cluster, last=not learned)
        self._memory = Memory()
        self._waiting: dict[str, Known] = {}
        self._running: dict[str, tuple[Known, Place]] = {}
        self._ends: list[tuple[int, str]] = []
        self._planned: tuple[Reservation, ...] = ()
        state = ClusterState()
        self._reservations, self._book = state.reservations, state.forecasts
        self._ran: list[tuple[Likeness, float]] = []
        self._walked = 0
        self.outcomes: list[tuple[Outcome, Outcome]] = []
        self.without = 0
        self.walks: list[float] = []
        self.most_waiting = 0

    def run(self, every: int, skip: int) -> None:
        """Play the jobs, and count what was forecast for those after the first `skip`."""
        comes = [(nanoseconds(job.submitted), at) for at, job in enumerate(self._jobs)]
        comes.reverse()
        due = 0
        while comes or self._running or self._waiting:
            moments = [moment for moment, _ in comes[-1:]] + [moment for moment, _ in self._ends[:1]]
            if due:
                moments.append(due)
            now = min(moments)
            while self._ends and self._ends[0][0] <= now:
                self._end(heapq.heappop(self._ends)[1])
            while comes and comes[-1][0] <= now:
                at = comes.pop()[1]
                gang = structs.replace(self._gangs.of(self._jobs[at], at), queue=self._name, user=self._jobs[at].user)
                self._waiting[gang.uid] = Known(self._jobs[at], gang)
            self._decide(now, skip)
            self.most_waiting = max(self.most_waiting, len(self._waiting))
            due = self._forecast(now, every)

    def _end(self, uid: str) -> None:
        known, place = self._running.pop(uid)
        self._books.give_back(place, [pod.uid for pod in place.pods])
        self._ran.append((_likeness(known.gang), known.job.runs))

    def _view(self) -> View:
        ends = tuple(place.expected for _, place in self._running.values() if place.ends)
        gangs = tuple(known.gang for known in self._waiting.values())
        return View(self._books.nodes.freeze(), self._books.queues(), gangs, self._planned, expected_ends=ends)

    def _decide(self, now: int, skip: int) -> None:
        """One cycle."""
        found = plan(self._view(), self._policy, now, self._memory)
        for uid, assignments in by_gang(found.assignments).items():
            known = self._waiting.pop(uid)
            place = Place(structs.replace(known.gang, waiting=()), started=now)
            place.ends = now + known.gang.lasts if known.gang.lasts else 0
            members = {member.uid: member for member in known.gang.waiting}
            for one in assignments:
                self._books.take(place, members[one.pod], one)
            self._running[uid] = known, place
            heapq.heappush(self._ends, (now + nanoseconds(known.job.runs), uid))
            if int(uid) < skip:
                continue
            if known.first is None:
                self.without += 1
            else:
                raw = _at(known.first, known.raw)
                self.outcomes.append((Outcome(known.first, now), Outcome(raw, now)))
        self._planned = found.planned
        planned: defaultdict[str, list[Reservation]] = defaultdict(list)
        for reserved in found.planned:
            planned[reserved.owner].append(reserved)
        self._reservations.planned = {uid: tuple(several) for uid, several in planned.items()}

    def _forecast(self, now: int, every: int) -> int:
        """Give each waiting job without one its first forecast; when a walk is due for those that are left, else 0."""
        new = [known for known in self._waiting.values() if known.first is None]
        if any(known.gang.uid not in self._reservations.planned for known in new):
            if now < self._walked + every and self._walked:
                new = [known for known in new if known.gang.uid in self._reservations.planned]
                self._say(new, now)
                return self._walked + every
            self._walk(now)
        self._say(new, now)
        return 0

    def _say(self, new: Sequence[Known], now: int) -> None:
        planning = self._policy.planning
        assert planning is not None
        self._book.now = now
        for known in new:
            record = GangRecord("trace", known.gang.name, known.gang.uid)
            known.first = self._book.of((record,), planning.resolution_seconds * SECOND)
            known.raw = self._book.of((record,), 1).latest

    def _walk(self, now: int) -> None:
        """As the service's process of forecasts does it."""
        planning = self._policy.planning
        assert planning is not None
        occupants = tuple(
            Occupant(
                structs.replace(place.gang, waiting=tuple(place.members)),
                tuple(place.pods),
                started=place.started,
                ends=place.ends,
            )
            for _, place in self._running.values()
        )
        present = Present(now, replace(self._view(), expected_ends=()), self._policy, occupants)
        ends: dict[str, Interval] = {}
        lengths: dict[str, Interval] = {}
        if self._learned:
            ends, lengths = self._expected(now, RunTimes(self._ran[-MOST_RUNS:]))
        begun = time.process_time()
        until = now + planning.horizon_seconds * SECOND
        found = starts(b"".join(task(present, until, WALK_SECONDS, ends, lengths)))
        self.walks.append(time.process_time() - begun)
        self._book.walk_found(found.enforced, found.learned, now)
        self._walked = now

    def _expected(self, now: int, times: RunTimes) -> tuple[dict[str, Interval], dict[str, Interval]]:
        ends: dict[str, Interval] = {}
        lengths: dict[str, Interval] = {}
        for uid, (known, place) in self._running.items():
            if (found := times.interval(_likeness(known.gang), (now - place.started) / SECOND)) is not None:
                ends[uid] = (place.started + nanoseconds(found[0]), place.started + nanoseconds(found[1]))
        for uid, known in self._waiting.items():
            if (found := times.interval(_likeness(known.gang))) is not None:
                lengths[uid] = (max(1, nanoseconds(found[0])), max(1, nanoseconds(found[1])))
        return ends, lengths


def _at(forecast: Forecast, latest: int) -> Forecast:
    return structs.replace(forecast, latest=latest, earliest=min(forecast.earliest, latest))


def _likeness(gang: Gang) -> Likeness:
    cards = sum(sum(member.pod_class.card_counts.values()) for member in gang.waiting)
    return Likeness(gang.user, gang.queue, KIND, (len(gang.waiting), cards))


def measure(outcomes: Sequence[tuple[Outcome, Outcome]]) -> dict[str, Any]:
    """The report on first forecasts, and on the same before rounding."""
    known = [raw for _, raw in outcomes if raw.forecast.basis != UNKNOWN]
    errors = sorted(raw.error for raw in known)
    count = max(1, len(known))
    late = sorted(raw.started - raw.forecast.latest for raw in known)
    return {
        "report": accuracy(shown for shown, _ in outcomes),
        "exact": {
            "not_later_than_one_cycle": round(
                sum(raw.started <= raw.forecast.latest + SECOND for raw in known) / count, 4
            ),
            "median_distance_s": errors[len(errors) // 2] / SECOND if errors else None,
            "p95_lateness_s": late[int(0.95 * len(late))] / SECOND if late else None,
            "most_late_s": late[-1] / SECOND if late else None,
        },
        "shares": {
            basis: round(sum(shown.forecast.basis == basis for shown, _ in outcomes) / max(1, len(outcomes)), 4)
            for basis in (PLAN, LEARNED, UNKNOWN)
        },
        "coverage": round(sum(shown.in_interval for shown, _ in outcomes) / count, 4),
    }


def clusters(path: Path) -> Mapping[str, list[Job]]:
    """The jobs of each user."""
    found: defaultdict[str, list[Job]] = defaultdict(list)
    with path.open() as lines:
        for job in read("philly", lines).jobs:
            found[job.user].append(job)
    return dict(sorted(found.items()))


def main() -> None:
    """Play one virtual cluster after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--limits", choices=("exact", "learned"), default="exact")
    parser.add_argument("--plans", type=int, default=Planning().per_queue, help="how many gangs of a queue have a plan")
    parser.add_argument("--queues", type=int, default=11)
    parser.add_argument("--nodes", type=int, default=14)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    planning = Planning("Conservative", max(options.plans, Planning().gangs), options.plans, per_user=options.plans)
    outcomes: list[tuple[Outcome, Outcome]] = []
    walks: list[float] = []
    queues: dict[str, Any] = {}
    jobs = without = 0
    for name, all_of in list(clusters(options.file).items())[: options.queues]:
        some = [job for job in all_of if job.cards <= options.nodes * CARDS]
        some = some[options.first : options.first + options.jobs]
        one = VirtualCluster(name, some, options.nodes, Policy(planning=planning), learned=options.limits == "learned")
        begun = time.process_time()
        one.run(nanoseconds(options.every), options.skip)
        jobs += len(some)
        without += one.without
        outcomes += one.outcomes
        walks += one.walks
        queues[name] = {"waited": len(one.outcomes), "most_waiting": one.most_waiting, "walks": len(one.walks)}
        print(name, queues[name], f"{time.process_time() - begun:.0f} s", file=sys.stderr, flush=True)
    settings = {name: value for name, value in vars(options).items() if name not in ("file", "record")}
    report(
        "forecasts",
        options.record,
        **settings,
        cards=CARDS,
        trace=options.file.name,
        played=jobs,
        without_forecast=without,
        walk_s={"mean": round(sum(walks) / len(walks), 3), "most": round(max(walks), 3)} if walks else None,
        by_queue=queues,
        **measure(outcomes),
    )


if __name__ == "__main__":
    main()
