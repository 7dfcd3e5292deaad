"""Replays held against a plain simulator of slots, against the planner that is shown everything, and against figures
worked out by hand.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace
from math import fsum, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.cli.commands import simulate
from t9ksched.engine.policy import Policy
from t9ksched.simulation.cluster import Cluster
from t9ksched.simulation.figures import Figures, figures
from t9ksched.simulation.job import Job, Run
from t9ksched.simulation.lines import Lines
from t9ksched.simulation.packing import in_order
from t9ksched.simulation.policies import NAMED, Contender, named
from t9ksched.simulation.replay import replay

JOBS = st.lists(
    st.builds(
        Job,
        name=st.just("j"),
        submitted=st.integers(0, 60).map(float),
        runs=st.integers(1, 40).map(float),
        cards=st.integers(1, 16),
        priority=st.integers(0, 2),
    ),
    min_size=1,
    max_size=25,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submitted))

ORDERS: dict[str, Callable[[Job], float]] = {
    "fcfs": lambda job: 0,
    "besteffort": lambda job: 0,
    "priority": lambda job: -job.priority,
    "sjf": lambda job: job.runs,
    "easy": lambda job: 0,
    "conservative": lambda job: 0,
    "sjf-easy": lambda job: asks(job),
}
PLANNED = ("easy", "conservative", "sjf-easy")
PREEMPTING = {"srtf": lambda job: 1, "srsf": lambda job: job.cards}
"""What the time that a job has left is multiplied by."""
ESTIMATED = st.tuples(JOBS, st.lists(st.sampled_from([0, 0, 1, 5, 20, 60]), min_size=25, max_size=25)).map(
    lambda drawn: [replace(job, limit=job.runs + more) for job, more in zip(drawn[0], drawn[1], strict=False)]
)
"""Jobs that ask for as long as they run, or longer."""


def slots(jobs: list[Job], capacity: int, name: str) -> list[float]:
    """When each job starts where any free cards will do: a simulator of a dozen lines."""
    waiting: list[int] = []
    ends: list[tuple[float, int]] = []
    starts: dict[int, float] = {}
    free, comes = capacity, 0
    while comes < len(jobs) or ends:
        now = min([job.submitted for job in jobs[comes : comes + 1]] + [end for end, _ in ends[:1]])
        while ends and ends[0][0] <= now:
            free += jobs[heapq.heappop(ends)[1]].cards
        while comes < len(jobs) and jobs[comes].submitted <= now:
            waiting.append(comes)
            comes += 1
        for at in sorted(waiting, key=lambda at: (ORDERS[name](jobs[at]), jobs[at].submitted, at)):
            if jobs[at].cards <= free:
                free -= jobs[at].cards
                starts[at] = now
                waiting.remove(at)
                heapq.heappush(ends, (now + jobs[at].runs, at))
            elif name != "besteffort":
                break
    return [starts[at] for at in range(len(jobs))]


class Profile:
    """Free slots over time: what a textbook draws. Ends of running jobs, and reservations, are intervals."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken: list[tuple[float, float, int]] = []

    def earliest(self, now: float, length: float, slots: int) -> float:
        """The first moment from which so many slots are free for so long."""
        for start in sorted({now, *(end for _, end, _ in self.taken if end > now)}):
            moments = [start, *(begin for begin, _, _ in self.taken if start < begin < start + length)]
            if all(self.used(moment) + slots <= self.capacity for moment in moments):
                return start
        raise AssertionError("all intervals end")

    def used(self, moment: float) -> int:
        """Slots that are taken at that moment."""
        return sum(slots for begin, end, slots in self.taken if begin <= moment < end)


