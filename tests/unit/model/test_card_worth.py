"""How much of a card pods have: whole cards, parts of divided ones, MIG slices, time slices."""

from dataclasses import replace
from typing import Any

import pytest

from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.card_worth import asked, held, least_cards, worth_on
from t9ksched.model.cards import NO_CARDS, CardGrant, CardPart
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.quantity import CARD, as_cards, from_units, to_units
from tests.builders import GPU, divided_node, node, pod_class, shared_class

PRODUCT, MEMORY, REPLICAS = (f"nvidia.com/gpu.{name}" for name in ("product", "memory", "replicas"))
A100, A100_80 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"


def facts(labels: dict[str, str], **allocatable: str) -> NodeFacts:
    raw: dict[str, Any] = {
        "metadata": {"name": "n", "uid": "u", "labels": labels},
        "status": {"allocatable": {name.replace("__", "/"): text for name, text in allocatable.items()}},
    }
    return node_facts(decode_node(raw))


def of_one(resource: str, labels: dict[str, str], count: int = 1) -> float:
    """What a pod has of cards that asks for so many of a resource."""
    there = facts(labels, **{resource: "64"})
    asked = pod_class(gpu=0, **{resource: count})
    least, most = worth_on(asked, there.card_layout)
    assert least == most == held(asked, there, NO_CARDS)
    return most / CARD


@pytest.mark.parametrize(
    ("profile", "labels", "part"),
    [
        ("1g.5gb", {PRODUCT: A100, MEMORY: "40960"}, 1 / 7),
        ("1g.10gb", {PRODUCT: A100, MEMORY: "40960"}, 1 / 4),
        ("2g.10gb", {PRODUCT: A100, MEMORY: "40536"}, 2 / 7),
        ("3g.20gb", {PRODUCT: A100, MEMORY: "40536"}, 1 / 2),
        ("4g.20gb", {PRODUCT: A100}, 4 / 7),
        ("7g.40gb", {PRODUCT: A100}, 1),
        ("1g.10gb", {PRODUCT: A100_80}, 1 / 7),
        ("1g.20gb", {PRODUCT: A100_80}, 1 / 4),
        ("1g.12gb", {PRODUCT: "NVIDIA-H100-NVL", MEMORY: "95830"}, 1 / 7),
        ("1g.18gb", {PRODUCT: "NVIDIA-H200", MEMORY: "143771"}, 1 / 7),
        ("3g.71gb", {PRODUCT: "NVIDIA-H200", MEMORY: "143771"}, 1 / 2),
        ("1g.6gb", {PRODUCT: "NVIDIA-A30", MEMORY: "24576"}, 1 / 4),
        ("2g.12gb", {PRODUCT: "NVIDIA-A30", MEMORY: "24576"}, 1 / 2),
        ("1g.5gb", {}, 1 / 7),
        ("3g.20gb", {}, 1 / 2),
        ("1g.5gb", {PRODUCT: A100, "nvidia.com/mig-1g.5gb.replicas": "4"}, 1 / 28),
    ],
)
def test_a_slice_is_the_larger_of_its_cores_and_its_memory(profile: str, labels: dict[str, str], part: float) -> None:
    resource = f"nvidia.com/mig-{profile}"
    assert of_one(resource, labels) == part
    assert of_one(resource, labels, 3) == 3 * part


@pytest.mark.parametrize(
    ("resource", "labels", "part"),
    [
        (GPU, {PRODUCT: f"{A100}-MIG-1g.5gb", "nvidia.com/mig.strategy": "single", MEMORY: "4864"}, 1 / 7),
        (GPU, {PRODUCT: f"{A100}-MIG-3g.20gb", MEMORY: "19968"}, 1 / 2),
        (GPU, {PRODUCT: f"{A100}-MIG-1g.5gb-SHARED", REPLICAS: "2"}, 1 / 14),
        (GPU, {PRODUCT: "NVIDIA-A40-SHARED", REPLICAS: "4"}, 1 / 4),
        (GPU, {PRODUCT: "NVIDIA-A40", "nvidia.com/gpu.sharing-strategy": "mps", REPLICAS: "10"}, 1 / 10),
        ("nvidia.com/gpu.shared", {REPLICAS: "3"}, 1 / 3),
        ("nvidia.com/gpu.shared", {}, 1),
        (GPU, {PRODUCT: "NVIDIA-A40"}, 1),
        ("amd.com/gpu", {}, 1),
        ("rdma/rdma_shared_device_a", {}, 0),
    ],
)
def test_what_one_unit_is_follows_from_the_node(resource: str, labels: dict[str, str], part: float) -> None:
    assert of_one(resource, labels) == part


