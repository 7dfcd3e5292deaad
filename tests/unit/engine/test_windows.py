"""Start windows of queues: what starts in them, what goes on outside, and what is planned for them.

Hours count from a Thursday at 00:00 UTC.
"""

from collections.abc import Mapping

import pytest
from msgspec import structs

from t9ksched.engine import windows as engine_windows
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.start_windows import StartWindow
from tests.ahead import HOUR, Pool
from tests.builders import gang, node, queue, running, view


def window(begin: int, end: int, *days: int) -> StartWindow:
    return StartWindow(days or tuple(range(7)), begin * 60, end * 60)


NIGHT = queue(ordering="Backfill", start_windows=(window(20, 6),))


def codes(pool: Pool, hour: float) -> dict[str, list[Code]]:
    return {one.gang: [reason.code for reason in one.reasons] for one in pool.cycle(hour).waiting}


# ---- without planning


@pytest.mark.parametrize(
    ("hour", "starts"), [(0, True), (5.99, True), (6, False), (12, False), (19.99, False), (20, True), (24, True)]
)
def test_a_queue_starts_gangs_only_inside_its_windows(hour: float, starts: bool) -> None:
    pool = Pool(planning=None, queues={"night": NIGHT, "q": queue()})
    pool.submit("a", 2, of="night")
    pool.submit("b", 2)
    found = pool.cycle(hour)
    assert ("a" in pool.started) is starts
    assert "b" in pool.started
    if not starts:
        ((reason,),) = [one.reasons for one in found.waiting]
        assert reason.code == Code.OUTSIDE_WINDOW
        assert "queue 'night'" in reason.message
        assert "1970-01-01T20:00:00Z" in reason.message


def test_what_cannot_be_completed_says_that_first() -> None:
    pool = Pool(planning=None, queues={"q": queue(start_windows=(window(20, 6),))})
    pool.submit("a", 2)
    pool.waiting["a"] = structs.replace(pool.waiting["a"], min_member=3)
    assert codes(pool, 12) == {"a": [Code.GANG_INCOMPLETE]}


GOES_ON: Mapping[str, tuple[Gang, int]] = {
    "members are being refilled": (gang("a", "night", 2, ran=True, refilling=True), 2),
    "a member has its place": (gang("a", "night", 2, placed={"": 1}), 2),
    "it grows above its minimum": (gang("a", "night", 2, placed={"": 1}, min_member=1, refilling=False), 2),
    "it was evicted whole": (gang("a", "night", 2, ran=True), 0),
}


@pytest.mark.parametrize("case", GOES_ON)
def test_what_runs_goes_on_and_is_refilled(case: str) -> None:
    of, pods = GOES_ON[case]
    found = plan(view([node("n", gpu=8)], [of], {"night": NIGHT}), Policy(), 12 * HOUR)
    assert len(found.assignments) == pods


def test_outside_its_windows_a_queue_preempts_nothing() -> None:
    queues = {"night": queue(priority=5, start_windows=(window(20, 6),)), "q": queue()}
    low = running("low", on=["n"] * 8, gpu=1)
    full = view([node("n", gpu=8)], [gang("a", "night", 4, gpu=1)], queues, running=[low])
    policy = Policy(actions=("allocate", "preempt"))
    outside = plan(full, policy, 12 * HOUR)
    assert outside.evictions == ()
    assert [one.reasons[0].code for one in outside.waiting] == [Code.OUTSIDE_WINDOW]
    assert plan(full, policy, 20 * HOUR).evictions


@pytest.mark.parametrize("kind", [ReservationKind.VICTIMS, ReservationKind.BINDING])
def test_what_has_begun_to_start_when_the_window_ends_still_starts(kind: ReservationKind) -> None:
    of = gang("a", "night", 4)
    held = [Reservation(of.uid, "n", of.waiting[0].pod_class, kind)] * 4
    seen = view([node("n", gpu=8)], [of], {"night": NIGHT}, held)
    assert len(plan(seen, Policy(actions=("allocate", "preempt")), 6 * HOUR).assignments) == 4


def test_queues_without_windows_look_at_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("inside", "next_begin", "spans"):
        monkeypatch.setattr(engine_windows, name, None)
    pool = Pool(queues={"q": queue(ordering="Backfill")})
    pool.submit("a", 6, 10)
    pool.submit("b", 6, 10)
    pool.cycle(0)
    assert pool.planned == {"b": 10}


# ---- with planning


def test_what_waits_for_the_window_alone_waits_for_no_room() -> None:
    pool = Pool(queues={"night": NIGHT, "q": queue()})
    pool.submit("runs", 5, 9, of="q")
    pool.submit("alone", 5, 1, of="night")
    pool.submit("both", 10, 1, of="night")
    ((alone, shut), (both, _)) = [one.reasons for one in pool.cycle(12).waiting]
    assert pool.planned == {"alone": 20, "both": 21}
    assert (bool(alone.unblocks), bool(both.unblocks)) == (False, True)
    assert "the window begins" in shut.unblocks


