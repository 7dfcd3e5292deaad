"""Each example of a way to use cards starts on a node of its mode, and on no other."""

from typing import Any

import pytest
import yaml

from t9ksched.model import names
from t9ksched.model.quantity import CARD
from t9ksched.packaged import folder
from tests.integration.scheduler import koordinator
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_parts import V100S
from tests.integration.world import GPU, RUN_LABEL, World

PRODUCT, STRATEGY, REPLICAS = (f"nvidia.com/gpu.{name}" for name in ("product", "sharing-strategy", "replicas"))
A100 = "NVIDIA-A100-SXM4-80GB"
WHOLE = ({PRODUCT: A100, "nvidia.com/gpu.memory": "81920"}, {GPU: "8"})
MIG_MIXED = ({PRODUCT: "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig.strategy": "mixed"}, {"nvidia.com/mig-1g.5gb": "7"})
MIG_SINGLE = ({PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, {GPU: "7"})
SLICED = ({STRATEGY: "time-slicing", REPLICAS: "4"}, {"nvidia.com/gpu.shared": "8"})
MPS = ({STRATEGY: "mps", REPLICAS: "4", PRODUCT: "NVIDIA-A40-SHARED"}, {GPU: "8"})
MGPU = ({"vke.node.gpu.schedule": "mgpu"}, V100S)
GPUSHARE = ({}, {"aliyun.com/gpu-mem": "32", "aliyun.com/gpu-count": "2"})
KOORDINATOR = (
    {},
    {"koordinator.sh/gpu-core": "200", "koordinator.sh/gpu-memory": "160Gi", "koordinator.sh/gpu-memory-ratio": "200"},
)
CASES = [
    ("pod.yaml", "Whole", WHOLE, MIG_SINGLE, 1),
    ("gpu-model.yaml", "Whole", WHOLE, MPS, 2),
    ("gpu-memory.yaml", "Whole", WHOLE, MPS, 1),
    ("mig-mixed.yaml", "MIGMixed", MIG_MIXED, WHOLE, 1 / 7),
    ("mig-single.yaml", "MIGSingle", MIG_SINGLE, WHOLE, 1 / 7),
    ("time-slicing.yaml", "TimeSliced", SLICED, WHOLE, 1 / 4),
    ("mps.yaml", "MPS", MPS, WHOLE, 1 / 4),
    ("mgpu.yaml", "MGPU", MGPU, WHOLE, 0.3),
    ("gpushare.yaml", "GPUShare", GPUSHARE, WHOLE, 0.5),
    ("koordinator.yaml", "Koordinator", KOORDINATOR, WHOLE, 0.5),
    ("mgpu-several.yaml", "MGPU", MGPU, WHOLE, 1.2),
]


def example(world: World, file: str, queue: str) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((folder("examples") / file).read_text())
    made["metadata"]["namespace"] = world.namespace
    made["metadata"]["labels"][names.QUEUE_LABEL] = queue
    return made


async def play(world: World, labels: dict[str, str], amounts: dict[str, str]) -> None:
    offered = {"cpu": "64", "memory": "256Gi", **amounts}
    await world.play(1, labels={RUN_LABEL: world.run, **labels}, allocatable=offered)
    if amounts is KOORDINATOR[1]:
        await koordinator.report(world, [koordinator.card(0), koordinator.card(1)])


@pytest.mark.parametrize(("file", "mode", "node", "other", "cards"), CASES, ids=[case[0] for case in CASES])
async def test_it_starts_on_a_node_of_its_mode(
    world: World, start: Start, queue: str, file: str, mode: str, node: Any, other: Any, cards: float
) -> None:
    await play(world, *node)
    async with start() as service:
        made = example(world, file, queue)
        await world.create(made)
        (pod,) = await world.running(made["metadata"]["name"])
        charge = service.state.charges.get(pod["metadata"]["uid"])
        assert charge is not None
        assert service.state.node_objects[world.nodes[0]][1].mode == mode
        assert charge.worth == round(cards * CARD)


@pytest.mark.parametrize(("file", "mode", "node", "other", "cards"), CASES, ids=[case[0] for case in CASES])
async def test_it_waits_where_there_are_others(
    world: World, start: Start, queue: str, file: str, mode: str, node: Any, other: Any, cards: float
) -> None:
    await play(world, *other)
    async with start():
        made = example(world, file, queue)
        await world.create(made)
        await world.event(names.EVENT_WAITING, made["metadata"]["name"])
        assert not await world.bound()
