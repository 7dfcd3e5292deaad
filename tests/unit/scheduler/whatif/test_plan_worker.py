"""What the worker says of a present is what the planner plans for that moment, and nothing later."""

from t9ksched.scheduler.whatif.plan_worker import starts
from t9ksched.simulation.present import written
from tests.ahead import HOUR, Pool
from tests.presents import present


def test_starts_now_and_planned_ones() -> None:
    pool = Pool(2)
    pool.submit("runs", 1, 2)
    pool.cycle(0)
    pool.submit("now", 1, 1)
    pool.submit("next", 2, 1)
    pool.submit("last", 1, 0)
    assert starts(b"".join(written(present(pool)))) == {"now": 0, "next": 2 * HOUR, "last": 3 * HOUR}


def test_without_planning_only_what_starts_now() -> None:
    pool = Pool(1, planning=None)
    pool.submit("now", 1, 1)
    pool.submit("next", 1, 1)
    assert starts(b"".join(written(present(pool)))) == {"now": 0}
