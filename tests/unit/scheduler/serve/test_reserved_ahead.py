"""Which reservations a longer time limit of a running job takes room from."""

from dataclasses import replace
from typing import Any

import pytest

from t9ksched.model.wall_clock import moment_at, written_moment
from t9ksched.scheduler.report.observed_job import identity, observed_job
from t9ksched.scheduler.serve.reserved_ahead import reserved_ahead
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.planning import HOUR, MOST_GRACE, START_TIMEOUT, cycle, limited, runs
from tests.unit.scheduler.state.test_advance_book import known
from tests.unit.scheduler.state.test_state import GPU, NOW, node, state_with


def at(hours: float) -> str:
    return written_moment(moment_at(NOW + round(hours * HOUR)))


def reserved(begin: float, end: float, *, chosen: tuple[str, ...] = ("n1",), ended: str = "", **fields: Any) -> Any:
    """A reservation by hours from now, for the queue `theirs`, and the nodes chosen for it."""
    made = known(ended, **{"from": at(begin), "to": at(end), "for": {"queues": ["theirs"]}} | fields)
    return replace(made, record=replace(made.record, nodes=chosen))


def running(limit: str = "30m", gpus: int = 8) -> ClusterState:
    state = state_with(node("n1", 8), queues={"q": {}, "theirs": {}})
    pod = limited("runs", gpus, limit)
    state.upsert_pod(pod)
    cycle(state)
    runs(state, NOW, pod)
    return state


def found(state: ClusterState, seconds: int | None) -> list[Any]:
    (gang,) = state.gangs.values()
    view = observed_job(state, identity(gang)[0])
    assert view is not None
    return reserved_ahead(view, state, EndRules(state, START_TIMEOUT, MOST_GRACE), NOW, seconds)


TAKEN = [{"name": "r", "nodes": ["n1"], "from": at(1), "to": at(2)}]


@pytest.mark.parametrize(
    ("fields", "seconds", "expected"),
    [
        pytest.param({}, 3 * 3600, TAKEN, id="past its beginning"),
        pytest.param({}, None, TAKEN, id="no limit"),
        pytest.param({}, 3000, [], id="ends before it begins"),
        pytest.param({}, 1800, [], id="no longer than now"),
        pytest.param({"for": "maintenance", "onConflict": "Wait"}, 3 * 3600, TAKEN, id="it would wait"),
        pytest.param({"for": {"queues": ["q"]}}, 3 * 3600, [], id="its own queue's"),
        pytest.param({"onConflict": "Preempt"}, 3 * 3600, [], id="it has the job evicted"),
        pytest.param({"cards": {"resource": GPU, "count": 4}}, 3 * 3600, TAKEN, id="cards that it holds"),
    ],
)
def test_what_is_named(fields: dict[str, Any], seconds: int | None, expected: list[Any]) -> None:
    state = running()
    state.advance.take([reserved(1, 2, **fields)])
    assert found(state, seconds) == expected


def test_cards_that_it_leaves_free_are_not_taken() -> None:
    state = running(gpus=4)
    state.advance.take([reserved(1, 2, cards={"resource": GPU, "count": 4})])
    assert found(state, None) == []


def test_of_one_that_repeats_the_next_occurrence_that_it_would_reach() -> None:
    state = running("26h")
    state.advance.take([reserved(1, 2, every="daily")])
    assert found(state, 30 * 3600) == [], "it lies in that of the second day already, until its end"
    assert [one["from"] for one in found(state, 60 * 3600)] == [at(49)]


def test_longer_within_one_that_it_lies_in_already() -> None:
    state = running("90m")
    state.advance.take([reserved(1, 2, onConflict="Wait")])
    assert found(state, 6000) == TAKEN


def test_another_end_may_come_first() -> None:
    """A queue's `maxDuration` ends it before the reservation begins, whatever its own limit is."""
    state = state_with(node("n1", 8), queues={"q": {"maxDuration": "50m"}, "theirs": {}})
    pod = limited("runs", 8, "30m")
    state.upsert_pod(pod)
    cycle(state)
    pod.status.start_time = at(0)
    runs(state, NOW, pod)
    state.advance.take([reserved(1, 2)])
    assert found(state, 3 * 3600) == []
