"""Which model each card of a node is, by its own name or by the label of the node."""

import json
from typing import Any

import pytest

from t9ksched.model.card_models import listed, named, will_do
from t9ksched.model.card_size import CardSize
from t9ksched.model.node import decode_node, node_facts

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"


@pytest.mark.parametrize(
    ("own", "product", "is_called"),
    [
        ("", A100, A100),
        (H100, A100, H100),
        (H100, "", H100),
        ("", "", ""),
        # HAMi writes the vendor before what the driver says.
        ("NVIDIA-NVIDIA A100-SXM4-40GB", A100, A100),
        ("NVIDIA-Tesla V100-PCIE-32GB", "Tesla-V100-PCIE-32GB", "Tesla-V100-PCIE-32GB"),
        ("NVIDIA-Tesla V100-PCIE-32GB", "NVIDIA-GeForce-RTX-3090", "NVIDIA-Tesla V100-PCIE-32GB"),
        ("NVIDIA-NVIDIA H100 80GB HBM3", A100, H100),
        (A100, f"{A100}-SHARED", f"{A100}-SHARED"),
    ],
)
def test_one_model_has_one_name(own: str, product: str, is_called: str) -> None:
    (card,) = named((CardSize(10, 1, model=own),), product)
    assert card == CardSize(10, 1, model=is_called)


def test_a_card_that_is_not_there_has_no_model() -> None:
    assert named((CardSize(0, 0, 0),), A100) == (CardSize(0, 0, 0),)


@pytest.mark.parametrize(
    ("product", "models", "does"),
    [
        (A100, ((),), False),
        (A100, (), True),
        ("", (("A100",),), False),
        (A100, (("A100", "H100"),), True),
        (A100, (("A100",), ("H100",)), False),
        (A100, (("A100",), ("40GB",)), True),
    ],
)
def test_any_of_each_and_all_of_them(product: str, models: tuple[tuple[str, ...], ...], does: bool) -> None:
    assert will_do(product, models) is does


def test_models_of_one_node_in_words() -> None:
    assert listed([A100, A100]) == A100
    assert listed([H100, A100, A100]) == f"2 × {A100} and 1 × {H100}"
    assert listed(["", A100]) == f"1 × {A100} and 1 × cards whose model is not known"


def card(index: int, model: str, **more: Any) -> dict[str, Any]:
    made = {"id": f"GPU-{index}", "index": index, "count": 10, "devmem": 40_000, "devcore": 100, "type": model}
    return {**made, "health": True, **more}


def test_a_node_of_hami_has_the_models_that_it_registers() -> None:
    register = json.dumps([card(0, A100), card(2, H100), card(3, "")])
    node = {
        "metadata": {"name": "n", "labels": {PRODUCT: A100}, "annotations": {"hami.io/node-nvidia-register": register}},
        "status": {"allocatable": {GPU: "30"}},
    }
    facts = node_facts(decode_node(node))
    assert facts.models(GPU) == (A100, H100, A100)
    assert [facts.cards.model(GPU, at) for at in range(5)] == [A100, "", H100, A100, ""]
    assert facts.models("amd.com/gpu") == ()


def test_cards_of_mgpu_are_of_the_model_of_the_label() -> None:
    core, memory = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
    node = {
        "metadata": {"name": "n", "labels": {PRODUCT: A100}},
        "status": {"allocatable": {core: "200", memory: "80000"}},
    }
    assert node_facts(decode_node(node)).models(core) == (A100, A100)
