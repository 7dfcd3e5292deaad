"""What an explanation names that stands between now and a start: reservations, start windows, plans, running jobs."""

from dataclasses import replace
from typing import Any

import pytest

from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import plan
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.objects import nanoseconds, timestamp
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.planning import HOUR, MINUTE, SECOND, limited, policy_of, view_of
from tests.unit.scheduler.state import test_advance_book
from tests.unit.scheduler.state.test_state import NOW, node, state_with

OTHERS = {"groups": ["ops"]}
RUNS = "jobs that run there end, by then at the latest"
PLANS = "jobs that are planned before it start and end, or are cancelled"


def moment(hours: float) -> str:
    return timestamp(NOW + round(hours * HOUR)) or ""


def reserved(name: str, begin: float, end: float, *nodes: str, **fields: Any) -> KnownReservation:
    """Node names of a reservation for a group of users that none of the jobs belongs to."""
    times = {"from": moment(begin), "to": moment(end), "drainAhead": "1h"}
    held = test_advance_book.known(name=name, **(times | {"for": OTHERS} | fields))
    return replace(held, record=replace(held.record, nodes=nodes))


def cycle(state: ClusterState, now: int = NOW) -> Plan:
    """A cycle that plans starts beside reservations."""
    policy, view = policy_of(), view_of(state, now)
    found = plan(replace(view, reserved=state.advance.rooms(now)), policy, now)
    for uid in dict.fromkeys(one.gang for one in found.assignments):
        state.assume(uid, [one for one in found.assignments if one.gang == uid], now)
    state.plan_starts(found.planned, MINUTE)
    for entry in found.waiting:
        gang = state.gangs_by_uid[entry.gang]
        gang.reasons, gang.position = entry.reasons, entry.position or None
    state.forecasts.now = now
    return found


async def told(state: ClusterState, name: str) -> Any:
    view = await JobIndex(state).find("ns", "pod", name)
    assert view is not None
    return await explanation(view, state)


def named(found: Any) -> list[str]:
    return [one.get("reservation") or one["job"] for one in found["holders"]]


def with_queue(**spec: Any) -> ClusterState:
    return state_with(node("n1", 8), queues={"q": {"ordering": "Backfill"} | spec, "other": {}})


async def test_reservations_before_a_planned_start_are_named_with_their_times() -> None:
    state = with_queue()
    state.upsert_pod(limited("runs", 8, "3h"))
    cycle(state)
    rooms = [reserved("for-q2", 4, 6, "n1"), reserved("works", 5, 7, "n1", **{"for": "maintenance"})]
    elsewhere, later = reserved("elsewhere", 4, 6, "n9"), reserved("later", 200, 300, "n1")
    state.advance.take([*rooms, elsewhere, later])
    state.upsert_pod(limited("waits", 8, "2h"))
    cycle(state)
    found = await told(state, "waits")
    assert found["job"]["plannedStart"]["at"] >= moment(7), "no gap is long enough"
    assert named(found) == ["ns/Pod/runs", "for-q2", "works"]
    first = {"queue": None, "job": None, "reservation": "for-q2", "nodes": 1, "gpus": 8, "holds": {}}
    assert found["holders"][1] == first | {"from": moment(4), "until": moment(6)}
    ends = [f"reservation 'for-q2' ends, at {moment(6)}", f"reservation 'works' ends, at {moment(7)}"]
    assert found["unblocks"] == [RUNS, *ends]


async def test_one_that_it_may_use_is_not_in_its_way_if_it_ends_with_it() -> None:
    state = with_queue()
    state.advance.take([reserved("mine", 0, 3, "n1", **{"for": {"queues": ["q"]}})])
    state.upsert_pod(limited("runs", 8, "1h"))
    cycle(state)
    state.upsert_pod(limited("short", 8, "30m"))
    cycle(state)
    assert named(await told(state, "short")) == ["ns/Pod/runs"]
    state.remove_pod("pod-short")
    state.upsert_pod(limited("long", 8, "4h"))
    cycle(state)
    found = await told(state, "long")
    assert found["job"]["plannedStart"]["at"] == timestamp(NOW + 3 * HOUR + 40 * SECOND), "rounded up to the minute"
    assert named(found) == ["ns/Pod/runs", "mine"]


async def test_each_time_of_one_that_repeats_until_then() -> None:
    state = with_queue()
    state.advance.take([reserved("daily", 2, 23, "n1", every="daily", until=moment(50))])
    state.upsert_pod(limited("waits", 8, "10h"))
    cycle(state)
    found = await told(state, "waits")
    assert [one["from"] for one in found["holders"]] == [moment(2), moment(26), moment(50)]
    assert found["job"]["plannedStart"]["at"] >= moment(50 + 21)
    assert RUNS not in found["unblocks"], "cards are free"


async def test_plans_before_it_are_named_and_nothing_ends_that_does_not_run() -> None:
    state = with_queue()
    state.advance.take([reserved("works", 1, 3, "n1", **{"for": "maintenance"})])
    state.upsert_pod(limited("first", 8, "2h"))
    cycle(state)
    state.upsert_pod(limited("second", 8, "2h"))
    cycle(state)
    found = await told(state, "second")
    assert named(found) == ["ns/Pod/first", "works"]
    assert found["unblocks"] == [PLANS, f"reservation 'works' ends, at {moment(3)}"]


@pytest.mark.parametrize("limit", ["1h", ""])
async def test_without_a_plan_those_that_keep_it_from_starting_now(limit: str) -> None:
    state = with_queue()
    soon, past = reserved("soon", 0.5, 3, "n1"), reserved("far", 20, 30, "n1")
    state.advance.take([soon, past])
    state.upsert_pod(limited("waits", 8, limit))
    cycle(state)
    state.reservations.planned.clear()
    assert named(await told(state, "waits")) == ["soon"]


WINDOW = {"startWindows": [{"days": ["Fri"], "from": "20:00", "to": "22:00"}]}
OPENS = nanoseconds("2023-11-17T20:00:00Z")


async def test_a_job_that_waits_for_its_window_alone_is_told_so() -> None:
    state = with_queue(**WINDOW)
    state.upsert_pod(limited("runs", 4, "1h", queue="other"))
    cycle(state)
    state.upsert_pod(limited("waits", 4, "1h"))
    cycle(state)
    found = await told(state, "waits")
    assert found["job"]["plannedStart"]["at"] == timestamp(OPENS)
    assert [one["code"] for one in found["reasons"]] == ["PlannedStart", "OutsideWindow"]
    assert found["holders"] == []
    assert found["unblocks"] == ["the window begins", "an administrator changes the start windows of queue 'q'"]
    # Where room comes free after that, jobs hold it.
    state.remove_pod("pod-waits")
    state.upsert_pod(limited("long", 4, "70h", queue="other"))
    cycle(state)
    state.upsert_pod(limited("large", 8, "1h"))
    cycle(state)
    found = await told(state, "large")
    assert timestamp(OPENS) < found["job"]["plannedStart"]["at"] < timestamp(OPENS + HOUR)
    assert set(named(found)) == {"ns/Pod/runs", "ns/Pod/long"}
    assert found["unblocks"][0] == RUNS
