"""What is known of a node that divides its cards."""

from typing import Any

import pytest

from t9ksched.kube.write.dialects.mgpu import MgpuIndex
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model.cards import CardGrant, SharedCards
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.podclass import PodClass

CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
V100S = {CORE: "400", MEMORY: "130040", "cpu": "8"}


def facts(
    allocatable: dict[str, str],
    capacity: dict[str, str] | None = None,
    cordons: dict[int, str] | None = None,
    **labels: str,
) -> NodeFacts:
    status: dict[str, Any] = {"allocatable": allocatable} | ({"capacity": capacity} if capacity else {})
    metadata = {"name": "n", "labels": {"vke.node.gpu.schedule": "mgpu"} | labels}
    return node_facts(decode_node({"metadata": metadata, "status": status}), cordons or {})


def test_cards_of_mgpu_have_indices_and_are_given_as_named() -> None:
    found = facts(V100S)
    assert (found.mode, found.layout, found.card_mode) == ("MGPU", "MGPU", "honours-index")
    assert found.cards.counts == {CORE: 4}
    assert [size.memory for size in found.cards.divided[CORE]] == [32510] * 4
    assert found.counted == {}, "sums over cards"


def test_devices_that_are_offered_whole_besides_are_the_same_cards() -> None:
    found = facts(V100S | {"nvidia.com/gpu": "4"})
    assert "nvidia.com/gpu" not in found.allocatable
    assert found.cards.resources == (CORE,)


def test_cordoned_cards_give_no_parts() -> None:
    found = facts(V100S, cordons={1: "fan", 9: "no such card"})
    assert found.cards.withdrawn == CardGrant.of({CORE: (1,)})
    assert found.why_cordoned == {1: "fan"}
    assert found.cards.counters[f"{CORE}#01/cores"] == 0
    assert found.cards.counters[f"{CORE}#02/cores"] == 1000


@pytest.mark.parametrize(
    ("allocatable", "capacity", "cards"),
    [
        (V100S | {CORE: "300", MEMORY: "97530"}, V100S, 4),
        (V100S | {CORE: "250"}, None, 0),
        (V100S | {CORE: "40000"}, None, 0),
    ],
)
def test_a_node_whose_cards_cannot_be_told_apart_is_not_ready(
    allocatable: dict[str, str], capacity: dict[str, str] | None, cards: int
) -> None:
    found = facts(allocatable, capacity)
    assert (found.mode, found.layout) == ("NotReady", "MGPU")
    assert CORE in str(found.unready)
    assert found.cards.counts.get(CORE, 0) == cards


def test_annotations_are_read_as_before_while_a_node_is_not_ready() -> None:
    upgrade = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
    found = facts(V100S, **upgrade)
    assert found.mode == "NotReady"
    assert found.cards.counts == {CORE: 4}
    assert isinstance(dialect_of(found), MgpuIndex)


def test_mgpu_says_which_cards_in_its_own_words() -> None:
    requests = (SharedCards("a", CORE, 2, cores=300, memory=1024), SharedCards("b", CORE, 1, cores=300, memory=1024))
    dialect, pod = MgpuIndex(), PodClass(cards=requests)
    annotations = dialect.write(pod, CardGrant.of({CORE: (0, 1, 3)}))
    assert annotations == {
        "vke.volcengine.com/gpu-index-container-a": "0,1",
        "vke.volcengine.com/gpu-index-container-b": "3",
        "vke.volcengine.com/assumed": "true",
    }
    read = dialect.read(pod, annotations)
    assert read.masks == CardGrant.of({CORE: (0, 1, 3)}).masks
    assert read.given == (("a", CORE, (0, 1)), ("b", CORE, (3,)))
    assert dialect.write(pod, read) == annotations
    shared = annotations | {"vke.volcengine.com/gpu-index-container-b": "1"}
    assert dialect.write(pod, dialect.read(pod, shared)) == shared, "containers may have parts of one card"
    assert dialect.write(pod, CardGrant()) == {}
    for text in ("0", "0,0", "0,3,", "0,-1", "0,64", "", "0;3", "٣,0"):
        forged = annotations | {"vke.volcengine.com/gpu-index-container-a": text}
        assert not dialect.read(pod, forged), text