def backfilled(jobs: list[Job], capacity: int, name: str) -> list[float]:
    """When each job starts with backfilling on slots, planned with what jobs ask for.

    EASY: the first job that does not fit has a reservation, made anew at each moment. Conservative: every job has one
    from its submission on; at each moment they are moved forward as far as they can be, one after the other, the one
    that is to start first at first.
    """
    waiting: list[int] = []
    running: dict[int, float] = {}
    starts: dict[int, float] = {}
    reserved: dict[int, float] = {}
    comes = 0
    while comes < len(jobs) or running:
        now = min([job.submitted for job in jobs[comes : comes + 1]] + [starts[at] + jobs[at].runs for at in running])
        for at in [at for at in running if starts[at] + jobs[at].runs <= now]:
            del running[at]
        while comes < len(jobs) and jobs[comes].submitted <= now:
            waiting.append(comes)
            comes += 1
        if name != "conservative":
            reserved.clear()
        order = {at: (reserved.get(at, inf), ORDERS[name](jobs[at]), jobs[at].submitted, at) for at in waiting}
        for at in sorted(waiting, key=order.__getitem__):
            reserved.pop(at, None)
            profile = Profile(capacity)
            profile.taken = [(now, max(starts[one] + asks(jobs[one]), now), jobs[one].cards) for one in running]
            profile.taken += [(when, when + asks(jobs[one]), jobs[one].cards) for one, when in reserved.items()]
            start = profile.earliest(now, asks(jobs[at]), jobs[at].cards)
            if start == now:
                starts[at] = running[at] = now
                waiting.remove(at)
            elif name == "conservative" or not reserved:
                reserved[at] = start
    return [starts[at] for at in range(len(jobs))]


def asks(job: Job) -> float:
    """What the job asks for."""
    return job.runs if job.limit is None else job.limit


@pytest.mark.parametrize("name", PLANNED)
@given(jobs=ESTIMATED)
def test_backfilling_on_one_pool_of_slots_is_that_of_textbooks(name: str, jobs: list[Job]) -> None:
    played = replay(jobs, Cluster(16, 1), named(name))
    assert [run.started for run in played.runs] == backfilled(jobs, 16, name)


def shared(jobs: list[Job], capacity: int, name: str) -> list[tuple[float, float]]:
    """When each job begins and ends where it is chosen anew at each event which jobs run, the least work left first."""
    left = [job.runs for job in jobs]
    there: list[int] = []
    running: list[int] = []
    begun: dict[int, float] = {}
    ended: dict[int, float] = {}
    now, comes = 0.0, 0
    while len(ended) < len(jobs):
        before = now
        now = min([now + left[at] for at in running] + [job.submitted for job in jobs[comes : comes + 1]])
        for at in running:
            left[at] -= now - before
            if not left[at]:
                ended[at] = now
                there.remove(at)
        while comes < len(jobs) and jobs[comes].submitted <= now:
            there.append(comes)
            comes += 1
        was, running, free = running, [], capacity
        for at in sorted(
            there, key=lambda at: (left[at] * PREEMPTING[name](jobs[at]), at not in was, jobs[at].submitted, at)
        ):
            if jobs[at].cards <= free:
                free -= jobs[at].cards
                running.append(at)
                begun.setdefault(at, now)
    return [(begun[at], ended[at]) for at in range(len(jobs))]


