"""What runs, is planned and reserved, as users see it: on the timeline, on nodes, among the holders of a job."""

from typing import Any

import pytest

from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.scheduler.report.planned_shape import planned_by_node
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.serve.timeline import timeline
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.planning import HOUR, MINUTE, MOST_GRACE, SECOND, START_TIMEOUT, cycle, limited
from tests.unit.scheduler.state.test_advance_book import at, known
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

AHEAD = START_TIMEOUT * SECOND + 10 * SECOND
"""What the end of a job that does not run yet has beside its limit."""


def up(moment: int) -> str | None:
    """As planned starts are shown: rounded up to the minute."""
    return timestamp(-(-moment // MINUTE) * MINUTE)


@pytest.fixture
def state() -> ClusterState:
    """Node n1: `long` for three hours and `endless`; n2: another scheduler's pod. `large` needs six cards of n1, `next`
    all of both nodes, so nothing ever frees them; `late` comes behind `large`.
    """
    found = state_with(node("n1", 8), node("n2", 4))
    found.upsert_pod(limited("long", 6, "3h"))
    found.upsert_pod(limited("endless", 2))
    found.upsert_pod(pod("foreign", 4, node="n2", ours=False, phase="Running"))
    found.upsert_pod(pod("daemon", 0, node="n2", ours=False, phase="Running"))
    cycle(found)
    found.upsert_group(group("large", 2))
    for name in ("large-0", "large-1"):
        found.upsert_pod(limited(name, 3, "1h", group="large"))
    cycle(found)
    found.upsert_pod(limited("late", 5, "2h"))
    cycle(found)
    return found


FAR = 20 * 366 * 24 * HOUR


async def drawn(state: ClusterState, ahead: int = FAR, now: int = NOW) -> list[Any]:
    found = await timeline(state, EndRules(state, START_TIMEOUT, MOST_GRACE), now, now + ahead)
    assert found["at"] == timestamp(now)
    assert found["nodes"] == [{"name": "n1", "gpus": 8}, {"name": "n2", "gpus": 4}]
    return list(found["items"])


async def test_items(state: ClusterState) -> None:
    def item(kind: str, job: str, queue: str | None, since: int, until: int, *places: Any, **more: Any) -> Any:
        nodes = [{"name": name, "pods": pods, "gpus": gpus} for name, pods, gpus in places]
        span = {"from": timestamp(since) if kind == "running" else up(since), "until": timestamp(until)}
        head = {"kind": kind, "namespace": "ns", "job": job, "queue": queue, **span, "firm": None}
        return head | {"gpus": sum(gpus for _, _, gpus in places), "nodes": nodes} | more

    ends = NOW + 3 * HOUR + AHEAD
    assert await drawn(state) == [
        item("running", "Pod/foreign", None, 0, 0, ("n2", 1, 4)),
        item("running", "Pod/endless", "q", NOW, 0, ("n1", 1, 2)),
        item("running", "Pod/long", "q", NOW, ends, ("n1", 1, 6)),
        item("planned start", "PodGroup/large", "q", ends, ends + HOUR + AHEAD, ("n1", 2, 6), firm=True),
        item(
            "planned start", "Pod/late", "q", ends + HOUR + AHEAD, ends + 3 * HOUR + 2 * AHEAD, ("n1", 1, 5), firm=True
        ),
    ]


async def test_reservations_of_other_kinds_and_what_an_earlier_group_left(state: ClusterState) -> None:
    gang = state.gangs_by_uid["pod-long"]
    place = Reservation("pod-late", "n2", gang.members["pod-long"].pod_class, ReservationKind.BINDING, until=NOW + HOUR)  # type: ignore[arg-type]
    state.reservations.refused["x"] = place
    state.reservations.refused["y"] = Reservation("gone", "n2", place.pod_class, ReservationKind.BINDING)
    kinds = [(one["kind"], one["job"], one["gpus"]) for one in await drawn(state) if one["kind"] == "binding"]
    assert kinds == [("binding", "Pod/late", 6)], "one whose owner is gone is no job's"


async def test_what_is_planned_on_a_node(state: ClusterState) -> None:
    found = await planned_by_node(state)
    assert list(found) == ["n1"]
    assert [(one["job"], one["pods"], one["gpus"], one["firm"], one["queue"]) for one in found["n1"]] == [
        ("PodGroup/large", 2, 6, True, "q"),
        ("Pod/late", 1, 5, True, "q"),
    ]
    ends = NOW + 3 * HOUR + AHEAD
    assert [(one["at"], one["until"]) for one in found["n1"]] == [
        (up(ends), timestamp(ends + HOUR + AHEAD)),
        (up(ends + HOUR + AHEAD), timestamp(ends + 3 * HOUR + 2 * AHEAD)),
    ]


async def holders(index: JobIndex, state: ClusterState, kind: str, name: str) -> list[tuple[str, int, str | None]]:
    view = await index.find("ns", kind, name)
    assert view is not None
    return [(one["job"], one["gpus"], one["from"]) for one in (await explanation(view, state))["holders"]]


async def test_a_job_is_told_who_starts_before_it(state: ClusterState) -> None:
    index = JobIndex(state)
    running = [("ns/Pod/long", 6, None), ("ns/Pod/foreign", 4, None), ("ns/Pod/endless", 2, None)]
    at = up(NOW + 3 * HOUR + AHEAD)
    assert await holders(index, state, "podgroup", "large") == running
    assert await holders(index, state, "pod", "late") == [*running, ("ns/PodGroup/large", 6, at)]
    # One that has no plan, because it ends never, leaves room to all.
    state.remove_pod("pod-long")
    state.upsert_pod(limited("new", 8))
    cycle(state)
    assert ("ns/Pod/late", 5) in [
        (job, gpus) for job, gpus, since in await holders(index, state, "pod", "new") if since
    ]


@pytest.mark.parametrize(("cards", "gpus"), [(None, 12), ({"resource": "nvidia.com/gpu", "count": 1}, 2)])
async def test_what_administrators_reserved(state: ClusterState, cards: Any, gpus: int) -> None:
    state.advance.take([known(cards=cards)])
    (found,) = [one for one in await drawn(state) if one["kind"] == "reservation"]
    assert (found["reservation"], found["job"], found["gpus"]) == ("r", None, gpus)
    assert (found["from"], found["until"]) == ("2030-01-07T20:00:00Z", "2030-01-07T22:00:00Z")
    assert [place["name"] for place in found["nodes"]] == ["n1", "n2"]


@pytest.mark.parametrize("planned_ahead", [HOUR, 14 * 24 * HOUR])
@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({"every": "daily"}, [7, 8, 9, 10, 11, 12, 13]),
        ({"every": "daily", "ended": "2030-01-08T20:00:00Z"}, [7, 9, 10, 11, 12, 13]),
        ({"every": "daily", "until": "2030-01-08T21:00:00Z"}, [7, 8]),
        ({"every": "weekly"}, [7]),
        ({}, [7]),
    ],
)
async def test_each_time_of_one_that_repeats_is_there(
    state: ClusterState, fields: dict[str, str], begins: list[int], planned_ahead: int
) -> None:
    state.advance.take([known(**fields)])
    state.advance.look_ahead(planned_ahead)  # starts may be planned for less time than is looked at
    now, week = at("2030-01-07T19:00:00Z"), 7 * 24 * HOUR
    found = [one for one in await drawn(state, week, now) if one["kind"] == "reservation"]
    assert [one["from"] for one in found] == [f"2030-01-{day:02}T20:00:00Z" for day in begins]
    assert len([one for one in await drawn(state, HOUR // 2, now) if one["kind"] == "reservation"]) == 0


async def test_a_tentative_start_is_drawn_and_holds_nothing(state: ClusterState) -> None:
    gang = state.pods["pod-late"].gang
    assert gang is not None
    ends, room = NOW + 5 * HOUR + SECOND, (("n1", 1, 5),)
    state.forecasts.now = NOW
    state.forecasts.walk_found({}, {gang.uid: (NOW, ends), "gone": (NOW, NOW)}, NOW, {gang.uid: room})
    planned = [one for one in await drawn(state) if one["job"] == "Pod/late"]
    assert [one["firm"] for one in planned] == [True], "it has a firm plan"
    state.reservations.planned.pop(gang.uid)
    (found,) = [one for one in await drawn(state) if one["job"] == "Pod/late"]
    assert (found["kind"], found["firm"], found["from"]) == ("planned start", False, up(ends))
    assert (found["gpus"], found["nodes"]) == (5, [{"name": "n1", "pods": 1, "gpus": 5}])
    assert found["until"] is not None, "it has a limit"
    assert "Pod/late" not in {one["job"] for one in (await planned_by_node(state))["n1"]}, "nodes promise firm room"
    gang.reasons = ()
    assert [one for one in await drawn(state) if one["job"] == "Pod/late"] == [], "it does not wait"
