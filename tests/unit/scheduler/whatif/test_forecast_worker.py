"""What the worker says of a present is what walks find: with enforced ends, and with learned ones for what is left."""

import pytest

from t9ksched.scheduler.whatif import forecast_worker
from t9ksched.scheduler.whatif.forecast_worker import Interval, Starts, starts, task
from tests.ahead import HOUR, Pool
from tests.presents import present


def pool(runs: float, waits: float) -> Pool:
    """One card: a job that runs, and two that wait for it in turn; with their limits in hours, 0 for none."""
    pool = Pool(1)
    pool.submit("runs", 1, runs)
    pool.cycle(0)
    pool.submit("next", 1, waits)
    pool.submit("last", 1, waits)
    return pool


def found(
    pool: Pool,
    ends: dict[str, Interval] | None = None,
    lengths: dict[str, Interval] | None = None,
    *,
    hours: float = 336,
    seconds: float = 60,
) -> Starts:
    return starts(b"".join(task(present(pool), round(hours * HOUR), seconds, ends or {}, lengths or {})))


def test_with_enforced_ends_starts_are_those_of_a_walk() -> None:
    assert found(pool(2, 1)) == Starts({"next": 2 * HOUR, "last": 3 * HOUR})


def test_what_lies_behind_the_horizon_is_not_known() -> None:
    assert found(pool(2, 1), hours=2.5) == Starts({"next": 2 * HOUR})


def test_what_was_found_in_time_counts() -> None:
    assert found(pool(2, 1), seconds=0).enforced.keys() <= {"next", "last"}


def test_where_nothing_enforces_an_end_the_learned_ones_count() -> None:
    ends, lengths = {"runs": (2 * HOUR, 5 * HOUR)}, {"next": (HOUR, 3 * HOUR)}
    learned = {"next": (2 * HOUR, 5 * HOUR), "last": (3 * HOUR, 8 * HOUR)}
    rooms = {"next": (("n000", 1, 1),), "last": (("n000", 1, 1),)}
    assert found(pool(0, 0), ends, lengths) == Starts({}, learned, rooms)


def test_an_enforced_start_is_no_learned_one() -> None:
    some = found(pool(2, 0), {"runs": (HOUR, 2 * HOUR)}, {"next": (HOUR, 2 * HOUR)})
    assert some == Starts({"next": 2 * HOUR}, {"last": (2 * HOUR, 4 * HOUR)}, {"last": (("n000", 1, 1),)})


def test_an_enforced_end_comes_first() -> None:
    some = found(pool(2, 0), {"runs": (HOUR, 9 * HOUR)}, {"next": (HOUR, 2 * HOUR)})
    assert some.learned == {"last": (2 * HOUR, 4 * HOUR)}


def mixed(limit: float) -> Pool:
    """Two cards: on one a job without a limit, on the other one with this limit; two gangs wait for both."""
    pool = Pool(2)
    pool.submit("endless", 1)
    pool.submit("limited", 1, limit)
    pool.cycle(0)
    pool.submit("gang", 2, limit)
    pool.submit("last", 2, limit)
    return pool


def test_a_job_with_a_limit_may_end_long_before_it() -> None:
    some = found(mixed(5), {"endless": (HOUR, 2 * HOUR)})
    # A limited job of which nothing is known ends at any time, also one that has yet to start.
    assert some.learned == {"gang": (HOUR, 5 * HOUR), "last": (HOUR + 1, 10 * HOUR)}
    assert some.enforced == {}


def test_a_job_with_a_limit_ends_as_soon_as_others_like_it_did() -> None:
    ends = {"endless": (HOUR, 2 * HOUR), "limited": (3 * HOUR, 9 * HOUR)}
    some = found(mixed(5), ends, {"gang": (2 * HOUR, 9 * HOUR)})
    assert some.learned == {"gang": (3 * HOUR, 5 * HOUR), "last": (5 * HOUR, 10 * HOUR)}


def test_no_job_runs_past_its_limit_however_long_others_did() -> None:
    ends = {"endless": (HOUR, 2 * HOUR), "limited": (8 * HOUR, 9 * HOUR)}
    some = found(mixed(5), ends, {"gang": (8 * HOUR, 9 * HOUR)})
    assert some.learned == {"gang": (5 * HOUR, 5 * HOUR), "last": (10 * HOUR, 10 * HOUR)}


def test_what_is_overdue_may_end_at_once() -> None:
    pool = mixed(5)
    walk = task(present(pool, 6), 336 * HOUR, 60, {"endless": (6 * HOUR, 7 * HOUR)}, {})
    assert starts(b"".join(walk)).learned["gang"] == (6 * HOUR + 1, 7 * HOUR)


def test_what_is_learned_of_one_job_alone_may_not_be_enough() -> None:
    assert found(pool(0, 0), {"runs": (HOUR, HOUR)}).learned == {"next": (HOUR, HOUR)}


def test_places_are_those_of_the_later_start_with_pods_and_cards() -> None:
    pool = Pool(3, 4)
    for name in ("first", "second", "third"):
        pool.submit(name, 1, cards=4)
    pool.cycle(0)
    pool.submit("gang", 3, cards=2)
    # Which job ends first is another one at the most than at the least.
    ends = {"first": (HOUR, 9 * HOUR), "second": (2 * HOUR, 3 * HOUR), "third": (8 * HOUR, 8 * HOUR)}
    some = found(pool, ends)
    assert some.learned == {"gang": (2 * HOUR, 8 * HOUR)}
    assert sorted((pods, cards) for _, pods, cards in some.rooms["gang"]) == [(1, 2), (2, 4)]
    assert "n000" not in {node for node, _, _ in some.rooms["gang"]}, "there the first runs longest"


def test_an_answer_names_no_more_places_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast_worker, "_MOST_PLACES", 1)
    some = found(pool(0, 0), {"runs": (HOUR, HOUR)}, {"next": (HOUR, HOUR)})
    assert some.learned.keys() == {"next", "last"}
    assert some.rooms.keys() == {"next"}, "the next to start first"
