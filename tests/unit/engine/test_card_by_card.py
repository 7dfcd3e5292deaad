"""Why a pod waits for a part of a card, in each system's own words for nodes and pods: cards are told with their
number, and nothing is said of nodes that never had any.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.koordinator import DeviceReport, reported
from t9ksched.model.node import NodeFacts, decode_node, node_facts
from t9ksched.model.pod import decode_pod_spec, pod_class
from t9ksched.model.podclass import PodClass
from t9ksched.model.readiness import Unready
from t9ksched.model.reasons import Code, Reason
from tests.builders import GPU, gang, node, queue, view

VKE, ALI, KOORD, OURS = "vke.volcengine.com", "aliyun.com", "koordinator.sh", "scheduler.tensorstack.dev"
CORE, MEMORY, POLICY = f"{VKE}/mgpu-core", f"{VKE}/mgpu-memory", f"{VKE}/mgpu-compute-policy"
PLAIN = node("plain")
"""A node without cards, which matches whatever is asked of cards."""
NO_DRIVER = replace(
    node("pci"), mode="NotReady", unready=Unready("", "it offers none of them yet", "wait for the GPU operator")
)
"""One of which nobody knows yet what it will offer."""


def made(name: str, amounts: Mapping[str, int | str], **more: Any) -> NodeFacts:
    """A node as Kubernetes and its device plugins describe it."""
    labels, annotations = more.pop("labels", {}), more.pop("annotations", {})
    status = {"allocatable": {"cpu": "96", "memory": "512Gi", "pods": "250"} | {k: str(v) for k, v in amounts.items()}}
    status |= {"conditions": [{"type": "Ready", "status": "True"}]}
    raw = {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": {}, "status": status}
    return node_facts(decode_node(msgspec.json.encode(raw)), **more)


def mgpu(name: str = "m", cards: int = 4, **more: Any) -> NodeFacts:
    return made(name, {CORE: 100 * cards, MEMORY: 32510 * cards}, **more)


def hami(*broken: int, cards: int = 3, memory: int = 32768, **more: Any) -> NodeFacts:
    register = [
        {"id": f"GPU-{at}", "index": at, "count": 10, "devmem": memory, "devcore": 100, "type": "V100", "numa": at}
        | ({} if at in broken else {"health": True})
        for at in range(cards)
    ]
    annotations = {"hami.io/node-nvidia-register": json.dumps(register)}
    return made("h", {GPU: 10 * cards}, annotations=annotations, **more)


def gpushare(**more: Any) -> NodeFacts:
    return made("g", {f"{ALI}/gpu-mem": 60, f"{ALI}/gpu-count": 4}, **more)


def koordinator(*broken: int) -> NodeFacts:
    resources = {f"{KOORD}/gpu-core": 100, f"{KOORD}/gpu-memory": "16Gi", f"{KOORD}/gpu-memory-ratio": 100}
    devices = [
        {"type": "gpu", "minor": at, "id": f"GPU-{at}", "health": at not in broken, "resources": resources}
        for at in range(2)
    ]
    own = reported(msgspec.convert({"metadata": {"name": "k"}, "spec": {"devices": devices}}, DeviceReport))
    return made("k", {f"{KOORD}/gpu": 200, f"{KOORD}/gpu-core": 200, f"{KOORD}/gpu-memory-ratio": 200}, reported=own)


def whole(memory: str = "81920") -> NodeFacts:
    labels = {"nvidia.com/gpu.memory": memory, "nvidia.com/gpu.product": "NVIDIA-A100"}
    return made("w", {GPU: 8}, labels=labels)


def pod(*, annotations: Mapping[str, str] | None = None, **limits: int) -> PodClass:
    """A pod with one container."""
    amounts = {name: str(amount) for name, amount in limits.items()}
    spec = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1", **amounts}}}]}
    return pod_class(decode_pod_spec(spec), annotations=annotations or {})


def share(cores: int, memory: int) -> PodClass:
    return pod(**{CORE: cores, MEMORY: memory})


def part(memory: int, count: int = 1, annotations: Mapping[str, str] | None = None) -> PodClass:
    return pod(**{GPU: count, "nvidia.com/gpumem": memory}, annotations=annotations)


def why(nodes: Sequence[NodeFacts], of: PodClass) -> Reason:
    found = plan(view(nodes, [gang("p", of=of)], {"q": queue()}), Policy(), 0)
    assert not found.assignments
    (reason,) = found.waiting[0].reasons
    return reason


LARGE = {f"{OURS}/gpu-memory": "100Gi"}
UNHEALTHY = "not healthy: card 2 of h (its device plugin says that it is not healthy)"
WORDS: dict[str, tuple[list[NodeFacts], PodClass, Code, list[str]]] = {
    "mGPU: no card so large": (
        [mgpu(), mgpu("n", 2)],
        share(30, 99999),
        Code.NEVER_FITS,
        ["needs 30 % of the cores and 99999 MiB on one card", "6/6 CardInsufficientMemory; the largest has 32510 MiB"],
    ),
    "mGPU: more cards than a node has": (
        [mgpu()],
        pod(**{CORE: 500}),
        Code.NEVER_FITS,
        ["needs 5 whole cards of a node; 4/4 AllocatedCardsInsufficientRequest"],
    ),
    "mGPU: another policy": (
        [mgpu(labels={POLICY: "native-burst-share"})],
        share(30, 1024),
        Code.NO_NODE_MATCHES,
        ["1 shares the cores of a card by another compute policy: native-burst-share, and the pod takes fixed-share"],
    ),
    "mGPU: all cordoned": (
        [mgpu(cards=2, cordons={0: "fan", 1: ""})],
        share(30, 1024),
        Code.INSUFFICIENT_RESOURCES,
        ["2/2 CardCordoned; cordoned: card 0 of m (fan); card 1 of m;"],
    ),
    "mGPU: cards held back": (
        [replace(mgpu(), unsure=True, why_unsure="a pod there holds card 3, which is gone")],
        share(30, 1024),
        Code.INSUFFICIENT_RESOURCES,
        [
            f"no node that offers 30 × {CORE} and 1024 × {MEMORY} takes it now; 1 more ",
            "; 1 more is away: m (gives no cards now: a pod there holds card 3, which is gone)",
        ],
    ),
    "HAMi: no card so large": (
        [hami(2)],
        part(40000),
        Code.NEVER_FITS,
        [f"1/3 CardNotHealth, 2/3 CardInsufficientMemory; the largest has 32768 MiB, {UNHEALTHY}"],
    ),
    "HAMi: an unhealthy one is lacking": (
        [hami(2)],
        part(100, 3),
        Code.INSUFFICIENT_RESOURCES,
        ["needs 100 MiB on each of 3 cards of a node; 1/3 CardNotHealth, 2/3 AllocatedCardsInsuff", UNHEALTHY],
    ),
    "HAMi: more than there are": (
        [hami(2)],
        part(100, 4),
        Code.NEVER_FITS,
        ["needs 100 MiB on each of 4 cards", "1/3 CardNotHealth", "2/3 AllocatedCardsInsufficientRequest"],
    ),
    "HAMi: whole ones, beside nodes that give these": (
        [hami(2), whole()],
        pod(**{GPU: 9}),
        Code.NEVER_FITS,
        ["needs 9 whole cards", "2/3 Allocated", "of nodes that give whole ones the best has 8"],
    ),
    "HAMi: another model": (
        [hami()],
        part(100, annotations={"nvidia.com/use-gputype": "H100"}),
        Code.CARD_TYPE_MISMATCH,
        ["1 has no nvidia.com/gpu, 3/3 CardTypeMismatch: nvidia.com/use-gputype and nouse-gputype leave too few"],
    ),
    "HAMi: another card": (
        [hami()],
        part(100, annotations={"nvidia.com/use-gpuuuid": "GPU-9"}),
        Code.NO_NODE_MATCHES,
        ["3/3 CardUuidMismatch: nvidia.com/use-gpuuuid and nouse-gpuuuid leave too few on one node"],
    ),
    "HAMi: that card is not healthy": (
        [hami(2)],
        part(100, annotations={"nvidia.com/use-gpuuuid": "GPU-2"}),
        Code.INSUFFICIENT_RESOURCES,
        ["1/3 CardNotHealth", "2/3 CardUuidMismatch"],
    ),
    "HAMi: NUMA nodes": (
        [hami()],
        part(100, 2, annotations={"nvidia.com/numa-bind": "true"}),
        Code.NEVER_FITS,
        ["attached to one NUMA node of a node; 3/3 NumaNotFit"],
    ),
    "gpushare: no card so large": (
        [gpushare(cordons={1: ""})],
        pod(**{f"{ALI}/gpu-mem": 16}),
        Code.NEVER_FITS,
        ["needs 16384 MiB on one card of a node; 1/4 CardCordoned, 3/4 CardInsufficientMemory; the"],
    ),
    "Koordinator: no card so large": (
        [koordinator()],
        pod(**{f"{KOORD}/gpu-core": 50, f"{KOORD}/gpu-memory": 20 << 30}),
        Code.NEVER_FITS,
        ["needs 50 % of the cores and 20480 MiB on one card of a node; 2/2 CardInsufficientMemory; the largest has"],
    ),
    "Koordinator: none is healthy": (
        [koordinator(0, 1)],
        pod(**{f"{KOORD}/gpu-core": 50, f"{KOORD}/gpu-memory-ratio": 50}),
        Code.INSUFFICIENT_RESOURCES,
        ["needs 50 % of the cores and 50 % of the memory on one card", "2/2 CardNotHealth"],
    ),
    "Koordinator: whole ones, one is not healthy": (
        [koordinator(0)],
        pod(**{f"{KOORD}/gpu": 200}),
        Code.INSUFFICIENT_RESOURCES,
        ["needs 2 whole cards of a node; 1/2 CardNotHealth, 1/2 AllocatedCardsInsufficientRequest"],
    ),
    "HAMi: all cores of a card that is too small": (
        [hami()],
        pod(**{GPU: 1, "nvidia.com/gpumem": 40000, "nvidia.com/gpucores": 100}),
        Code.NEVER_FITS,
        ["needs a whole card with 40000 MiB of a node; 3/3 CardInsufficientMemory; the largest has 32768 MiB"],
    ),
    "mGPU: all cores of a card that is too small": (
        [mgpu()],
        share(100, 40000),
        Code.NEVER_FITS,
        ["needs a whole card with 40000 MiB of a node; 4/4 CardInsufficientMemory; the largest has 32510 MiB"],
    ),
    "ours: whole cards that are too small": (
        [hami()],
        pod(**{GPU: 2}, annotations={f"{OURS}/gpu-memory": "40000Mi", f"{OURS}/gpu-cores": "100"}),
        Code.NEVER_FITS,
        ["needs 2 whole cards with 40000 MiB each of a node; 3/3 CardInsufficientMemory"],
    ),
    "ours: no card so large, divided": (
        [hami()],
        pod(**{GPU: 1}, annotations=LARGE),
        Code.NEVER_FITS,
        ["needs 102400 MiB on one card of a node; 3/3 CardInsufficientMemory; the largest has 32768 MiB"],
    ),
    "ours: no card so large, whole": (
        [whole()],
        pod(**{GPU: 1}, annotations=LARGE),
        Code.NO_NODE_MATCHES,
        ["8/8 CardInsufficientMemory: the pod asks for 102400 MiB of a card, the largest has 81920 MiB"],
    ),
    "ours: no card so large, both": (
        [hami(), whole()],
        pod(**{GPU: 1}, annotations=LARGE),
        Code.NEVER_FITS,
        [
            "3/3 CardInsufficientMemory; the largest divided one has 32768 MiB",
            "the largest undivided one has 81920 MiB",
        ],
    ),
    "ours: no one knows how large": (
        [whole("")],
        pod(**{GPU: 1}, annotations=LARGE),
        Code.NO_NODE_MATCHES,
        ["8/8 CardInsufficientMemory: the pod asks for 102400 MiB of a card, 1 node does not say how much theirs have"],
    ),
}


@pytest.mark.parametrize(
    "beside", [(), (PLAIN,), (PLAIN, NO_DRIVER)], ids=["alone", "beside a node without cards", "and one not ready"]
)
@pytest.mark.parametrize(("nodes", "of", "code", "said"), WORDS.values(), ids=WORDS)
def test_what_cards_lack_is_told_card_by_card(
    nodes: list[NodeFacts], of: PodClass, code: Code, said: list[str], beside: Sequence[NodeFacts]
) -> None:
    reason = why([*nodes, *beside], of)
    if not beside and (reason.nodes.get("card holders") or "1 has no nvidia.com/gpu" in said[0]):
        return  # no node matches then, or there is no other
    assert reason.code == code
    assert all(words in reason.message for words in said), reason.message
    assert "the largest has 0" not in reason.message
    assert "no single node has all" not in reason.message
    assert reason.unblocks


def test_nodes_that_share_by_another_policy_are_told_beside_full_ones() -> None:
    full = replace(mgpu("full", cards=1), cards=mgpu(cards=1, cordons={0: "fan"}).cards)
    reason = why([full, mgpu("n", labels={POLICY: "native-burst-share"})], share(30, 1024))
    assert "1/1 CardCordoned; cordoned: card 0 of full;" in reason.message
    assert (
        "; 1 more shares the cores of a card by another compute policy: native-burst-share, and the" in reason.message
    )
    assert reason.nodes["compute policy"] == 1


def test_what_no_node_has_at_all_can_never_fit() -> None:
    reason = why([mgpu(), PLAIN], pod(**{f"{ALI}/gpu-mem": 1}))
    assert reason.code == Code.NEVER_FITS
    assert f"needs 1 × {ALI}/gpu-mem on one node, the largest has 0" in reason.message
