"""Walks on virtual time: what starts when, as the planner of the live service would let it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec import structs

from t9ksched.engine.policy import Planning, Policy, Preemption
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.start_windows import StartWindow
from t9ksched.simulation.outlook import outlook
from t9ksched.simulation.present import Present
from tests.ahead import HOUR, Pool
from tests.builders import GPU, pod_class, queue
from tests.presents import copy, hours, present

WEEK = 168 * HOUR
PREEMPTS = Policy(actions=("allocate", "preempt"), preemption=Preemption(max_grace_seconds=7200))


def begun(planning: Planning | None = Planning(), **queues: object) -> Pool:
    """Ten cards, of which job a has six for ten hours."""
    pool = Pool(planning=planning, queues=queues or None)  # type: ignore[arg-type]
    pool.submit("a", 6, 10, of=next(iter(queues), "q"))
    pool.cycle(0)
    return pool


@pytest.mark.parametrize("planning", [Planning(), Planning(mode="EASY"), None], ids=["conservative", "EASY", "none"])
def test_jobs_start_from_end_to_end(planning: Planning | None) -> None:
    pool = begun(planning)
    for name, pods, lasts in (("b", 8, 5), ("c", 8, 5), ("d", 10, 5), ("never", 11, 1)):
        pool.submit(name, pods, lasts)
    found = outlook(present(pool), WEEK)
    assert hours(found) == {"b": 10, "c": 15, "d": 20}
    assert found.complete
    assert found.until == WEEK
    assert found.starts["d"].nodes == tuple(f"n{at:03}" for at in range(10))
    assert found.reasons["never"][0].code == Code.NEVER_FITS


def test_what_nothing_ends_runs_for_ever() -> None:
    pool = begun()
    pool.submit("endless", 4)
    pool.submit("b", 8)
    assert hours(outlook(present(pool), WEEK)) == {"endless": 0}


def test_an_end_that_is_overdue_comes_a_resolution_later() -> None:
    pool = begun(Planning(resolution_seconds=3600))
    pool.submit("b", 8, 5)
    assert hours(outlook(present(pool, 11), WEEK)) == {"b": 12}


def test_the_walk_ends_where_it_is_told_to() -> None:
    pool = begun()
    for name in "bcd":
        pool.submit(name, 8, 5)
    found = outlook(present(pool), 12 * HOUR)
    assert hours(found) == {"b": 10}
    stopped = outlook(present(pool), WEEK, lambda: True)
    assert (stopped.complete, stopped.until) == (False, 0)
    assert hours(stopped) == {"b": 10, "c": 15, "d": 20}, "what was planned at the last moment is said"


def test_a_quota_is_free_again_when_a_job_of_the_queue_ends() -> None:
    pool = begun(None, q=queue(quota={"nvidia.com/gpu": 7}))
    pool.submit("b", 2, 1)
    assert hours(outlook(present(pool), WEEK)) == {"b": 10}


def test_start_windows_and_stops_are_waited_for() -> None:
    pool = begun()
    pool.submit("b", 2, 1)
    reason = Reason(Code.SCHEDULING_STOPPED, "stopped")
    calm = present(pool)
    stopped = Present(calm.at, calm.view, calm.policy, calm.occupants, reason, 5 * HOUR)
    found = outlook(stopped, WEEK)
    assert hours(found) == {"b": 5}
    for_ever = Present(calm.at, calm.view, calm.policy, calm.occupants, reason)
    found = outlook(for_ever, WEEK)
    assert (hours(found), found.reasons["b"]) == ({}, (reason,))


def test_groups_that_start_later_are_in_no_order_before() -> None:
    pool = begun(None)
    pool.submit("late", 4, 1)
    pool.submit("b", 3, 20)
    calm = present(pool)
    found = outlook(copy(replace(calm, later={"late": 5 * HOUR})), WEEK)
    assert hours(found) == {"b": 0, "late": 10}


def test_room_that_is_promised_comes_free_when_the_promise_ends() -> None:
    pool = begun(None)
    shape = pod_class(cpu=0, memory=0, gpu=1)
    pool.submit("b", 4, 1)
    calm = present(pool)
    held = [Reservation("x", f"n{at:03}", shape, ReservationKind.BINDING, until=3 * HOUR) for at in range(10)]
    kept = replace(calm, view=replace(calm.view, reservations=tuple(held)))
    assert hours(outlook(kept, WEEK)) == {"b": 3}


def test_what_was_reserved_for_a_group_is_free_when_it_has_started() -> None:
    pool = Pool(nodes=1, cards=2, planning=None)
    for name, lasts in (("a", 10), ("b", 2), ("c", 1)):
        pool.submit(name, 1, lasts)
    calm = present(pool)
    shape = calm.view.gangs[0].waiting[0].pod_class
    held = Reservation("a", "n000", shape, ReservationKind.BINDING)
    kept = copy(replace(calm, view=replace(calm.view, reservations=(held,))))
    assert hours(outlook(kept, WEEK)) == {"a": 0, "b": 0, "c": 2}


def test_a_queue_starts_jobs_when_its_window_begins() -> None:
    window = StartWindow(begin=120, end=180)
    pool = Pool(planning=None, queues={"q": queue(start_windows=(window,))})
    pool.submit("a", 1, 1)
    assert hours(outlook(present(pool, 1), WEEK)) == {"a": 2}


def test_nodes_that_are_reserved_come_free_when_the_reservation_ends() -> None:
    pool = Pool(planning=None)
    pool.reserve("r", 0, 5, range(10))
    pool.submit("a", 1, 1)
    assert hours(outlook(present(pool), WEEK)) == {"a": 5}


def test_what_jobs_inside_a_reservation_hold_is_part_of_it() -> None:
    pool = Pool(nodes=1, cards=8, planning=None, queues={"own": queue(), "other": queue()})
    pool.reserve("r", 0, 50, [0], cards=(GPU, 4), queues=("own",))
    pool.submit("inside", 1, 10, cards=4, of="own")
    pool.submit("first", 1, 2, cards=4, of="other")
    pool.submit("second", 1, 2, cards=4, of="other")
    assert hours(outlook(present(pool), WEEK)) == {"inside": 0, "first": 0, "second": 2}


def urgent() -> Pool:
    """All cards are taken by two jobs of a queue that may be preempted, for ten and for twenty hours."""
    pool = Pool(planning=None, queues={"low": queue(), "high": queue(priority=10)})
    pool.policy = PREEMPTS
    pool.submit("a", 6, 10, of="low")
    pool.submit("b", 4, 20, of="low")
    pool.policy = Policy()
    pool.cycle(0)
    pool.policy = PREEMPTS
    return pool


def test_a_preemptor_starts_when_the_grace_of_its_victims_is_over_and_they_wait_again() -> None:
    pool = urgent()
    pool.submit("u", 3, 2, of="high")
    found = outlook(present(pool, grace=1), WEEK)
    assert found.victims == {"u": {"b": 4}}
    assert found.lost == {"b": HOUR}
    assert hours(found) == {"u": 1, "b": 3}
    assert found.reasons["u"][0].code == Code.WAITING_FOR_VICTIMS


def test_a_victim_waits_again_like_any_other() -> None:
    pool = urgent()
    pool.submit("u", 3, 2, of="high")
    pool.submit("z", 4, 1, of="low", priority=5)
    assert hours(outlook(present(pool), WEEK)) == {"u": 0, "z": 2, "b": 3}


def test_a_longer_grace_than_the_policy_gives_is_cut_off() -> None:
    pool = urgent()
    pool.submit("u", 3, 2, of="high")
    assert hours(outlook(present(pool, grace=9), WEEK))["u"] == 2


def test_evicted_pods_that_nothing_makes_anew_are_gone() -> None:
    pool = urgent()
    pool.submit("u", 3, 2, of="high")
    made = present(pool)
    bare = tuple(structs.replace(one, remade=False) for one in made.occupants)
    found = outlook(Present(made.at, made.view, made.policy, bare), WEEK)
    assert hours(found) == {"u": 0}
    assert found.lost == {"b": 0}


def test_a_job_is_a_victim_only_after_its_minimum_run() -> None:
    pool = urgent()
    pool.submit("u", 3, 2, of="high")
    policy = Policy(actions=("allocate", "preempt"), preemption=Preemption(minimum_run_seconds=3 * 3600))
    assert hours(outlook(present(pool, policy=policy), WEEK))["u"] == 3


@settings(max_examples=60, deadline=None)
@given(
    jobs=some.lists(some.tuples(some.integers(1, 10), some.integers(1, 6)), min_size=1, max_size=12),
    planning=some.sampled_from([Planning(), Planning(mode="EASY"), Planning(per_queue=2), None]),
)
def test_the_walk_says_what_then_happens(jobs: list[tuple[int, int]], planning: Planning | None) -> None:
    """A cluster on which each job runs as long as it may, cycle by cycle, starts each job when the walk said."""
    pool = Pool(planning=planning)
    half = len(jobs) // 2
    for at, (pods, lasts) in enumerate(jobs):
        if at == half:
            pool.cycle(0)
        pool.submit(f"j{at:02}", pods, lasts)
    found = hours(outlook(present(pool), WEEK))
    hour = 0.0
    while True:
        for name in sorted(pool.running):
            of, at, _ = pool.job(name)
            if at + of.lasts <= round(hour * HOUR):
                pool.end(name)
        pool.cycle(hour)
        ends = [(at + of.lasts) / HOUR for of, at, _ in map(pool.job, pool.running)]
        if not pool.waiting or not ends:
            break
        hour = min(ends)
    told = {name: start for name, start in pool.started.items() if name in found or start > 0}
    assert found == told


def test_elements_of_an_array_start_as_others_end() -> None:
    pool = begun(None)
    for at in range(5):
        pool.submit(f"e{at}", 1, 2)
    calm = present(pool)
    turns = {f"e{at}": ("sweep", 2) for at in range(5)}
    found = outlook(replace(calm, turns=turns), WEEK)
    assert hours(found) == {"e0": 0, "e1": 0, "e2": 2, "e3": 2, "e4": 4}
    assert found.reasons["e2"][0].code == Code.ARRAY_LIMIT
    assert "e0" not in found.reasons
