"""What is in the way of a reservation, and which nodes it gets."""

from typing import Any

import pytest

from t9ksched.model.advance_reservation import AdvanceReservation
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.scheduler.state.advance_conflicts import blockers, choose, lacks, taken, unless_evicted
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import GPU, NOW, decide, node, pod, state_with

TIMES = {"from": "2030-01-07T20:00:00Z", "to": "2030-01-07T22:00:00Z"}
QUEUES = {"q": {}, "safe": {"preemptible": False}, "mine": {}}


def asked(**fields: Any) -> AdvanceReservation:
    raw = {"name": "r", "nodes": {"names": ["n1"]}, "for": {"queues": ["mine"]}} | TIMES | fields
    return parse_reservation(raw)


def on(node_name: str, name: str, gpus: int = 1, queue: str = "q", **spec: Any) -> Any:
    """A pod that gets its place on this node."""
    return pod(name, gpus, queue=queue, nodeSelector={"kubernetes.io/hostname": node_name}, **spec)


def cluster(*pods: Any, nodes: int = 1) -> ClusterState:
    state = state_with(*(node(f"n{at + 1}") for at in range(nodes)), queues=QUEUES)
    for one in pods:
        state.upsert_pod(one)
    decide(state)
    return state


def short(state: ClusterState, **fields: Any) -> dict[str, int] | None:
    return lacks(state, asked(**fields), "n1", lambda pod, gang: False)


def half(count: int = 4) -> dict[str, Any]:
    return {"cards": {"resource": GPU, "count": count}}


def cpus(cpu: int) -> list[Any]:
    return [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]


def test_a_whole_node_is_free_or_not() -> None:
    assert short(cluster()) == {}
    assert short(cluster(on("n1", "mine", queue="mine"))) == {}
    assert short(cluster(pod("daemon", ours=False, node="n1"))) == {}, "pods of other schedulers are not in its way"
    assert short(cluster(on("n1", "a"))) is None


@pytest.mark.parametrize(
    ("pods", "lacking"),
    [
        pytest.param([on("n1", "a", 4)], {}, id="the other half"),
        pytest.param([on("n1", "a", 6)], {GPU: 2}, id="too many cards"),
        pytest.param([on("n1", "a", 6), on("n1", "m", 1, "mine")], {GPU: 2}, id="its own jobs are inside"),
        pytest.param([on("n1", "a", 0, containers=cpus(40))], {"cpu": 8000}, id="the CPU that goes with them"),
        pytest.param(
            [pod("daemon", 0, ours=False, node="n1", containers=cpus(40))],
            {},
            id="what others leave of the CPU is enough",
        ),
    ],
)
def test_of_a_part_so_much_is_lacking(pods: list[Any], lacking: dict[str, int]) -> None:
    state = cluster(*pods)
    assert short(state, **half()) == lacking
    of = asked().current(NOW)
    assert of is not None
    holders = [one.gang.name for one in blockers(state, asked(**half()), ["n1"], of, lambda gang: None)]
    assert holders == (["a"] if lacking else [])
    assert blockers(state, asked(**half()), ["n1"], of, lambda gang: of.begin) == [], "it will have ended"


@pytest.mark.parametrize(
    ("fields", "in_the_way"),
    [
        ({"onConflict": "Refuse"}, ["a", "b"]),
        ({"onConflict": "Preempt"}, ["b"]),
        ({"onConflict": "Preempt", "force": True}, []),
    ],
)
def test_who_is_evicted_is_not_in_the_way(fields: dict[str, Any], in_the_way: list[str]) -> None:
    state = cluster(on("n1", "a"), on("n1", "b", queue="safe"))
    one = asked(**fields)
    of = one.current(NOW)
    assert of is not None
    found = blockers(state, one, ["n1"], of, unless_evicted(state, one, lambda gang: None))
    assert [each.gang.name for each in found] == in_the_way


def test_nodes_are_chosen_where_fewest_are_in_the_way() -> None:
    state = cluster(on("n1", "a", queue="safe"), on("n2", "b"), nodes=3)
    for count, nodes in ((1, ["n3"]), (2, ["n2", "n3"])):
        wanted = asked(nodes={"selector": {}, "count": count}, onConflict="Preempt")
        assert choose(state, wanted, (), (), NOW, lambda gang: None) == (nodes, [])
    assert taken(state, asked(**half()), ["n1", "n2"]) == {GPU: 8, "cpu": 64_000, "memory": 256 * 2**30}
