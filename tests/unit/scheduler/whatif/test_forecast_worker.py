"""What the worker says of a present is what a walk finds, within the time that it may take."""

from t9ksched.scheduler.whatif.forecast_worker import starts, task
from tests.ahead import HOUR, Pool
from tests.presents import present


def waiting() -> Pool:
    """One card: a job that ends at hour 2, and two that wait for it in turn, of an hour each."""
    pool = Pool(1)
    pool.submit("runs", 1, 2)
    pool.cycle(0)
    pool.submit("next", 1, 1)
    pool.submit("last", 1, 1)
    return pool


def test_starts_are_those_of_a_walk() -> None:
    found = starts(b"".join(task(present(waiting()), 14 * 24 * HOUR, 60)))
    assert {uid: at / HOUR for uid, at in found.items()} == {"next": 2, "last": 3}


def test_what_lies_behind_the_horizon_is_not_known() -> None:
    found = starts(b"".join(task(present(waiting()), round(2.5 * HOUR), 60)))
    assert set(found) == {"next"}


def test_what_was_found_in_time_counts() -> None:
    assert starts(b"".join(task(present(waiting()), 14 * 24 * HOUR, 0))).keys() <= {"next", "last"}
