"""Which system hands out the cards of a node, by its label, and inventory that cannot be read, over HTTP."""

from typing import Any

import pytest

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import told
from tests.integration.world import GPU, RUN_LABEL, World

ALI, MEMORY, COUNT = "aliyun.com/gpu", "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
CORE, MGPU = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
ACK, VKE = "ack.node.gpu.schedule", "vke.node.gpu.schedule"
BASE = {"cpu": "64", "memory": "256Gi"}


def ask(world: World, name: str, queue: str, **amounts: str) -> Any:
    made = world.pod(name, 0, queue=queue)
    limits = made["spec"]["containers"][0]["resources"]["limits"]
    limits |= {key.replace("__", "/").replace("_", "-"): amount for key, amount in amounts.items()}
    return made


async def label(world: World, **labels: str | None) -> None:
    given = {key.replace("_", "."): value for key, value in labels.items()}
    await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"labels": given}})


async def test_the_label_of_ack_chooses_under_which_name_cards_are_given(
    world: World, start: Start, queue: str
) -> None:
    offered = {**BASE, MEMORY: "60", COUNT: "4", ALI: "4", GPU: "4"}
    await world.play(1, allocatable=offered, labels={RUN_LABEL: world.run, ACK: "topology"})
    node = world.nodes[0]
    async with start() as service:
        await world.create(ask(world, "share", queue, **{"aliyun.com__gpu_mem": "4"}))
        event = await world.event(names.EVENT_CARDS_IGNORED, node, "default")
        assert f"its label {ACK} is topology, and it offers 60 of {MEMORY}" in event["message"]
        await world.event(names.EVENT_WAITING, "share")
        await world.create(ask(world, "whole", queue, **{"aliyun.com__gpu": "2"}))
        await world.running("whole")
        shown = await told(service, node)
        assert (shown["mode"], [card["resource"] for card in shown["gpus"]]) == ("Whole", [ALI] * 4)
        assert shown["cardsIgnored"] in event["message"]
        await world.client.delete(PODS, "whole", world.namespace, grace=0)
        await world.gone(PODS, "whole")
        await label(world, ack_node_gpu_schedule="share")
        await world.running("share")
        assert (await told(service, node))["mode"] == "GPUShare"


@pytest.mark.parametrize("value", ["nvidia", "bogus"])
async def test_without_the_label_of_mgpu_no_parts_are_given(world: World, start: Start, queue: str, value: str) -> None:
    offered = {**BASE, CORE: "400", MGPU: "130040", GPU: "4"}
    await world.play(1, allocatable=offered, labels={RUN_LABEL: world.run, VKE: value})
    async with start() as service:
        amounts = {"vke.volcengine.com__mgpu_core": "30", "vke.volcengine.com__mgpu_memory": "1024"}
        await world.create(ask(world, "part", queue, **amounts))
        await world.event(names.EVENT_WAITING, "part")
        event = await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default")
        assert value in event["message"]
        await world.create(world.pod("whole", 1, queue=queue))
        await world.running("whole")
        assert (await told(service, world.nodes[0]))["mode"] == "Whole"
        pod = await world.client.get(PODS, "part", world.namespace)
        assert not pod["spec"].get("nodeName")


@pytest.mark.parametrize(
    ("labels", "offered", "said", "mode"),
    [
        ({}, {CORE: "450", MGPU: "130040"}, f"it offers 450 of {CORE}", "NotReady"),
        ({}, {CORE: "400", MGPU: "0"}, f"0 of {MGPU}", "NotReady"),
        ({names.MGPU_POLICY: "weird"}, {CORE: "400", MGPU: "130040"}, "is 'weird', none of fixed-share", "MGPU"),
        ({}, {MEMORY: "60"}, f"60 of {MEMORY} and 0 of {COUNT}", "NotReady"),
        ({}, {MEMORY: "61", COUNT: "4"}, "no 4 equal cards", "GPUShare"),
        ({"nvidia.com/gpu.memory": "x"}, {GPU: "4"}, "its label nvidia.com/gpu.memory is 'x'", "Whole"),
    ],
)
async def test_inventory_that_cannot_be_read_is_told_by_an_event_of_the_node(
    world: World, start: Start, labels: dict[str, str], offered: dict[str, str], said: str, mode: str
) -> None:
    await world.play(1, allocatable=BASE | offered, labels={RUN_LABEL: world.run, **labels})
    async with start() as service:
        event = await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default")
        assert said in event["message"]
        shown = await told(service, world.nodes[0])
        assert (shown["mode"], said in shown["cardsIgnored"]) == (mode, True)