def test_a_plan_is_made_for_the_begin_of_the_next_window() -> None:
    pool = Pool(queues={"night": NIGHT})
    pool.submit("a", 6, 10, of="night")
    assert codes(pool, 12) == {"a": [Code.PLANNED_START, Code.OUTSIDE_WINDOW]}
    assert pool.planned == {"a": 20}
    pool.cycle(20)
    assert pool.started == {"a": 20}


@pytest.mark.parametrize(
    ("ends", "starts"),
    [
        pytest.param(22, 22, id="room comes free inside a window"),
        pytest.param(13, 20, id="room comes free before one"),
        pytest.param(30, 44, id="room comes free when one ends"),
        pytest.param(29.5, 29.5, id="room comes free just before one ends"),
    ],
)
def test_a_plan_is_made_for_the_earliest_moment_inside_a_window(ends: float, starts: float) -> None:
    pool = Pool(queues={"night": NIGHT, "q": queue(ordering="Backfill")})
    pool.submit("a", 6, ends - 12)
    pool.cycle(12)
    pool.submit("b", 8, 5, of="night")
    pool.cycle(12)
    assert pool.planned == {"b": starts}


def test_days_are_those_of_the_begin() -> None:
    # From Saturday 22:00 to Sunday 02:00; the pool begins on a Thursday.
    pool = Pool(queues={"q": queue(ordering="Backfill", start_windows=(window(22, 2, 5),))})
    pool.submit("a", 1, 1)
    pool.cycle(0)
    assert pool.planned == {"a": 2 * 24 + 22}


def test_beyond_the_horizon_no_window_counts() -> None:
    pool = Pool(planning=Planning(horizon_seconds=7 * 3600), queues={"night": NIGHT})
    pool.submit("a", 1, 1, of="night")
    assert codes(pool, 12) == {"a": [Code.OUTSIDE_WINDOW]}
    assert pool.planned == {}
    pool.cycle(13)
    assert pool.planned == {"a": 20}


def test_others_leave_room_for_a_plan_in_a_window() -> None:
    pool = Pool(queues={"night": NIGHT, "q": queue(ordering="Backfill")})
    pool.submit("a", 8, 5, of="night")
    pool.cycle(12)
    pool.submit("b", 3, 9)
    pool.submit("c", 3, 8)
    pool.submit("d", 2)
    pool.cycle(12)
    assert pool.started == {"c": 12, "d": 12}
    assert pool.planned == {"a": 20, "b": 25}


def test_a_window_that_is_taken_away_takes_the_plan_along() -> None:
    queues = {"night": NIGHT}
    pool = Pool(queues=queues)
    pool.submit("a", 6, 10, of="night")
    pool.cycle(12)
    pool.change_queue("night", queue(ordering="Backfill", start_windows=(window(22, 23),)))
    pool.cycle(13)
    assert pool.planned == {"a": 22}
    pool.change_queue("night", queue(ordering="Backfill"))
    pool.cycle(14)
    assert pool.started == {"a": 14}


def test_a_plan_does_not_stand_outside_the_window_it_was_made_for() -> None:
    """Room comes free for it at no other moment, so numbers alone show that no earlier start is possible."""
    pool = Pool(queues={"night": NIGHT, "q": queue(ordering="Backfill")})
    pool.submit("a", 6, 9)
    pool.cycle(12)
    pool.submit("b", 8, 5, of="night")
    pool.cycle(12)
    assert pool.planned == {"b": 21}
    pool.change_queue("night", queue(ordering="Backfill", start_windows=(window(22, 23),)))
    pool.cycle(13)
    assert pool.planned == {"b": 22}


def test_a_plan_that_is_due_when_its_window_ends_waits_for_the_next() -> None:
    pool = Pool(queues={"night": NIGHT})
    pool.submit("a", 6, 5.99, of="night")
    pool.cycle(0)
    pool.submit("b", 6, 1, of="night")
    pool.cycle(0)
    assert pool.planned == {"b": 5.99}
    pool.cycle(6)  # job a is late, and is expected to end a moment after the window
    assert pool.planned == {"b": 20}


def test_a_strict_queue_keeps_its_order_for_the_window() -> None:
    pool = Pool(queues={"q": queue(ordering="Strict", start_windows=(window(20, 6),))})
    pool.submit("a", 6, 1)
    pool.submit("b", 6, 1)
    found = codes(pool, 12)
    assert found == {"a": [Code.PLANNED_START, Code.OUTSIDE_WINDOW], "b": [Code.OUTSIDE_WINDOW, Code.BEHIND]}
    pool.cycle(20)
    assert pool.started == {"a": 20}
