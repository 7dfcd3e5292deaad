"""Hours come from what lasted: a wall clock that is set moves the times of what goes on."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.scheduler.keep.housekeeping import Housekeeping
from t9ksched.scheduler.report.clockwatch import ClockWatch

START = 1_790_000_000
DAY = 86_400


class Clocks:
    """A wall clock that can be set, and one that only grows."""

    def __init__(self) -> None:
        self.now, self.ahead = 0.0, 0.0

    def wall(self) -> int:
        return int((START + self.now + self.ahead) * 1e9)

    def steady(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([(5, 0), (3600, 0), (0.001, 0)], []),
        ([(5, 0.9), (5, 0.9), (5, -0.9)], []),
        ([(5, -DAY)], [-DAY]),
        ([(5, DAY), (5, 0), (5, -DAY)], [DAY, -DAY]),
        ([(0, 1.5)], [1.5]),
    ],
    ids=["it goes as it should", "slewed", "set back", "set forward and back", "within no time"],
)
def test_what_is_a_jump(steps: list[tuple[float, float]], told: list[float]) -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.wall, clocks.steady)
    found: list[timedelta] = []
    watch.on_jump.append(lambda by, at: found.append(by))
    for seconds, jump in steps:
        clocks.now += seconds
        clocks.ahead += jump
        watch.look()
        watch.look()
    assert [round(one.total_seconds(), 3) for one in found] == told
    assert watch.jumps == len(told)


def test_what_was_before_it_began_to_look_is_no_jump() -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.wall, clocks.steady)
    clocks.ahead += DAY
    watch.begin()
    watch.look()
    assert watch.jumps == 0


@pytest.mark.parametrize("jump", [DAY, -DAY, 30, -30])
def test_a_time_that_was_read_before_the_jump_moves_with_it(jump: float) -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.wall, clocks.steady)
    read = datetime.fromtimestamp(START, UTC)
    assert watch.as_now(read) == read
    clocks.ahead += jump
    watch.look()
    assert watch.as_now(read) == read + timedelta(seconds=jump)
    fresh = datetime.fromtimestamp(clocks.wall() / 1e9, UTC)
    assert watch.as_now(fresh) == fresh
    clocks.now += 120
    watch.look()
    assert watch.as_now(read) == read, "long ago it was said of another time"


async def test_timers_do_not_wait_for_the_time_that_was_before() -> None:
    nothing: Any = None
    keeping = Housekeeping(nothing, nothing, lambda: 0, timedelta())
    keeping.start()
    try:
        jobs = keeping._timers.get_jobs()
        assert jobs
        for job in jobs:
            job.modify(next_run_time=datetime.now(UTC) + timedelta(days=1))
        keeping.clock_set()
        late = datetime.now(UTC) + timedelta(hours=2)
        assert all(job.next_run_time < late for job in keeping._timers.get_jobs())
    finally:
        await keeping.stop()
