"""Admission on one node, checked by the auditor, which shares no code with it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.devcluster.audit.auditor import audit
from t9ksched.devcluster.nodes.nodefile import parse_nodes
from t9ksched.devcluster.nodes.noderoom import NodeRoom, PodRefused
from tests.unit.devcluster.world import ASKED, GPU, container, pod

Object = dict[str, Any]


def node(mode: str = "honours-index") -> Object:
    (made,) = parse_nodes(
        f"nodes: [{{name: 'n', cardMode: {mode}, allocatable: {{cpu: 8, memory: 32Gi, pods: 6, nvidia.com/gpu: 4}}}}]"
    )
    return made


def bound(number: int, gpu: int, cpu: int, cards: list[int] | None, init: int) -> Object:
    made = pod(f"p{number}", gpu=gpu, cpu=str(cpu), node="n")
    made["metadata"]["uid"] = f"uid-{number}"
    made["status"] = {"phase": "Running"}
    if init:
        made["spec"]["initContainers"] = [container("setup", gpu=init)]
    if cards is not None:
        made["metadata"]["annotations"] = {ASKED + "main": ",".join(map(str, cards))}
    return made


pods = st.builds(
    lambda gpu, cpu, cards, init: (gpu, cpu, cards, init),
    st.integers(0, 4),
    st.integers(0, 5),
    st.none() | st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True),
    st.sampled_from([0, 0, 0, 1, 3]),
)
steps = st.lists(st.tuples(pods, st.booleans()), max_size=12)


@given(steps, st.sampled_from(["honours-index", "plugin-chooses"]))
def test_the_auditor_agrees_with_every_admission(history: list[Any], mode: str) -> None:
    obj = node(mode)
    room = NodeRoom(obj)
    present: list[Object] = []
    for number, ((gpu, cpu, cards, init), leave) in enumerate(history):
        new = bound(number, gpu, cpu, cards, init)
        try:
            record = room.admit(new)
        except PodRefused:
            continue
        new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), **record}
        present.append(new)
        report = audit([obj], present)
        # a pod without GPUs that carries indices is admitted, as nothing is given; the auditor minds the annotation
        assert {finding.kind for finding in report.findings} <= ({"CardCountMismatch"} if not gpu else set()), str(
            report
        )
        if not gpu and cards is not None and mode == "honours-index":
            present.remove(new)
            room.release(new["metadata"]["uid"])
        elif leave:
            room.release(present.pop(0)["metadata"]["uid"])
    for left in present:
        room.release(left["metadata"]["uid"])
    assert not any(room.used.values())
    assert not any(rack.holders or rack.promised for rack in room.racks.values())


@given(steps)
def test_what_is_refused_for_room_would_have_been_a_finding(history: list[Any]) -> None:
    obj = node()
    room = NodeRoom(obj)
    present: list[Object] = []
    for number, ((gpu, cpu, cards, _), _) in enumerate(history):
        new = bound(number, gpu, cpu, cards if cards and len(cards) == gpu else None, 0)
        try:
            new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), **room.admit(new)}
            present.append(new)
        except PodRefused:
            assert not audit([obj], [*present, new]).ok


@given(st.lists(pods, max_size=8))
def test_a_new_room_on_the_same_pods_knows_the_same(history: list[Any]) -> None:
    obj = node()
    room, later = NodeRoom(obj), NodeRoom(obj)
    for number, (gpu, cpu, cards, init) in enumerate(history):
        new = bound(number, gpu, cpu, cards, init)
        try:
            new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), **room.admit(new)}
        except PodRefused:
            continue
        later.restore(new)
    assert later.used == room.used
    assert {name: rack.holders for name, rack in later.racks.items()} == {
        name: rack.holders for name, rack in room.racks.items()
    }


def test_a_promise_keeps_cards_from_foreign_pods_until_it_is_gone() -> None:
    room = NodeRoom(node())
    promised = bound(0, 2, 1, [2, 3], 0)
    room.promise(promised)
    assert set(room.admit(bound(1, 2, 1, None, 0)).values()) == {"0,1"}
    with pytest.raises(PodRefused, match="0 of 4"):
        room.admit(bound(2, 1, 1, None, 0))
    room.release("uid-0")
    assert set(room.admit(bound(3, 1, 1, None, 0)).values()) == {"3"}


def test_an_unreadable_amount_is_refused() -> None:
    broken = bound(0, 0, 1, None, 0)
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    with pytest.raises(PodRefused, match="lots"):
        NodeRoom(node()).admit(broken)


def test_a_resource_that_the_node_does_not_list_is_not_given_and_the_pod_runs() -> None:
    """Of zero it is out. What DRA hands out is not listed, and a kubelet that finds no claim runs the pod without."""
    bare, none = node(), node()
    del bare["status"]["allocatable"][GPU]
    none["status"]["allocatable"][GPU] = "0"
    room = NodeRoom(bare)
    assert room.admit(bound(0, 2, 1, None, 0)) == {}
    assert GPU not in room.used
    with pytest.raises(PodRefused, match=r"OutOfnvidia\.com/gpu"):
        NodeRoom(none).admit(bound(0, 2, 1, None, 0))
    later = NodeRoom(bare)
    later.restore(bound(0, 2, 1, None, 0))
    assert later.used == room.used
    room.release("uid-0")
    assert not any(room.used.values())


def test_a_smaller_node_keeps_its_pods_and_takes_no_more() -> None:
    room = NodeRoom(node())
    room.admit(bound(0, 3, 1, [0, 1, 2], 0))
    smaller = node()
    smaller["status"]["allocatable"][GPU] = "2"
    room.update(smaller)
    with pytest.raises(PodRefused, match=r"OutOfnvidia\.com/gpu"):
        room.admit(bound(1, 1, 1, None, 0))
    room.release("uid-0")
    assert set(room.admit(bound(2, 1, 1, None, 0)).values()) == {"1"}
