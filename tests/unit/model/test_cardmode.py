"""How a node hands out its accelerators, from the labels that its operators write."""

import pytest

from t9ksched.model.cardmode import card_mode, is_share
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.podclass import PodClass

GPU = "nvidia.com/gpu"
A100 = "NVIDIA-A100-SXM4-80GB"
HAMI = '[{"id":"GPU-1","count":10,"devmem":81920,"devcore":100,"type":"NVIDIA-A100","health":true}]'


def product(name: str, **more: str) -> dict[str, str]:
    """Labels of GPU Feature Discovery."""
    return {"nvidia.com/gpu.product": name} | {f"nvidia.com/{key.replace('_', '.')}": more[key] for key in more}


CASES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, int], str]] = {
    "no accelerator": ({}, {}, {"cpu": 4}, ""),
    "whole": (product(A100, gpu_replicas="1"), {}, {GPU: 8}, "Whole"),
    "whole of another vendor": ({}, {}, {"amd.com/gpu": 8}, "Whole"),
    "whole, no sharing": ({**product(A100), "nvidia.com/gpu.sharing-strategy": "none"}, {}, {GPU: 8}, "Whole"),
    "whole, single strategy": (product(A100, mig_strategy="single", mig_capable="true"), {}, {GPU: 8}, "Whole"),
    "whole, mixed strategy": (product(A100, mig_strategy="mixed", mig_capable="true"), {}, {GPU: 8}, "Whole"),
    "single": (product(f"{A100}-MIG-1g.10gb", mig_strategy="single"), {}, {GPU: 56}, "MIGSingle"),
    "single, layouts differ": (product(f"{A100}-MIG-INVALID", mig_strategy="single"), {}, {GPU: 0}, "MIGSingle"),
    "mixed": (product(A100, mig_strategy="mixed"), {}, {GPU: 4, "nvidia.com/mig-1g.10gb": 28}, "MIGMixed"),
    "mixed with media engines": (product(A100), {}, {"nvidia.com/mig-1g.10gb.me": 4}, "MIGMixed"),
    "mixed by labels": ({**product(A100), "nvidia.com/mig-3g.40gb.count": "4"}, {}, {GPU: 6}, "MIGMixed"),
    "mixed, none made": ({**product(A100), "nvidia.com/mig-3g.40gb.count": "0"}, {}, {GPU: 6}, "Whole"),
    "slices by product": (product(f"{A100}-SHARED"), {}, {GPU: 32}, "TimeSliced"),
    "slices by replicas": (product(A100, gpu_replicas="4"), {}, {GPU: 32}, "TimeSliced"),
    "slices, renamed": (product(A100, gpu_replicas="4"), {}, {"team.example/gpu": 32}, "TimeSliced"),
    "slices by name": ({}, {}, {"nvidia.com/gpu.shared": 32}, "TimeSliced"),
    "slices by strategy": ({"nvidia.com/gpu.sharing-strategy": "time-slicing"}, {}, {GPU: 32}, "TimeSliced"),
    "MPS": (product(A100, gpu_replicas="4") | {"nvidia.com/gpu.sharing-strategy": "mps"}, {}, {GPU: 32}, "MPS"),
    "HAMi": (product(A100), {"hami.io/node-nvidia-register": HAMI}, {GPU: 80}, "HAMi"),
    "HAMi has left": (product(A100), {"hami.io/node-nvidia-register": ""}, {GPU: 8}, "Whole"),
    "mGPU by label": ({"vke.node.gpu.schedule": "mgpu"}, {}, {}, "MGPU"),
    "mGPU's nodes with whole cards": ({"vke.node.gpu.schedule": "nvidia"}, {}, {GPU: 4}, "Whole"),
    "mGPU by resource": ({}, {}, {"vke.volcengine.com/mgpu-core": 400}, "MGPU"),
    "gpushare": ({}, {}, {"aliyun.com/gpu-mem": 64, "aliyun.com/gpu-count": 2}, "GPUShare"),
    "gpushare by label": ({"ack.node.gpu.schedule": "share"}, {}, {GPU: 8}, "GPUShare"),
    "gpushare with compute by label": ({"ack.node.gpu.schedule": "core_mem"}, {}, {GPU: 8}, "GPUShare"),
    "gpushare with MPS by label": ({"ack.node.gpu.schedule": "mps"}, {}, {GPU: 8}, "GPUShare"),
    "gpushare's nodes with whole cards": ({"ack.node.gpu.schedule": "default"}, {}, {GPU: 8}, "Whole"),
    "gpushare by the older label": ({"gpushare": "true"}, {}, {GPU: 8}, "GPUShare"),
    "cGPU by the older label": ({"cgpu": "true"}, {}, {GPU: 8}, "GPUShare"),
    "cGPU switched off": ({"cgpu": "false", "gpushare": "false"}, {}, {GPU: 8}, "Whole"),
    "Koordinator by label": ({"node.koordinator.sh/gpu-model": "A100"}, {}, {GPU: 8}, "Koordinator"),
    "Koordinator by percentage": ({}, {}, {GPU: 8, "koordinator.sh/gpu": 800}, "Koordinator"),
    "Koordinator": ({}, {}, {GPU: 8, "koordinator.sh/gpu-core": 800}, "Koordinator"),
    "layout is being made": (product(A100) | {"nvidia.com/mig.config.state": "pending"}, {}, {GPU: 8}, "NotReady"),
    "layout failed": (product(A100) | {"nvidia.com/mig.config.state": "failed"}, {}, {GPU: 8}, "NotReady"),
    "layout is made": (product(A100) | {"nvidia.com/mig.config.state": "success"}, {}, {GPU: 8}, "Whole"),
    "no driver yet": ({"feature.node.kubernetes.io/pci-10de.present": "true"}, {}, {GPU: 0}, "NotReady"),
    "no driver wanted": (
        {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.deploy.operands": "false"},
        {},
        {},
        "",
    ),
}


@pytest.mark.parametrize(("labels", "annotations", "has", "mode"), CASES.values(), ids=CASES)
def test_modes(labels: dict[str, str], annotations: dict[str, str], has: dict[str, int], mode: str) -> None:
    assert card_mode(labels, annotations, has) == mode


def facts(has: dict[str, int], labels: dict[str, str] | None = None, **annotations: str) -> NodeFacts:
    meta = {"name": "n", "labels": labels or {}, "annotations": annotations}
    allocatable = {name: str(amount) for name, amount in has.items()}
    return node_facts(decode_node({"metadata": meta, "status": {"allocatable": allocatable}}))


def test_only_whole_cards_have_indices() -> None:
    assert facts({GPU: 8}).cards.counts == {GPU: 8}
    sliced = facts({GPU: 32, "nvidia.com/gpu.shared": 4}, product(f"{A100}-SHARED"))
    assert not sliced.cards
    assert sliced.counted == {GPU: 32, "nvidia.com/gpu.shared": 4}


@pytest.mark.parametrize(
    ("offered", "labels", "mode"),
    [
        (20, {}, "Whole"),
        (2, {"nvidia.com/gpu.count": "2"}, "Whole"),
        (1, {"nvidia.com/gpu.count": "2"}, "Whole"),
        (20, {"nvidia.com/gpu.count": "2"}, "NotReady"),
        (20, {"nvidia.com/gpu.count": "0"}, "Whole"),
        (20, {"nvidia.com/gpu.count": "x"}, "Whole"),
        (20, {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "10"}, "TimeSliced"),
    ],
)
def test_a_node_that_offers_more_cards_than_it_has_gives_none(offered: int, labels: dict[str, str], mode: str) -> None:
    found = facts({GPU: offered}, labels)
    assert found.mode == mode
    assert bool(found.cards.counts) == (mode == "Whole")
    if mode == "NotReady":
        assert found.unready is not None
        assert "it offers 20 of nvidia.com/gpu and has 2 cards" in str(found.unready)


def test_what_has_no_index_each_is_counted() -> None:
    many = facts({GPU: 80, "amd.com/gpu": 64}, **{"scheduler.tensorstack.dev/cordoned-cards": "3,70,99"})
    assert many.cards.counts == {"amd.com/gpu": 64}
    assert many.counted == {GPU: 80}
    assert many.cards.withdrawn == CardGrant.of({"amd.com/gpu": [3]})
    assert many.cordoned == {GPU: 2}


@pytest.mark.parametrize(
    ("resource", "share"),
    [
        ("vke.volcengine.com/mgpu-core", False),
        ("vke.volcengine.com/mgpu-memory", False),
        ("nvidia.com/gpucores", False),
        ("nvidia.com/gpumem", False),
        ("nvidia.com/gpumem-percentage", False),
        ("aliyun.com/gpu-mem", False),
        ("aliyun.com/gpu-count", False),
        ("aliyun.com/gpu-core.percentage", True),
        ("koordinator.sh/gpu-core", False),
        ("koordinator.sh/gpu", False),
        ("koordinator.sh/gpu.shared", False),
        ("koordinator.sh/gpu-other", True),
        (GPU, False),
        ("nvidia.com/gpu.shared", False),
        ("nvidia.com/mig-1g.10gb", False),
        ("cpu", False),
    ],
)
def test_shares_of_single_cards(resource: str, share: bool) -> None:
    assert is_share(resource) is share


def test_which_pods_ask_for_accelerators() -> None:
    assert PodClass((("cpu", 1), ("nvidia.com/mig-1g.10gb", 1))).accelerated
    assert PodClass((("amd.com/gpu", 1),)).accelerated
    assert not PodClass((("cpu", 1), ("rdma/hca", 1))).accelerated
