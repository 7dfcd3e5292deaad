"""Learned run times: of the jobs that are most alike, if there are five, and of those that ran longer than it has."""

import pytest

from t9ksched.model import run_times
from t9ksched.model.run_times import Likeness, RunTimes

MINE = Likeness("ann", "q", "Pod", (1, 2))


def times(**several: tuple[Likeness, list[float]]) -> RunTimes:
    return RunTimes((likeness, seconds) for likeness, runs in several.values() for seconds in runs)


def test_four_fifths_of_the_runs_lie_within() -> None:
    assert times(a=(MINE, [float(seconds) for seconds in range(1, 101)])).interval(MINE) == (10, 90)
    assert times(a=(MINE, [5, 1, 4, 2, 3])).interval(MINE) == (1, 5)


def test_fewer_than_five_runs_say_nothing() -> None:
    assert times(a=(MINE, [1, 2, 3, 4])).interval(MINE) is None


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (MINE._replace(shape=(4, 8)), (100, 500)),
        (MINE._replace(shape=(4, 8), kind="Job"), (100, 500)),
        (MINE._replace(shape=(4, 8), kind="Job", queue="r"), (100, 500)),
        (MINE._replace(submitter="ben"), None),
    ],
)
def test_where_too_few_are_alike_the_next_level_counts(other: Likeness, found: tuple[float, float] | None) -> None:
    assert times(a=(other, [100, 200, 300, 400, 500])).interval(MINE) == found


def test_what_is_most_alike_counts_alone() -> None:
    known = times(a=(MINE, [1, 1, 1, 1, 2]), b=(MINE._replace(kind="Job"), [900.0] * 50))
    assert known.interval(MINE) == (1, 2)


def test_a_job_that_runs_is_judged_by_those_that_ran_longer() -> None:
    known = times(a=(MINE, [10, 20, 30, 40, 50, 60, 70]))
    assert known.interval(MINE, 20) == (30, 70)
    assert known.interval(MINE, 30) is None, "four ran longer"


def test_jobs_that_wait_and_are_alike_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known, asked = times(a=(MINE, [10, 20, 30, 40, 50])), list[Likeness]()

    def levels(likeness: Likeness) -> list[tuple[object, ...]]:
        asked.append(likeness)
        return [tuple(likeness)]

    monkeypatch.setattr(run_times, "_levels", levels)
    other = MINE._replace(shape=(9, 9))
    assert [known.interval(each) for each in (MINE, MINE, other, other, MINE)] == [(10, 50)] * 2 + [None] * 2 + [
        (10, 50)
    ]
    assert asked == [MINE, other]
    assert [RunTimes().interval(MINE, age) for age in (0, 9)] == [None, None]
    assert asked == [MINE, other], "where nothing is known nothing is looked for"
