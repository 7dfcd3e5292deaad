"""What is said against an edit of a reservation: only what it makes worse."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import identity, observed_job
from t9ksched.scheduler.serve.judging import ReservationJudge
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.planning import MOST_GRACE, START_TIMEOUT, cycle, limited, runs
from tests.unit.scheduler.serve.test_reserved_ahead import at, reserved
from tests.unit.scheduler.state.test_state import GPU, NOW, node, state_with

LABELS = {"pool": "a"}


def cluster() -> ClusterState:
    """Job `runs` holds node n1 for three hours, `small` one card of n2; nothing holds n3."""
    state = state_with(*(node(f"n{one}", 8, labels=LABELS) for one in (1, 2, 3)), queues={"q": {}, "theirs": {}})
    pods = [
        limited(name, gpus, limit, nodeSelector={"kubernetes.io/hostname": where})
        for name, gpus, limit, where in (("runs", 8, "3h", "n1"), ("small", 1, "3h", "n2"))
    ]
    for pod in pods:
        state.upsert_pod(pod)
    cycle(state)
    runs(state, NOW, *pods)
    return state


def stored(*nodes: str, **fields: Any) -> KnownReservation:
    """A reservation of these nodes, n1 without any, in the second hour from now."""
    return reserved(1, 2, **{"nodes": {"names": list(nodes or ["n1"])}} | fields, chosen=nodes or ("n1",))


async def judged(change: dict[str, Any], *held: KnownReservation, state: ClusterState | None = None) -> Any:
    """What the leader says of that change of the first one."""

    async def listed() -> list[Any]:
        return [one.record for one in held]

    async def head() -> int:
        return 1

    store = SimpleNamespace(changes=SimpleNamespace(head=head), reservations=SimpleNamespace(list=listed))

    def rules() -> tuple[int, int]:
        return START_TIMEOUT, MOST_GRACE

    judge = ReservationJudge(state or cluster(), cast(Any, store), cast(Any, None), rules, lambda: NOW)
    return await judge.judge(held[0].record.spec | change)


def against(answer: Any) -> list[tuple[str, list[str]]]:
    assert answer["faults"] == []
    return [(one["name"], one["nodes"]) for one in answer["conflicts"]]


RUNS = ("ns/Pod/runs", ["n1"])
SMALL = ("ns/Pod/small", ["n2"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"note": "new"}, [], id="note"),
        pytest.param({"for": {"queues": ["other"]}}, [], id="for other queues"),
        pytest.param({"for": "maintenance"}, [], id="for maintenance"),
        pytest.param({"onConflict": "Wait"}, [], id="on conflict"),
        pytest.param({"releaseUnusedAfter": "1h", "drainAhead": "1h"}, [], id="durations"),
        pytest.param({"to": at(1.5)}, [], id="ends earlier"),
        pytest.param({"from": at(1.5)}, [], id="begins later"),
        pytest.param({"every": "daily"}, [], id="repeats from now on"),
        pytest.param({"cards": {"resource": GPU, "count": 4}}, [], id="fewer cards"),
        pytest.param({"from": at(0.5)}, [RUNS], id="begins earlier"),
        pytest.param({"to": at(2.5)}, [RUNS], id="ends later"),
        pytest.param({"from": at(4), "to": at(5)}, [], id="moved to when it is free"),
        pytest.param({"nodes": {"names": ["n1", "n3"]}}, [], id="one more node, which is free"),
        pytest.param({"nodes": {"names": ["n1", "n2"]}}, [SMALL], id="one more node, which is held"),
        pytest.param({"nodes": {"names": ["n2"]}, "to": at(2.5)}, [SMALL], id="another node, and longer"),
    ],
)
@pytest.mark.parametrize("on_conflict", ["Refuse", "Preempt"])
async def test_jobs_in_the_way(change: dict[str, Any], expected: list[Any], on_conflict: str) -> None:
    """A job was in the way before: it was given a longer limit, or was to be evicted."""
    assert against(await judged({"onConflict": "Refuse"} | change, stored(onConflict=on_conflict))) == expected


async def test_more_cards_are_looked_at_anew() -> None:
    four, held = {"resource": GPU, "count": 4}, stored("n2", cards={"resource": GPU, "count": 8})
    assert against(await judged({"note": "x"}, held)) == []
    assert against(await judged({"cards": four}, held)) == []
    some = stored("n1", cards=four)
    assert against(await judged({"cards": {"resource": GPU, "count": 5}}, some)) == [RUNS]
    assert against(await judged({"cards": None}, some)) == [RUNS]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"note": "x"}, [], id="note"),
        pytest.param({"to": at(26.5)}, [("other", ["n3"])], id="longer, into it"),
        pytest.param({"every": "daily"}, [("other", ["n3"])], id="repeats, into it"),
        pytest.param({"nodes": {"names": ["n2", "n3"]}, "to": at(1.5)}, [], id="not at its time"),
    ],
)
async def test_other_reservations(change: dict[str, Any], expected: list[Any]) -> None:
    other = reserved(25.5, 27, name="other", nodes={"names": ["n3"]}, chosen=("n3",))
    found = against(await judged({"onConflict": "Wait"} | change, stored("n3"), other))
    assert found == expected


async def test_an_overlap_that_there_was_is_no_conflict_until_maintenance_is_for_jobs() -> None:
    other = reserved(1, 2, name="other", nodes={"names": ["n3"]}, chosen=("n3",))
    over = stored("n3", **{"for": "maintenance"})
    assert against(await judged({"note": "x", "to": at(3)}, over, other)) == []
    assert against(await judged({"for": {"queues": ["q"]}}, over, other)) == [("other", ["n3"])]
    twice = stored("n3")
    assert against(await judged({"note": "x"}, twice, other)) == []
    assert against(await judged({"from": at(0.5)}, twice, other)) == []
    assert [one["from"] for one in (await judged({"every": "daily"}, twice, other))["conflicts"]] == []


async def test_nodes_that_are_gone_are_in_the_way_of_no_edit() -> None:
    gone = stored("n3", "n9")
    assert against(await judged({"note": "x", "to": at(3)}, gone)) == []
    wrong = await judged({"nodes": {"names": ["n3", "n8"]}}, gone)
    assert [one["message"] for one in wrong["faults"]] == ["there is no node 'n8'"]
    selected = stored("n3", "n9", nodes={"selector": {"matchLabels": LABELS}, "count": 2})
    assert (await judged({"note": "x"}, selected))["nodes"] == ["n3", "n9"]
    four = stored("n1", "n2", "n3", "n9", nodes={"selector": {"matchLabels": LABELS}, "count": 4})
    longer = await judged({"to": at(3), "onConflict": "Wait"}, four)
    assert (longer["nodes"], longer["faults"]) == (["n1", "n2", "n3", "n9"], [])


async def test_a_note_on_one_that_is_over_or_released() -> None:
    over = reserved(-2, -1, chosen=("n1",))
    assert (await judged({"note": "x"}, over))["nodes"] == ["n1"]
    released = reserved(-1, 1, ended=at(-1), chosen=("n1",))
    assert against(await judged({"note": "x"}, released)) == []
    assert against(await judged({"to": at(1.5)}, released)) == [RUNS], "it would be open again"


async def test_a_planned_start_that_gives_way_is_told_as_the_job_tells_it() -> None:
    state = cluster()
    state.upsert_pod(limited("next", 8, "1h", nodeSelector={"kubernetes.io/hostname": "n1"}))
    cycle(state, NOW + 1)
    (gang,) = [one for one in state.gangs.values() if one.name == "next"]
    view = observed_job(state, identity(gang)[0])
    assert view is not None
    told = job_shape(view, state)["plannedStart"]["at"]
    (plan,) = (await judged({"from": at(3), "to": at(5), "onConflict": "Wait"}, stored(), state=state))["plans"]
    assert (plan["job"], plan["at"]) == ("ns/Pod/next", told)
    assert told.endswith(":00Z")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"to": at(2)}, ["ns/Pod/runs on n1", "ns/Pod/small on n2"], id="ends before them"),
        pytest.param(
            {"to": at(2), "nodes": {"names": ["n3"]}}, ["ns/Pod/runs on n1", "ns/Pod/small on n2"], id="moves"
        ),
        pytest.param({"to": at(4.5)}, [], id="ends after them"),
        pytest.param({"to": at(6)}, [], id="ends later"),
        pytest.param({"note": "x"}, [], id="note"),
        pytest.param({"from": at(1), "to": at(2)}, [], id="begins later"),
    ],
)
@pytest.mark.parametrize("every", ["", "daily"])
async def test_an_edit_names_the_jobs_inside_that_outlast_it(
    change: dict[str, Any], told: list[str], every: str
) -> None:
    """Both jobs may run for three hours, and a little longer to start and to end."""
    inside = reserved(
        -1, 5, nodes={"names": ["n1", "n2"]}, chosen=("n1", "n2"), every=every, **{"for": {"queues": ["q"]}}
    )
    warnings = (await judged(change, inside))["warnings"]
    assert [one["path"] for one in warnings] == ["to"] * len(told)
    assert [one["message"].partition(" may run beyond it, until ")[0] for one in warnings] == [
        f"job {one}" for one in told
    ]
    for one in warnings:
        until = one["message"].partition(", until ")[2].partition(": an edit does not end it")[0]
        assert at(3) <= until <= at(4.5)


async def test_jobs_that_are_not_inside_or_outlasted_it_before_are_not_named() -> None:
    both = {"nodes": {"names": ["n1", "n2"]}, "chosen": ("n1", "n2")}
    for held in (
        reserved(-1, 5, **both),
        reserved(-1, 2.5, **both, **{"for": {"queues": ["q"]}}),
        reserved(1, 5, **both, **{"for": {"queues": ["q"]}}),
        reserved(-1, 5, nodes={"names": ["n3"]}, chosen=("n3",), **{"for": {"queues": ["q"]}}),
    ):
        assert (await judged({"to": at(2)}, held))["warnings"] == []
