"""Cards that cannot be where the record has them, injected on the dev cluster: found, told, and never given twice."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_parts import ASSUMED, CORE, INDEX, MEMORY, part
from tests.integration.scheduler.test_card_parts import play as play_mgpu
from tests.integration.world import GPU, TIMEOUT, World

KEY = f"{names.GPU_INDEX_PREFIX}main"


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)


def shape(service: SchedulerService, world: World) -> dict[str, Any]:
    found = node_shape(service.state, world.nodes[0])
    assert found is not None
    return found


async def misheld(service: SchedulerService, world: World, *pods: str) -> None:
    """Exactly these pods are told to hold cards that cannot be theirs, by `nodes` and the metric."""
    await until(lambda: [one["pod"] for one in shape(service, world)["cardsMisheld"]] == list(pods))
    assert f"t9ksched_cards_misheld_pods {len(pods)}".encode() in await service.metrics()


async def offer(world: World, **amounts: str) -> None:
    """What the node offers from now on."""
    named = {name.replace("__", "/"): text for name, text in amounts.items()}
    status = {"status": {"allocatable": named, "capacity": named}}
    await world.client.patch(NODES, world.nodes[0], None, status, subresource="status")


async def test_a_card_is_gone(world: World, start: Start, queue: str) -> None:
    """Which card that was is unknown, as others may have other indices now: none is given until its holder is gone."""
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    async with start() as service:
        await world.create(world.pod("a", 2, queue=queue), world.pod("b", 1, queue=queue))
        await world.running("a", "b")
        await offer(world, **{GPU: "0"})
        await until(lambda: shape(service, world)["allocatable"][GPU] == "0")
        assert shape(service, world)["cardsMisheld"] == [], "its device plugin starts anew"
        await offer(world, **{GPU: "2"})
        await misheld(service, world, "b")
        said = (await world.event(names.EVENT_CARD_DRIFT, "b"))["message"]
        assert f"card 2 of {GPU}, which it holds, is gone: node {world.nodes[0]} has 2" in said
        await world.client.delete(PODS, "a", world.namespace, grace=0)
        await world.create(world.pod("c", 1, queue=queue))
        assert f"holds card 2 of {GPU}, which is gone" in await world.node_or_reason("c")
    async with start() as service:
        await misheld(service, world, "b")
        assert f"holds card 2 of {GPU}, which is gone" in await world.node_or_reason("c")
        await world.client.delete(PODS, "b", world.namespace, grace=0)
        (pod,) = await world.running("c")
        assert pod["metadata"]["annotations"][KEY] == "0"
        await misheld(service, world)


async def test_a_card_that_comes_back(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    async with start() as service:
        await world.create(world.pod("a", 4, queue=queue))
        await world.running("a")
        await offer(world, **{GPU: "3"})
        await misheld(service, world, "a")
        await offer(world, **{GPU: "4"})
        await misheld(service, world)
        assert not shape(service, world)["cardsUnknown"]


@pytest.mark.parametrize("of", [0, 2])
async def test_a_card_that_another_schedulers_pod_says_it_has(world: World, start: Start, queue: str, of: int) -> None:
    """After a restart nothing but its annotation tells which card a foreign pod has, and its owner can write that."""
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)
    node = world.nodes[0]
    async with start() as service:
        await world.create(world.pod("ours", 1, queue=queue))
        await world.running("ours")
        await world.create(world.pod("theirs", 1, schedulerName="another"))
        await world.bind("theirs", node)
        await world.until(PODS, "theirs", lambda pod: pod["metadata"].get("annotations", {}).get(KEY) == "3")
        await until(
            lambda: [bool(card["holders"]) for card in shape(service, world)["gpus"]] == [True, False, False, True]
        )
        await misheld(service, world)
    await world.client.patch(PODS, "theirs", world.namespace, {"metadata": {"annotations": {KEY: str(of)}}})
    async with start() as service:
        if of:  # a card that nobody has: it cannot be told from the truth, and the node says no
            await misheld(service, world)
            return
        await misheld(service, world, "ours", "theirs")
        said = (await world.event(names.EVENT_CARD_DRIFT, "ours"))["message"]
        assert f"another pod holds card 0 of {GPU} of node {node}, which it holds, too" in said
        await world.event(names.EVENT_CARD_DRIFT, "theirs")
        await world.create(world.pod("more", 1, queue=queue))
        assert "another scheduler runs there on cards that others hold" in await world.node_or_reason("more")
        await world.client.delete(PODS, "theirs", world.namespace, grace=0)
        await world.running("more")
        await misheld(service, world)


async def test_parts_that_another_schedulers_pod_says_it_has(world: World, start: Start, queue: str) -> None:
    await play_mgpu(world)
    mine = {INDEX: "3", ASSUMED: "true"}
    async with start() as service:
        await world.create(part(world, "ours", 60, 20_000, queue))
        await world.running("ours")
        await world.create(part(world, "theirs", 60, 20_000, "", annotations=mine))
        await world.bind("theirs", world.nodes[0])
        await world.running("theirs")
        await misheld(service, world)
    await world.client.patch(PODS, "theirs", world.namespace, {"metadata": {"annotations": mine | {INDEX: "0"}}})
    async with start() as service:
        await misheld(service, world, "ours", "theirs")
        await world.create(part(world, "more", 40, 12_510, queue))
        await world.event(names.EVENT_WAITING, "more")
        assert "more" not in await world.bound()
    await world.client.patch(PODS, "theirs", world.namespace, {"metadata": {"annotations": mine}})


async def test_a_card_of_mgpu_is_gone(world: World, start: Start, queue: str) -> None:
    await play_mgpu(world)
    async with start() as service:
        await world.create(*(part(world, f"p{at}", 100, None, queue) for at in range(4)))
        await world.running(*(f"p{at}" for at in range(4)))
        await offer(world, **{CORE: "300", MEMORY: "97530"})
        await until(lambda: len(shape(service, world)["cardsMisheld"]) == 1)
        (one,) = shape(service, world)["cardsMisheld"]
        assert f"card 3 of {CORE}, which it holds, is gone" in one["what"]
        for at in range(4):
            if f"p{at}" != one["pod"]:
                await world.client.delete(PODS, f"p{at}", world.namespace, grace=0)
        await world.create(part(world, "more", 10, 256, queue))
        await world.event(names.EVENT_WAITING, "more")
        await world.client.delete(PODS, one["pod"], world.namespace, grace=0)
        await world.running("more")