@pytest.mark.parametrize("name", PREEMPTING)
@given(jobs=JOBS)
def test_preemption_on_one_pool_of_slots_is_that_of_textbooks(name: str, jobs: list[Job]) -> None:
    """But for the sets of `srsf` that fit better, which are held against all sets elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("t9ksched.simulation.preempting.chosen", in_order)
        runs = replay(jobs, Cluster(16, 1), named(name)).runs
    assert [(run.started, run.ended) for run in runs] == shared(jobs, 16, name)


def test_what_a_preempted_job_has_done_is_kept() -> None:
    jobs = [Job("long", 0, 100, 2), Job("short", 10, 20, 1), Job("last", 40, 5, 1)]
    runs = replay(jobs, Cluster(1, 2), named("srtf")).runs
    assert [(run.started, run.pauses, run.ended) for run in runs] == [
        (0, ((10, 30), (40, 45)), 125),
        (10, (), 30),
        (40, (), 45),
    ]
    assert figures(runs, 2) == Figures(
        jobs=3,
        makespan=125,
        mean_wait=25 / 3,
        mean_completion=(125 + 20 + 5) / 3,
        p99_completion=125,
        mean_bounded_slowdown=(125 / 100 + 1 + 1) / 3,
        utilisation=225 / 250,
        preemptions=2,
    )


@pytest.mark.parametrize("name", [name for name in NAMED if name not in PLANNED and name not in PREEMPTING])
@given(jobs=JOBS)
def test_on_one_pool_of_slots_it_is_the_textbook_policy(name: str, jobs: list[Job]) -> None:
    played = replay(jobs, Cluster(16, 1), named(name))
    assert [run.started for run in played.runs] == slots(jobs, 16, name)
    assert [run.job for run in played.runs] == jobs


class Everything(Lines):
    """Shows the planner all that waits."""

    def candidates(self, free: int) -> tuple[object, ...]:  # type: ignore[override]
        return super().candidates(1 << 40)


@pytest.mark.parametrize("name", NAMED)
@given(jobs=ESTIMATED, shape=st.sampled_from(["2x8", "4x4", "5x3", "16x1"]))
def test_what_is_not_shown_to_the_planner_could_not_start(name: str, jobs: list[Job], shape: str) -> None:
    """On nodes of several cards, where free cards may be of no use."""
    cluster = Cluster.parse(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("t9ksched.simulation.replay.Lines", Everything)
        patch.setattr("t9ksched.simulation.preempting.Lines", Everything)
        whole = replay(jobs, cluster, named(name))
    assert replay(jobs, cluster, named(name)).runs == whole.runs


@given(jobs=JOBS, name=st.sampled_from(sorted(NAMED)))
def test_no_card_is_held_twice_and_none_idles_beside_a_job_that_fits(jobs: list[Job], name: str) -> None:
    cluster = Cluster(4, 4)
    runs = replay(jobs, cluster, named(name)).runs
    for moment in sorted({run.started for run in runs}):
        held = sum(run.job.cards for run in runs if run.ran(moment, moment + 0.5))
        assert held <= cluster.capacity
    assert all(run.started >= run.job.submitted for run in runs)


def test_what_is_too_large_is_left_out_and_counted() -> None:
    jobs = [Job("a", 0, 5, 4), Job("b", 0, 5, 5), Job("c", 1, 5, 4)]
    played = replay(jobs, Cluster(1, 4), named("fcfs"))
    assert (played.too_large, [(run.job.name, run.started) for run in played.runs]) == (1, [("a", 0), ("c", 5)])


def test_the_first_planned_start_of_a_job_is_known() -> None:
    """Two nodes of two cards; a gang of one-card pods waits for the end that comes first of two."""
    jobs = [Job("a", 0, 10, 2, limit=20), Job("b", 0, 5, 2, limit=5), Job("gang", 1, 1, 4, pods=4), Job("c", 2, 1, 1)]
    runs = replay(jobs, Cluster(2, 2), named("conservative")).runs
    assert [(run.planned, run.started) for run in runs] == [(None, 0), (None, 0), (20, 10), (5, 5)]


def test_progress_is_told_until_all_have_ended() -> None:
    told: list[int] = []
    replay([Job("a", 0, 5, 1), Job("b", 9, 5, 1)], Cluster(1, 1), named("fcfs"), told.append)
    assert told == [0, 1, 1, 2]


def test_a_policy_of_an_administrator_orders_by_priority_and_passes() -> None:
    jobs = [Job("a", 0, 5, 3), Job("b", 1, 5, 2), Job("c", 2, 5, 1), replace(Job("d", 2, 5, 1), priority=1)]
    played = replay(jobs, Cluster(1, 4), Contender(policy=Policy(), by_priority=True))
    assert [run.started for run in played.runs] == [0, 5, 5, 2]


def test_the_command_line_names_the_policies_that_there_are() -> None:
    assert list(NAMED) == list(simulate._POLICIES)


def test_figures_by_hand() -> None:
    """Two cards; `a` holds both for 20 s, `b` one for 4 s after it, `c` one for 30 s."""
    runs = [Run(Job("a", 0, 20, 2), 0), Run(Job("b", 5, 4, 1), 20), Run(Job("c", 10, 30, 1), 20)]
    assert figures(runs, 2) == Figures(3, 50, 25 / 3, 79 / 3, 40, fsum((1, 19 / 10, 40 / 30)) / 3, 74 / 100)
    assert figures(runs, 2, slice(1, 2)) == Figures(1, 19, 15, 19, 19, 1.9, (15 * 2 + 4 + 4) / 38)
    with pytest.raises(ValueError, match="there are 3"):
        figures(runs, 2, slice(3, None))
