"""What nodes of HAMi register of their cards, and the words in which bindings name these."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.kube.write.dialects.hami import ALLOCATED, TO_ALLOCATE, VGPU_NODE, HamiDevices
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model.card_filter import CardFilter, card_filter
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart, SharedCards, WholeCards
from t9ksched.model.hami import registered
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.podclass import PodClass

GPU, REGISTER = "nvidia.com/gpu", "hami.io/node-nvidia-register"
CARDS = (CardSize(16_000, 10, 1000, "GPU-a"), CardSize(32_000, 10, 1000, "GPU-b"), CardSize(0, 0, 0))


def card(**more: Any) -> dict[str, Any]:
    return {"id": "GPU-a", "count": 10, "devmem": 16_000, "devcore": 100, "type": "NVIDIA-T4", "health": True} | more


def test_fields_that_are_zero_or_false_are_left_out() -> None:
    found = registered(json.dumps([card(), card(id="GPU-c", index=2, devcore=50, health=False)]))
    assert found.sizes == (
        CardSize(16_000, 10, 1000, "GPU-a", "NVIDIA-T4"),
        CardSize(0, 0, 0),
        CardSize(16_000, 10, 500, "GPU-c", "NVIDIA-T4"),
    )
    assert found.unhealthy == {1: "it is not registered", 2: "its device plugin says that it is not healthy"}
    assert not found.faults


def test_the_numa_node_of_a_card_is_read() -> None:
    found = registered(json.dumps([card(), card(id="GPU-b", index=1, numa=1), card(id="GPU-c", index=2, numa=-1)]))
    assert [size.numa for size in found.sizes] == [0, 1, -1]
    assert registered(json.dumps([card(numa=-2)])).faults


def test_more_than_a_card_has_is_not_given() -> None:
    (size,) = registered(json.dumps([card(devcore=300)])).sizes
    assert size.cores == 1000


@pytest.mark.parametrize("mode", ["", "hami-core", "mps", "mig", "later"])
def test_cards_in_other_modes_take_no_work(mode: str) -> None:
    assert bool(registered(json.dumps([card(mode=mode)])).unhealthy) is (mode in ("mig", "later"))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=8))
def test_whatever_is_registered_is_read_or_told(value: Any) -> None:
    for text in (json.dumps(value), str(value), json.dumps([card(), value]), json.dumps([card(index=value)])):
        found = registered(text)
        assert found.faults or found.sizes
        assert len(found.sizes) <= 64


def facts(cards: list[Any], offered: str = "20", **annotations: str) -> NodeFacts:
    metadata = {"name": "n", "annotations": {REGISTER: json.dumps(cards)} | annotations}
    return node_facts(decode_node({"metadata": metadata, "status": {"allocatable": {GPU: offered, "cpu": "8"}}}))


def test_a_node_has_the_cards_that_it_registers() -> None:
    found = facts([card(), card(id="GPU-b", index=1, health=False)], **{"hami.io/device-cordon": "GPU-a"})
    assert (found.mode, found.card_mode, found.allocatable[GPU]) == ("HAMi", "honours-index", 20)
    assert found.cards.counts == {GPU: 2}
    assert found.cards.withdrawn == CardGrant.of({GPU: (0, 1)})
    assert (found.why_cordoned, list(found.unhealthy)) == ({0: "hami.io/device-cordon"}, [1])
    assert found.counted == {}
    assert dialect_of(found) == HamiDevices("n", found.cards.divided[GPU])


def test_without_its_device_plugin_a_node_is_not_ready() -> None:
    found = facts([card()], "0")
    assert (found.mode, found.layout, found.cards.counts) == ("NotReady", "HAMi", {GPU: 1})
    assert "offers no nvidia.com/gpu now" in str(found.unready)


POD = PodClass(
    cards=(SharedCards("a", GPU, 1, cores=300, memory=3000), SharedCards("first", GPU, 1, "init", 300, 3000)),
    containers=("wait", "first", "log", "a", "last"),
)
HELD = CardGrant.of_parts([CardPart(GPU, 1, 300, 3000)], [("a", GPU, (1,)), ("first", GPU, (1,))])
NOTES = {VGPU_NODE: "n", ALLOCATED: ";GPU-b,NVIDIA,3000,30:;;GPU-b,NVIDIA,3000,30:;;"}


def test_every_container_has_its_place_in_the_text() -> None:
    dialect = HamiDevices("n", CARDS)
    assert dialect.write(POD, HELD) == NOTES
    assert dialect.write_once(POD, HELD) == {TO_ALLOCATE: NOTES[ALLOCATED]}
    assert dialect.read(POD, NOTES) == HELD
    assert not dialect.write(POD, NO_CARDS)
    assert not dialect.write(POD, CardGrant.of_parts([CardPart(GPU, 2, 300, 3000)])), "it has no UUID"


def test_whole_cards_are_all_of_them() -> None:
    pod, dialect = PodClass(cards=(WholeCards("a", GPU, 2),)), HamiDevices("n", CARDS)
    held = CardGrant.of_parts([CardPart(GPU, 0, 1000, 16_000), CardPart(GPU, 1, 1000, 32_000)])
    text = "GPU-a,NVIDIA,16000,100:GPU-b,NVIDIA,32000,100:;"
    assert dialect.write(pod, held)[ALLOCATED] == text
    assert dialect.read(pod, {VGPU_NODE: "n", ALLOCATED: text}) == held
    exclusive = text.replace("16000", "5").replace("32000", "5")
    assert dialect.read(pod, {VGPU_NODE: "n", ALLOCATED: exclusive}) == held, "nothing else fits beside all cores"


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("GPU-b,NVIDIA,9,10:GPU-a,NVIDIA,9,10:;;GPU-a,NVIDIA,1,1:;", True),
        ("GPU-a,NVIDIA,9,10:GPU-b,NVIDIA,9,10:;;GPU-a,NVIDIA,1,1:;", True),
        ("GPU-a,NVIDIA,9,10:GPU-b,NVIDIA,9,11:;;GPU-a,NVIDIA,1,1:;", False),
        ("GPU-a,NVIDIA,9,10:GPU-a,NVIDIA,9,10:;;GPU-b,NVIDIA,1,1:;", False),
        ("GPU-a,NVIDIA,1,1:;;GPU-a,NVIDIA,9,10:GPU-b,NVIDIA,9,10:;", False),
        ("GPU-a,NVIDIA,9,10:GPU-b,NVIDIA,9,10:;;GPU-a,NVIDIA,1,1:;;", False),
        ("", False),
    ],
)
def test_the_order_of_a_containers_cards_means_nothing(said: str, same: bool) -> None:
    written = "GPU-a,NVIDIA,9,10:GPU-b,NVIDIA,9,10:;;GPU-a,NVIDIA,1,1:;"
    dialect = HamiDevices("n", CARDS)
    assert dialect.agrees(ALLOCATED, said, written) is same
    assert dialect.agrees(VGPU_NODE, said, written) is (said == written), "a name has an order"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";;;;;",
        ";;;;;;",
        ";GPU-z,NVIDIA,3000,30:;;GPU-b,NVIDIA,3000,30:;;",
        ";GPU-b,NVIDIA,3000:;;;;",
        ";GPU-b,NVIDIA,-3000,30:;;;;",
        ";GPU-b,NVIDIA,3000,99999999999:;;;;",
        ";GPU-b,NVIDIA,٣,30:;;;;",
        "GPU-b,NVIDIA,3000,30:;",
        "x" * 100_000,
    ],
)
def test_a_text_that_means_nothing_names_no_card(text: str) -> None:
    assert HamiDevices("n", CARDS).read(POD, {VGPU_NODE: "n", ALLOCATED: text}) == NO_CARDS


def test_a_text_for_another_node_names_no_card() -> None:
    assert HamiDevices("m", CARDS).read(POD, NOTES) == NO_CARDS


def test_what_a_pod_has_is_the_most_that_it_has_at_one_time() -> None:
    """HAMi may give an init container another card than the others, and more of one."""
    text = ";GPU-a,NVIDIA,9000,90:GPU-b,NVIDIA,5000,10:;;GPU-b,NVIDIA,3000,30:;;"
    found = HamiDevices("n", CARDS).read(POD, {VGPU_NODE: "n", ALLOCATED: text})
    assert found.parts == (CardPart(GPU, 0, 900, 9000), CardPart(GPU, 1, 300, 5000))


@pytest.mark.parametrize(
    ("annotations", "model", "uuid", "allowed"),
    [
        ({"use-gputype": "a100, V100"}, "NVIDIA-Tesla V100", "", True),
        ({"use-gputype": "a100"}, "NVIDIA-Tesla V100", "", False),
        ({"use-gputype": "a100"}, "", "", False),
        ({"nouse-gputype": "v100"}, "NVIDIA-Tesla V100", "", False),
        ({"nouse-gputype": "v100"}, "", "", True),
        ({"use-gpuuuid": "GPU-a,GPU-b"}, "", "GPU-b", True),
        ({"use-gpuuuid": "GPU-a"}, "", "GPU-aa", False),
        ({"nouse-gpuuuid": "GPU-a"}, "", "GPU-a", False),
        ({"use-gpuuuid": "GPU-a", "nouse-gputype": "T4"}, "NVIDIA-T4", "GPU-a", False),
    ],
)
def test_which_cards_will_do(annotations: dict[str, str], model: str, uuid: str, allowed: bool) -> None:
    found = card_filter({f"nvidia.com/{key}": text for key, text in annotations.items()})
    assert found is not None
    assert found.allows(model, uuid) is allowed


def test_empty_texts_say_nothing() -> None:
    assert card_filter({"nvidia.com/use-gputype": " , ", "nvidia.com/nouse-gpuuuid": ""}) is None
    assert CardFilter().allows("", "")
