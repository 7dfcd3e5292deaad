"""Planned starts through random histories in which each job counts as started a moment after that was decided, as it is
in the service, and is expected to last longer until it runs.

Queues have one priority, nothing is late, lost or changed: no plan moves later by more than the resolution of plans.
"""

import heapq
from itertools import count
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.policy import Planning
from tests.ahead import HOUR, Pool
from tests.builders import GPU, queue

SECOND = HOUR // 3600
RESOLUTION = 10
MOMENT = SECOND // 50
TO_RUN = 4 * SECOND // 10
"""From the start of a job until its pods run."""
TIMEOUT = 900
"""Seconds that a job may take until its pods run: until then it is expected to end so much later."""
SLACK = 10
QUOTAS = {"q": 0, "six": 6, "four": 4, "free": 4}


class Job(NamedTuple):
    """What is submitted so many tenths of a second after the job before; `runs` is the share of its limit, in percent,
    after which it ends by itself, or is ended.
    """

    after: int
    of: str
    pods: int
    cards: int
    limit: int
    runs: int


JOBS = st.builds(
    Job,
    after=st.sampled_from([5, 10, 15, 25]),
    of=st.sampled_from(["q", "q", *QUOTAS]),
    pods=st.integers(1, 3),
    cards=st.integers(1, 3),
    limit=st.sampled_from([20, 30, 45, 60, 90]),
    runs=st.sampled_from([20, 50, 80, 100]),
)


class History:
    """Jobs that come, start, run and end, with cycles at each of these moments until nothing changes."""

    def __init__(self, nodes: int, jobs: list[Job]) -> None:
        spec = {name: {"quota": {GPU: most}} if most else {} for name, most in QUOTAS.items()}
        orderings = {name: "BestEffort" if name == "free" else "Backfill" for name in QUOTAS}
        queues = {name: queue(ordering=orderings[name], **spec[name]) for name in QUOTAS}
        planning = Planning(per_queue=100, resolution_seconds=RESOLUTION)
        self.pool = Pool(nodes, 4, planning, queues, delay=MOMENT, compares=False)
        self.jobs = {f"j{number}": job for number, job in enumerate(jobs)}
        self.numbers = count()
        self.coming: list[tuple[int, int, str, str]] = []
        at = 0
        for name, job in self.jobs.items():
            at += job.after * SECOND // 10
            self.then(at, "submit", name)

    def then(self, at: int, what: str, name: str) -> None:
        heapq.heappush(self.coming, (at, next(self.numbers), what, name))

    def happen(self, now: int, what: str, name: str) -> None:
        job = self.jobs[name]
        if what == "submit":
            pods = min(job.pods, 4 // job.cards)  # within every quota
            self.pool.submit(name, pods, cards=job.cards, of=job.of)
            self.pool.change(name, lasts=(TIMEOUT + job.limit + SLACK) * SECOND)
        elif what == "run":
            began = self.pool.job(name)[1]
            self.pool.limited(name, (now - began + (job.limit + SLACK) * SECOND) / HOUR)
            self.then(now + job.limit * job.runs * SECOND // 100, "end", name)
        else:
            self.pool.end(name)

    def walk(self) -> None:
        while self.coming:
            now = self.coming[0][0]
            while self.coming and self.coming[0][0] == now:
                _, _, what, name = heapq.heappop(self.coming)
                self.happen(now, what, name)
            for _ in range(6):
                before, waited = self.pool.planned, set(self.pool.waiting)
                self.pool.cycle(now / HOUR)
                for name in sorted(waited - self.pool.waiting.keys()):
                    self.then(now + TO_RUN, "run", name)
                for name in before.keys() & self.pool.waiting.keys():
                    seconds = (self.pool.planned[name] - before[name]) * 3600
                    assert seconds <= RESOLUTION, f"{name} is planned {seconds} s later than before at {now / SECOND}"
                if (before, waited) == (self.pool.planned, set(self.pool.waiting)):
                    break


@settings(max_examples=25)
@given(nodes=st.integers(2, 3), jobs=st.lists(JOBS, min_size=16, max_size=20))
def test_no_plan_moves_later(nodes: int, jobs: list[Job]) -> None:
    History(nodes, jobs).walk()
