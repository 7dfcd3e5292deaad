"""What nodes of Koordinator have, what pods ask of them, and the words of bindings."""

import json
from typing import Any

import pytest

from t9ksched.kube.write.dialects.koordinator import ALLOCATED, DeviceAllocated
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model.card_inventory import inventory
from t9ksched.model.card_size import CardSize
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart, SharedCards
from t9ksched.model.hami import Registered
from t9ksched.model.koordinator import DeviceReport, reported
from t9ksched.model.node import decode_node, node_facts
from t9ksched.model.pod import Metadata
from t9ksched.model.podclass import PodClass

CORE, MEMORY, RATIO = (f"koordinator.sh/gpu-{name}" for name in ("core", "memory", "memory-ratio"))
OFFERED = {CORE: "300", MEMORY: "240Gi", RATIO: "300", "nvidia.com/gpu": "3"}
SIZES = tuple(CardSize(81_920, 100, uuid=f"GPU-{at}", minor=at) for at in range(2))
POD = PodClass(cards=(SharedCards("main", CORE, 2, cores=500, memory=1000),))


def device(minor: Any, **more: Any) -> dict[str, Any]:
    resources = {CORE: 100, MEMORY: "80Gi", RATIO: 100}
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": resources, **more}


def report(devices: Any, **labels: str) -> Registered:
    return reported(DeviceReport(Metadata(name="n", labels=labels), {"devices": devices}))


def test_cards_are_at_their_minors() -> None:
    found = report([device(3), {"type": "rdma", "minor": 3}, device(1, health=False)])
    assert [size.minor for size in found.sizes] == [-1, 1, -1, 3]
    assert [size.memory for size in found.sizes] == [0, 81_920, 0, 81_920]
    assert found.unhealthy == {
        0: "it is not reported",
        1: "Koordinator says that it is not healthy",
        2: "it is not reported",
    }
    assert not found.faults


def test_each_card_may_be_of_a_model_of_its_own() -> None:
    label = "node.koordinator.sh/gpu-model"
    found = report([device(0), device(1, labels={label: "H100"})], **{label: "A100"})
    assert [size.model for size in found.sizes] == ["A100", "H100"]


@pytest.mark.parametrize("spec", [None, [], {}, {"devices": None}, {"devices": []}])
def test_a_report_without_cards_says_nothing(spec: Any) -> None:
    assert reported(DeviceReport(Metadata(name="n"), spec)) == Registered()


@pytest.mark.parametrize("devices", [{}, "x", 5, [device(at) for at in range(1025)]])
def test_a_report_that_is_no_list_of_devices_is_a_fault(devices: Any) -> None:
    found = report(devices)
    assert not found.sizes
    assert found.faults
    node = inventory("Koordinator", {}, {CORE: 100}, own=found)
    assert (node.divided, node.unread) == ({}, (node.fault,))
    assert found.faults[0] in node.fault
    assert node.fault.startswith("its Device (scheduling.koordinator.sh) cannot be read: spec.devices")


def test_many_faults_are_not_all_told() -> None:
    found = report([device(0), *(device(-1) for _ in range(50))])
    assert len(found.sizes) == 1
    assert len(found.faults) == 9
    assert found.faults[-1] == "and 42 more"


@pytest.mark.parametrize(
    ("allocatable", "own", "divided", "said"),
    [
        ({}, None, False, ""),
        ({CORE: 100}, None, False, "no Device (scheduling.koordinator.sh) of its name"),
        ({RATIO: 100}, Registered(), False, "no Device (scheduling.koordinator.sh) of its name"),
        ({CORE: 100}, Registered(SIZES), True, ""),
        ({}, Registered(SIZES), True, "it offers no koordinator.sh/gpu-core now"),
    ],
)
def test_a_node_gives_what_is_reported_and_offered(allocatable: Any, own: Any, divided: bool, said: str) -> None:
    found = inventory("Koordinator", {}, allocatable, own=own)
    assert bool(found.divided) == divided
    assert said in found.fault
    assert bool(said) == bool(found.fault)