def test_more_cards_than_have_indices_are_whole() -> None:
    there = facts({}, **{GPU: "65"})
    assert held(pod_class(gpu=9), there, NO_CARDS) == 9 * CARD


@pytest.mark.parametrize(
    ("cores", "memory", "percent", "count", "part"),
    [(300, 16_000, 0, 1, 0.5), (600, 16_000, 0, 2, 1.2), (0, 8_000, 0, 1, 0.25), (250, 0, 50, 3, 1.5), (0, 0, 0, 1, 1)],
)
def test_a_part_is_the_larger_of_its_cores_and_its_memory(
    cores: int, memory: int, percent: int, count: int, part: float
) -> None:
    of = shared_class(cores, memory, count, percent=percent)
    there = divided_node("n", 4)
    assert worth_on(of, there.card_layout) == (round(part * CARD), round(part * CARD))
    parts = [there.cards.divide(of.cards, CardGrant.of({GPU: range(count)})).parts]
    assert held(of, there, CardGrant.of_parts(*parts)) == round(part * CARD)
    assert held(of, node("whole", gpu=4), CardGrant.of({GPU: range(count)})) == count * CARD, "it gets whole cards"


def test_the_cards_that_a_pod_has_decide_where_those_of_a_node_are_unlike() -> None:
    small, large = divided_node("n", 1, memory=16_000), divided_node("n", 1, memory=64_000)
    sizes = small.cards.divided[GPU] + large.cards.divided[GPU]
    there = divided_node("n", 2)
    there = replace(there, cards=CardTable({GPU: 2}, divided={GPU: sizes}))
    of = shared_class(100, 8_000)
    assert worth_on(of, there.card_layout) == (CARD // 8, CARD // 2)
    assert held(of, there, CardGrant.of_parts([CardPart(GPU, 1, 100, 8_000)])) == CARD // 8


def test_of_a_node_that_is_not_known_cards_count_whole() -> None:
    assert held(pod_class(gpu=2), None, NO_CARDS) == 2 * CARD
    assert held(pod_class(cpu=2), None, NO_CARDS) == 0


def test_the_least_that_pods_can_have() -> None:
    assert least_cards({GPU: 3, "cpu": 5000}, ()) == 3 * CARD
    assert least_cards({GPU: 3, "amd.com/gpu": 1}, (GPU,)) == CARD
    assert least_cards({"vke.volcengine.com/mgpu-core": 150, "vke.volcengine.com/mgpu-memory": 9}, ()) == CARD * 3 // 2


def test_cards_are_written_as_decimals() -> None:
    assert to_units("cards", "3.5") == to_units("cards", 3.5) == to_units("cards", "3500m") == 7 * CARD // 2
    assert from_units("cards", 7 * CARD // 2) == "3.5"
    assert [from_units("cards", each) for each in (0, CARD, CARD // 7, CARD // 3, 10 * CARD)] == [
        "0", "1", "0.143", "0.333", "10",
    ]  # fmt: skip
    assert as_cards(CARD // 7) == 0.143
    assert all(
        to_units("cards", from_units("cards", to_units("cards", f"{at}m"))) == at * CARD // 1000 for at in range(2001)
    )


def test_what_a_pod_without_a_node_asks_for() -> None:
    half, whole = shared_class(100, 16_000), node("w", gpu=4).card_layout
    divided = divided_node("d", 2).card_layout
    assert asked(half, frozenset({divided})) == CARD // 2
    assert asked(half, frozenset({divided, whole})) == CARD, "it may get a whole one"
    assert asked(shared_class(100, 16_000)) == CARD // 10, "as far as it says itself"
    assert asked(shared_class(0, 16_000)) == CARD
    assert asked(shared_class(300, 0, 2, percent=50)) == CARD
    assert asked(pod_class(**{"nvidia.com/mig-1g.5gb": 2})) == 2 * CARD // 7
    assert asked(pod_class(gpu=3), frozenset({node("cpu").card_layout})) == 3 * CARD
    assert asked(pod_class(cpu=3), frozenset({whole})) == 0


def test_nodes_whose_cards_are_alike_are_one_layout() -> None:
    made = divided_node("n", 2)
    names = ((f"GPU-{node}{at}", at) for node in range(2) for at in range(2))
    one, two, three, four = (CardSize(32_000, 10, uuid=uuid, model="A100", numa=at) for uuid, at in names)
    named, other = (replace(made, cards=CardTable({GPU: 2}, divided={GPU: of})) for of in ((one, two), (three, four)))
    assert named.card_layout == other.card_layout
