"""How forecasts are judged: counts, widths and errors, by basis and together."""

from t9ksched.model.forecast import Basis, Forecast, Outcome, accuracy

SECOND = 1_000_000_000
NONE = {"medianWidthSeconds": None, "medianErrorSeconds": None, "p90ErrorSeconds": None}


def outcome(started: float, earliest: float = 0, latest: float = 0, basis: Basis = "plan") -> Outcome:
    return Outcome(Forecast(0, round(earliest * SECOND), round(latest * SECOND), basis), round(started * SECOND))


def test_without_jobs_there_are_counts_and_no_figures() -> None:
    nothing = {"startedByLatest": 0, "startedInInterval": 0, **NONE}
    assert accuracy([]) == {"jobs": 0, "unknown": 0, **nothing, "byBasis": {}}
    assert accuracy([outcome(5, basis="unknown")]) == {"jobs": 1, "unknown": 1, **nothing, "byBasis": {}}


def test_the_ends_of_an_interval_belong_to_it() -> None:
    found = accuracy([outcome(at, 10, 20) for at in (9.999, 10, 15, 20, 20.001)])
    assert (found["startedByLatest"], found["startedInInterval"]) == (4, 3)


def test_errors_are_distances_from_the_latest_moment() -> None:
    found = accuracy([outcome(20 + by, 10, 20) for by in (-10, -4, 0, 1, 2.5)])
    assert (found["medianErrorSeconds"], found["p90ErrorSeconds"], found["medianWidthSeconds"]) == (2.5, 10, 10)


def test_percentiles_are_values_that_there_are() -> None:
    several = accuracy([outcome(100 + by, 100, 100) for by in range(1, 11)])
    assert (several["medianErrorSeconds"], several["p90ErrorSeconds"]) == (5, 9)


def test_each_basis_has_its_figures_and_unknown_has_none() -> None:
    plan, learned = outcome(11, 0, 10), outcome(30, 20, 40, "learned")
    found = accuracy([plan, learned, outcome(3, basis="unknown"), learned])
    assert (found["jobs"], found["unknown"], found["startedByLatest"]) == (4, 1, 2)
    assert found["byBasis"] == {
        "plan": {
            "jobs": 1,
            "startedByLatest": 0,
            "startedInInterval": 0,
            "medianWidthSeconds": 10,
            "medianErrorSeconds": 1,
            "p90ErrorSeconds": 1,
        },
        "learned": {
            "jobs": 2,
            "startedByLatest": 2,
            "startedInInterval": 2,
            "medianWidthSeconds": 20,
            "medianErrorSeconds": 10,
            "p90ErrorSeconds": 10,
        },
    }