def test_a_node_of_koordinator_divides_its_cards() -> None:
    node = decode_node({"metadata": {"name": "n"}, "status": {"allocatable": OFFERED}})
    found = node_facts(node, reported=Registered(SIZES))
    assert (found.mode, found.cards.counts, found.counted) == ("Koordinator", {CORE: 2}, {})
    assert "nvidia.com/gpu" not in found.allocatable, "they are the same cards"
    assert len(found.card_layout.divided[0][1]) == 1, "minors and UUIDs are no kinds of cards"
    assert dialect_of(found) == DeviceAllocated(SIZES)
    assert node_facts(node).mode == "NotReady"


def test_a_binding_names_minors_wherever_their_cards_stand() -> None:
    dialect = DeviceAllocated(tuple(reversed(SIZES)))
    held = CardGrant.of_parts([CardPart(CORE, 1, 500, 1000)])
    notes = dialect.write(POD, held)
    resources = {CORE: "50", MEMORY: "1000Mi", RATIO: "1"}
    assert json.loads(notes[ALLOCATED]) == {"gpu": [{"minor": 0, "resources": resources}]}
    assert dialect.read(POD, notes) == held
    both = CardGrant.of_parts([CardPart(CORE, at, 500, 1000) for at in range(2)])
    assert [one["minor"] for one in json.loads(dialect.write(POD, both)[ALLOCATED])["gpu"]] == [0, 1]
    assert dialect.read(POD, dialect.write(POD, both)) == both
    assert dialect.write(POD, NO_CARDS) == {}
    assert dialect.write(POD, CardGrant.of_parts([CardPart(CORE, 7, 500, 1000)])) == {}
    assert DeviceAllocated((CardSize(0, 0, 0),)).write(POD, CardGrant.of_parts([CardPart(CORE, 0, 0, 0)])) == {}


@pytest.mark.parametrize(
    ("resources", "cores", "memory"),
    [
        ({CORE: 100, RATIO: 100}, 1000, 81_920),
        ({CORE: "50", MEMORY: "8Gi", RATIO: "50"}, 500, 8192),
        ({RATIO: "50"}, 0, 40_960),
        ({MEMORY: 8_589_934_592}, 0, 8192),
        ({CORE: 100, RATIO: 50}, 1000, 40_960),
    ],
)
def test_what_koordinators_scheduler_writes_is_read(resources: Any, cores: int, memory: int) -> None:
    text = json.dumps({"gpu": [{"minor": 1, "id": "x", "resources": resources}], "rdma": [{"minor": 0}]})
    read = DeviceAllocated(SIZES).read(POD, {ALLOCATED: text})
    assert read == CardGrant.of_parts([CardPart(CORE, 1, cores, memory)])


def said(minor: Any, **resources: Any) -> dict[str, Any]:
    return {"minor": minor, "resources": {f"koordinator.sh/gpu-{name}": value for name, value in resources.items()}}


@pytest.mark.parametrize(
    "gpu",
    [
        None,
        [],
        [5],
        [said(2, memory="1Gi")],
        [said(-1, memory="1Gi")],
        [said("0", memory="1Gi")],
        [said(0)],
        [said(0, core="50")],
        [said(0, core="-1", memory="1Gi")],
        [said(0, core="101", memory="1Gi")],
        [said(0, memory="-1Gi")],
        [said(0, memory="81Gi")],
        [said(0, memory="9" * 40)],
        [said(0, memory="much")],
        [said(0, memory=[1])],
        [{"minor": 0}],
        [said(0, memory="1Gi"), said(0, memory="1Gi")],
        [said(0, memory="1Gi"), said(9, memory="1Gi")],
    ],
)
def test_annotations_that_mean_nothing_name_no_card(gpu: Any) -> None:
    assert DeviceAllocated(SIZES).read(POD, {ALLOCATED: json.dumps({"gpu": gpu})}) == NO_CARDS


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"gpu": {}}', "\ud800", " " * 70_000 + "{}"])
def test_texts_that_are_no_object_name_no_card(text: str) -> None:
    assert DeviceAllocated(SIZES).read(POD, {ALLOCATED: text}) == NO_CARDS
