"""Labels that choose the system which hands out the cards of a node, and labels that cannot be read."""

from typing import Any

import pytest

from t9ksched.model.card_systems import misread
from t9ksched.model.node import NodeFacts, decode_node, node_facts

GPU, ALI, MEMORY, COUNT = "nvidia.com/gpu", "aliyun.com/gpu", "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
CORE, MGPU = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
ACK, VKE = "ack.node.gpu.schedule", "vke.node.gpu.schedule"
SHARES, PARTS = {MEMORY: 60, COUNT: 4}, {CORE: 400, MGPU: 130040}


def facts(labels: dict[str, str], has: dict[str, int]) -> NodeFacts:
    amounts = {name: str(amount) for name, amount in has.items()}
    return node_facts(decode_node({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": amounts}}))


@pytest.mark.parametrize(
    ("labels", "has", "mode", "cards", "told"),
    [
        ({ACK: "share"}, SHARES | {GPU: 4}, "GPUShare", {MEMORY: 4}, ""),
        ({ACK: "cgpu"}, SHARES, "GPUShare", {MEMORY: 4}, ""),
        ({}, SHARES, "GPUShare", {MEMORY: 4}, ""),
        ({ACK: ""}, SHARES, "GPUShare", {MEMORY: 4}, ""),
        ({ACK: "topology"}, {ALI: 4}, "Whole", {ALI: 4}, ""),
        ({ACK: "topology"}, SHARES | {ALI: 4, GPU: 4}, "Whole", {ALI: 4}, f"=topology, and it offers 60 of {MEMORY}"),
        ({ACK: "topology"}, SHARES, "NotReady", {}, f"{ACK} is topology, and it offers 60 of {MEMORY}"),
        ({ACK: "default"}, {GPU: 4}, "Whole", {GPU: 4}, ""),
        ({ACK: "default"}, SHARES | {ALI: 4, GPU: 4}, "Whole", {GPU: 4}, f"{ACK} is default, and it offers 4 of {ALI}"),
        ({ACK: "default", "cgpu": "true"}, {GPU: 4}, "Whole", {GPU: 4}, ""),
        ({"cgpu": "true"}, SHARES, "GPUShare", {MEMORY: 4}, ""),
        (
            {ACK: "bogus"},
            SHARES,
            "NotReady",
            {},
            f"{ACK} is 'bogus', none of share, cgpu, core_mem, mps, topo",
        ),
        ({ACK: "bogus"}, SHARES | {GPU: 4}, "Whole", {GPU: 4}, f"{ACK} is 'bogus'"),
        ({ACK: "bogus"}, {}, "", {}, f"{ACK} is 'bogus'"),
        ({VKE: "mgpu"}, PARTS | {GPU: 4}, "MGPU", {CORE: 4}, ""),
        ({}, PARTS, "MGPU", {CORE: 4}, ""),
        ({VKE: "nvidia"}, {GPU: 4}, "Whole", {GPU: 4}, ""),
        ({VKE: "nvidia"}, PARTS | {GPU: 4}, "Whole", {GPU: 4}, f"{VKE} is nvidia, and it offers 400 of {CORE}"),
        ({VKE: "nvidia"}, PARTS, "NotReady", {}, f"{VKE} is nvidia, and it offers 400 of {CORE}"),
        ({VKE: "bogus"}, PARTS, "NotReady", {}, f"{VKE} is 'bogus', none of mgpu, nvidia"),
        ({VKE: "nvidia"}, {CORE: 0, MGPU: 0, GPU: 4}, "Whole", {GPU: 4}, ""),
    ],
)
def test_a_label_chooses_under_which_name_cards_are_given(
    labels: dict[str, str], has: dict[str, int], mode: str, cards: dict[str, int], told: str
) -> None:
    found = facts(labels, has)
    assert (found.mode, found.cards.counts) == (mode, cards)
    others = set(has) - set(cards) - {COUNT, MGPU}
    assert mode in ("GPUShare", "MGPU") or not others & found.allocatable.keys()
    assert told.replace("=topology", f"{ACK} is topology") in found.cards_fault
    assert bool(told) == bool(found.cards_fault)
    if mode == "NotReady":
        assert found.unready is not None
        assert "only what this label takes back" in str(found.unready)


def test_whole_cards_beside_shares_of_no_number_of_cards_stay_usable() -> None:
    found = facts({}, {MEMORY: 60, GPU: 4})
    assert (found.mode, found.unready) == ("GPUShare", None)
    assert (found.allocatable.get(GPU), found.allocatable.get(MEMORY)) == (4, None)
    assert f"60 of {MEMORY} and 0 of {COUNT}" in found.cards_fault


@pytest.mark.parametrize(
    ("labels", "has", "mode", "told"),
    [
        ({"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "8"}, {GPU: 8}, "Whole", ""),
        ({"nvidia.com/gpu.replicas": "0", "nvidia.com/gpu.sharing-strategy": "none"}, {GPU: 8}, "Whole", ""),
        ({"nvidia.com/gpu.replicas": "0", "nvidia.com/mig.capable": "true"}, {GPU: 8}, "Whole", ""),
        ({"nvidia.com/gpu.replicas": "0"}, {GPU: 0, "nvidia.com/mig-1g.5gb": 7}, "MIGMixed", ""),
        ({"nvidia.com/gpu.replicas": "0"}, {GPU: 8}, "Whole", "gpu.replicas is '0', no number of replicas"),
        (
            {"nvidia.com/gpu.replicas": "0", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
            {"nvidia.com/gpu.shared": 8},
            "TimeSliced",
            "gpu.replicas is '0', no number of replicas",
        ),
        ({"nvidia.com/mig-1g.5gb.replicas": "0"}, {"nvidia.com/mig-1g.5gb": 7}, "MIGMixed", "1g.5gb.replicas is '0'"),
        ({"nvidia.com/gpu.memory": "x"}, {GPU: 8}, "Whole", "gpu.memory is 'x', no number of MiB"),
        ({"nvidia.com/gpu.memory": "9" * 19}, {GPU: 8}, "Whole", "no number of MiB"),
        ({"nvidia.com/gpu.memory": "-1"}, {GPU: 8}, "Whole", "no number of MiB"),
        ({"nvidia.com/gpu.memory": "x"}, {"amd.com/gpu": 8}, "Whole", ""),
        ({"nvidia.com/gpu.memory": "x"}, {}, "", ""),
        ({"nvidia.com/gpu.count": "0"}, {GPU: 8}, "Whole", "gpu.count is '0', no number of cards"),
        ({"nvidia.com/gpu.replicas": "x"}, {"nvidia.com/gpu.shared": 8}, "TimeSliced", "gpu.replicas is 'x'"),
        (
            {"nvidia.com/mig-1g.5gb.replicas": "x"},
            {"nvidia.com/mig-1g.5gb": 7},
            "MIGMixed",
            "1g.5gb.replicas is 'x'",
        ),
        ({"nvidia.com/gpu.sharing-strategy": "x"}, {GPU: 8}, "Whole", "is 'x', none of none, time-slicing, mps"),
        ({"amd.com/gpu.vram": "64G"}, {"amd.com/gpu": 8}, "Whole", ""),
        ({"amd.com/gpu.vram": "large"}, {"amd.com/gpu": 8}, "Whole", "'large', no number of GiB"),
        ({"vke.volcengine.com/mgpu-compute-policy": "weird"}, PARTS, "MGPU", "'weird', none of fixed-share"),
        ({"vke.volcengine.com/mgpu-compute-policy": "native-burst-share"}, PARTS, "MGPU", ""),
        ({"vke.volcengine.com/mgpu-compute-policy": "weird"}, {GPU: 8}, "Whole", ""),
    ],
)
def test_labels_that_cannot_be_read_are_told_and_cards_stay(
    labels: dict[str, str], has: dict[str, int], mode: str, told: str
) -> None:
    found = facts(labels, has)
    assert found.mode == mode
    assert told in found.cards_fault
    assert bool(told) == bool(found.cards_fault)
    assert tuple(misread(labels, has, mode)) == ((found.cards_fault,) if told else ())


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("", ""),
        ("honours-index", ""),
        ("plugin-chooses", ""),
        ("yes", "card-mode is 'yes', none of honours-index, plugin-chooses"),
    ],
)
def test_an_unknown_card_mode_is_told(mode: str, told: str) -> None:
    raw = {
        "metadata": {"name": "n", "annotations": {"scheduler.tensorstack.dev/card-mode": mode}},
        "status": {"allocatable": {GPU: 8}},
    }
    found = node_facts(decode_node(raw))
    assert told in found.cards_fault
    assert bool(told) == bool(found.cards_fault)
    assert found.honours == (mode == "honours-index")


@pytest.mark.parametrize(
    ("register", "said"),
    [
        ("{", "its annotation hami.io/node-nvidia-register cannot be read: it is no JSON list"),
        ('[{"id": "G", "devmem": 9, "count": -1}]', "cannot be read: card 0 of the list: count -1 is not a number"),
        (
            '[{"id": "G", "devmem": 9, "count": 8}, {"id": "H"}]',
            "its annotation hami.io/node-nvidia-register: card 1 of the list: devmem 0 is not a number",
        ),
    ],
)
def test_what_is_wrong_with_a_register_names_it(register: str, said: str) -> None:
    raw = {
        "metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": register}},
        "status": {"allocatable": {GPU: 8}},
    }
    assert said in node_facts(decode_node(raw)).cards_fault


@pytest.mark.parametrize(
    ("count", "capacity", "has", "told"),
    [("100", 8, 8, True), ("8", 8, 7, False), ("8", 8, 8, False), ("100", 0, 8, False)],
)
def test_a_number_of_cards_that_the_node_does_not_have_is_told(count: str, capacity: int, has: int, told: bool) -> None:
    """A card that does not work is missing in what is allocatable; without a capacity nothing is known."""
    fault = "its label nvidia.com/gpu.count is '100', and it has 8 of nvidia.com/gpu: no more are given"
    labels = {"nvidia.com/gpu.count": count}
    assert tuple(misread(labels, {GPU: has}, "Whole", {GPU: capacity})) == ((fault,) if told else ())
    raw = {
        "metadata": {"name": "n", "labels": labels},
        "status": {"allocatable": {GPU: has}, "capacity": {GPU: capacity}},
    }
    found = node_facts(decode_node(raw))
    assert (found.cards_fault, found.cards.counts) == (fault if told else "", {GPU: has})


@pytest.mark.parametrize("memory", ["9" * 19, "9" * 40, "-5", "٣"])
def test_no_label_makes_a_card_larger_than_any(memory: str) -> None:
    node: Any = facts({"nvidia.com/gpu.memory": memory}, {GPU: 8})
    assert node.mode == "Whole"
    assert "no number of MiB" in node.cards_fault
