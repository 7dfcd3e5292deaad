"""Pods of other schedulers on nodes that divide cards: what they have is read, and a node gives nothing until it is."""

import json
from typing import Any

import pytest

from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import CREATED, decide, state_with
from tests.unit.scheduler.state.test_state import pod as whole

CORE, MEMORY, INDEX = (
    f"vke.volcengine.com/{name}" for name in ("mgpu-core", "mgpu-memory", "gpu-index-container-main")
)
PARTS = f"{CORE}#00/cores"


def undivided() -> Any:
    """The same node with two whole cards."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "2"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    annotations = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX}
    return decode_node({"metadata": {"name": "n1", "uid": "n1", "annotations": annotations}, "status": status})


def divided(cards: int = 2, *, offered: bool = True) -> Any:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", CORE: str(100 * cards), MEMORY: str(1000 * cards)}
    allocatable = amounts if offered else amounts | {CORE: "0", MEMORY: "0"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": allocatable, "capacity": amounts, "conditions": ready}
    meta = {"name": "n1", "uid": "n1", "labels": {"vke.node.gpu.schedule": "mgpu"}}
    return decode_node({"metadata": meta, "spec": {}, "status": status})


def of_hami() -> Any:
    """The same node, under HAMi."""
    one = {"count": 10, "devmem": 16000, "devcore": 100, "type": "NVIDIA-Tesla T4", "mode": "hami-core", "health": True}
    register = json.dumps([one | {"id": f"GPU-{index}", "index": index} for index in range(2)])
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "20"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    annotations = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX, "hami.io/node-nvidia-register": register}
    return decode_node({"metadata": {"name": "n1", "uid": "n1", "annotations": annotations}, "status": status})


def part_of_hami(name: str, memory: int) -> Any:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    meta = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": CREATED}
    meta |= {"labels": {names.QUEUE_LABEL: "q"}}  # type: ignore[dict-item]
    containers = [{"name": "main", "resources": {"limits": limits, "requests": limits}}]
    return decode_pod({"metadata": meta, "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": containers}})


def pod(name: str, core: int, memory: int, *, foreign: bool = False, phase: str = "Pending", cards: str = "") -> Any:
    limits = {CORE: str(core)} | ({MEMORY: str(memory)} if memory else {})
    meta = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": CREATED}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}
    if foreign:
        spec |= {"nodeName": "n1", "schedulerName": "volcano"}  # type: ignore[dict-item]
    else:
        spec |= {"schedulerName": names.SCHEDULER_NAME}  # type: ignore[dict-item]
        meta |= {"labels": {names.QUEUE_LABEL: "q"}}  # type: ignore[dict-item]
    meta |= {"annotations": {INDEX: cards} if cards else {}}  # type: ignore[dict-item]
    return decode_pod({"metadata": meta, "spec": spec, "status": {"phase": phase}})


def placed(state: ClusterState) -> dict[str, tuple[int, ...]]:
    return {one.pod: one.grant.indices(CORE) for one in decide(state)}


def test_a_node_gives_no_part_while_those_of_a_foreign_pod_are_unknown() -> None:
    state = state_with(divided())
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, phase="Running"))
    state.upsert_pod(pod("ours", 60, 300))
    assert placed(state) == {}
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards="0", phase="Running"))
    assert state.nodes.used("n1")[PARTS] == 600
    assert placed(state) == {"ours": (1,)}


def test_a_node_gives_parts_again_once_the_pod_is_gone() -> None:
    state = state_with(divided())
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, phase="Running"))
    state.upsert_pod(pod("ours", 60, 300))
    assert placed(state) == {}
    state.remove_pod("theirs")
    assert placed(state) == {"ours": (0,)}


def test_what_is_written_into_a_running_foreign_pod_moves_nothing() -> None:
    state = state_with(divided())
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards="1"))
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards="1", phase="Running"))
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards="0", phase="Running"))
    assert state.charges.get("theirs").cards.indices(CORE) == (1,)  # type: ignore[union-attr]


def test_cards_that_the_node_does_not_have_are_unknown() -> None:
    for forged in ("2", "0,1", "x", ""):
        state = state_with(divided())
        state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards=forged, phase="Running"))
        state.upsert_pod(pod("ours", 60, 300))
        assert placed(state) == {}, forged


def test_a_foreign_pod_whose_request_means_nothing_keeps_the_node_from_giving_parts() -> None:
    """Its amounts are charged, and on which cards it is cannot be known."""
    state = state_with(divided())
    state.upsert_pod(pod("theirs", 60, 0, foreign=True, cards="0", phase="Running"))
    state.upsert_pod(pod("ours", 30, 300))
    assert placed(state) == {}
    assert state.nodes.used("n1")[CORE] == 60


def test_foreign_pods_that_come_before_their_node_are_read_when_it_is_there() -> None:
    state = ClusterState()
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards="0", phase="Running"))
    state.upsert_node(divided())
    facts = state.node_objects["n1"][1]
    assert facts.unsure, "the annotation is read with the next event of the pod"
    assert facts.why_unsure == "it is not on record which of its cards a pod there holds"
    state.upsert_pod(pod("theirs", 60, 300, foreign=True, cards="0", phase="Running"))
    facts = state.node_objects["n1"][1]
    assert (facts.unsure, facts.why_unsure) == (False, "")


@pytest.mark.parametrize("ours", [True, False])
def test_cards_that_were_given_whole_before_a_node_divided_them_may_be_any(ours: bool) -> None:
    state = state_with(undivided())
    state.upsert_pod(
        whole("before", 1, queue="q") if ours else whole("before", 1, node="n1", ours=False, cards="0", phase="Running")
    )
    decide(state)
    if ours:
        state.upsert_pod(whole("before", 1, queue="q", node="n1", cards="0"))
    assert not state.node_objects["n1"][1].unsure
    state.upsert_node(divided())
    state.upsert_pod(pod("part", 60, 300))
    assert placed(state) == {}
    state.remove_pod("pod-before")
    assert placed(state) == {"part": (0,)}


@pytest.mark.parametrize("bound", [True, False])
def test_a_card_that_was_given_whole_is_whole_when_its_node_divides_its_cards(bound: bool) -> None:
    """HAMi keeps indices and the resource: the pod has all of its card, and others get parts of the other one."""
    state = state_with(undivided())
    state.upsert_pod(whole("before", 1, queue="q"))
    assert [one.grant.indices("nvidia.com/gpu") for one in decide(state)] == [(0,)]
    if bound:
        state.upsert_pod(whole("before", 1, queue="q", node="n1", cards="0", phase="Running"))
    state.upsert_node(of_hami())
    assert not state.node_objects["n1"][1].unsure
    for name in "abcd":
        state.upsert_pod(part_of_hami(name, 5000))
    found = {one.pod: one.grant.indices("nvidia.com/gpu") for one in decide(state)}
    assert found == dict.fromkeys("abc", (1,))
    state.remove_pod("pod-before")
    assert [one.grant.indices("nvidia.com/gpu") for one in decide(state)] == [(0,)]
    assert all(amount >= 0 for amount in state.nodes.used("n1").values())


def test_divided_cards_that_were_given_before_a_node_gave_whole_ones_may_be_any() -> None:
    state = state_with(divided())
    state.upsert_pod(pod("before", 100, 0))
    assert placed(state) == {"before": (0,)}
    state.upsert_node(undivided())
    state.upsert_pod(whole("after", 1, queue="q"))
    assert decide(state) == []
    state.remove_pod("before")
    assert [one.pod for one in decide(state)] == ["pod-after"]


def test_while_a_node_offers_nothing_its_pods_keep_their_parts() -> None:
    state = state_with(divided())
    state.upsert_pod(pod("before", 60, 300))
    assert placed(state) == {"before": (0,)}
    state.upsert_node(divided(offered=False))
    facts = state.node_objects["n1"][1]
    assert (facts.mode, facts.unsure) == ("NotReady", False)
    state.upsert_pod(pod("after", 60, 300))
    assert placed(state) == {}
    state.upsert_node(divided())
    assert placed(state) == {"after": (1,)}


def test_a_pod_that_its_creator_put_on_a_node_blocks_nothing_until_it_runs() -> None:
    """Without annotations the device plugin starts none of its containers."""
    state = state_with(divided())
    state.upsert_pod(pod("theirs", 1, 256, foreign=True))
    state.upsert_pod(pod("ours", 60, 300))
    assert placed(state) == {"ours": (0,)}
    state.upsert_pod(pod("theirs", 1, 256, foreign=True, phase="Running"))
    assert state.node_objects["n1"][1].unsure
    state.upsert_pod(pod("theirs", 1, 256, foreign=True, phase="Succeeded"))
    assert not state.node_objects["n1"][1].unsure
