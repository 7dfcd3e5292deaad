"""Annotations about cards that nobody wrote who may, in the words of all dialects: told, each anew, without effect."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from t9ksched.kube.resources import EVENTS, PODS
from t9ksched.model import names
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from tests.integration.scheduler import koordinator, test_gpushare, test_hami, test_koordinator
from tests.integration.scheduler import test_card_parts as mgpu
from tests.integration.scheduler.conftest import Start
from tests.integration.world import TIMEOUT, World

OURS, MGPU = names.GPU_INDEX_PREFIX, "vke.volcengine.com/gpu-index-container-"
MINOR = '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"100"}}]}'


async def whole(world: World) -> None:
    await world.play(1, 4, cardMode=names.HONOURS_INDEX)


SYSTEMS: dict[str, tuple[Callable[[World], Awaitable[None]], Callable[[World, str, str], Any]]] = {
    "whole": (whole, lambda world, name, queue: world.pod(name, 1, queue=queue)),
    "mgpu": (mgpu.play, lambda world, name, queue: mgpu.part(world, name, 30, 1024, queue)),
    "hami": (test_hami.play, lambda world, name, queue: test_hami.ask(world, name, queue, 4000, 25)),
    "gpushare": (test_gpushare.play, lambda world, name, queue: test_gpushare.ask(world, name, queue, 4)),
    "koordinator": (
        koordinator.play,
        lambda world, name, queue: test_koordinator.ask(world, name, queue, {koordinator.GPU: 50}),
    ),
}


async def patch(world: World, pod: str, **texts: str | None) -> None:
    await world.client.patch(PODS, pod, world.namespace, {"metadata": {"annotations": texts}})


async def drift_events(world: World, pod: str, holds: Callable[[list[Any]], bool]) -> list[Any]:
    """The events about cards of a pod, once they are so."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            listed = (await world.client.list(EVENTS, world.namespace)).items
            mine = [one for one in listed if one["involvedObject"]["name"] == pod]
            found = [one for one in mine if one["reason"] == names.EVENT_CARD_DRIFT]
            if holds(found):
                return found
            await asyncio.sleep(0.05)


def told(*texts: str) -> Callable[[list[Any]], bool]:
    return lambda found: all(any(text in one["message"] for one in found) for text in texts)


def times(text: str, count: int) -> Callable[[list[Any]], bool]:
    return lambda found: [one["count"] for one in found if text in one["message"]] == [count]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def held(service: SchedulerService, world: World) -> list[list[str]]:
    shape = node_shape(service.state, world.nodes[0])
    assert shape is not None
    return [sorted(one["pod"] for one in card["holders"]) for card in shape["gpus"]]


@pytest.mark.parametrize("system", SYSTEMS)
async def test_words_that_nobody_wrote_are_told_and_move_nothing(
    world: World, start: Start, queue: str, system: str
) -> None:
    play, ask = SYSTEMS[system]
    if system == "koordinator":
        await koordinator.serve(world)
    await play(world)
    async with start() as service:
        made = ask(world, "p", queue)
        made["spec"]["containers"].append({"name": "side", "image": "busybox"})
        await world.create(made, world.pod("bare", 0, queue=queue))
        await world.running("p", "bare")
        await until(lambda: any(held(service, world)))
        before = held(service, world)
        assert service.state.cards.drifting == {}
        for pod, texts in (("p", {f"{OURS}side": "3"}), ("bare", {f"{MGPU}main": "1", names.MGPU_ASSUMED: "true"})):
            await patch(world, pod, **texts)
            await drift_events(world, pod, told(*texts, "remove the annotation"))
        await patch(world, "bare", **{koordinator.ALLOCATED: MINOR, test_hami.NODE: world.nodes[0]})
        await drift_events(world, "bare", told("1 more"))
        assert held(service, world) == before
        await world.create(ask(world, "next", queue))
        await world.running("next")
        assert len(service.state.cards.drifting) == 2
    async with start() as service:
        await until(lambda: len(service.state.cards.drifting) == 2)
        assert [[pod for pod in pods if pod != "next"] for pods in held(service, world)] == before
        everything = dict.fromkeys((f"{MGPU}main", names.MGPU_ASSUMED, koordinator.ALLOCATED, test_hami.NODE))
        await patch(world, "p", **{f"{OURS}side": None})
        await patch(world, "bare", **everything)
        await until(lambda: not service.state.cards.drifting)


async def test_each_newer_forgery_has_a_newer_event(world: World, start: Start, queue: str) -> None:
    await whole(world)
    key = f"{OURS}main"
    async with start() as service:
        await world.create(world.pod("p", 1, queue=queue))
        await world.running("p")
        for text in ("1", "2", "1,2"):
            await patch(world, "p", **{key: text})
            await drift_events(world, "p", told(f"says {text!r}"))
        long = "7" * 150
        await patch(world, "p", **{key: f"{long}1"})
        (shown,) = [one for one in await drift_events(world, "p", told("777…")) if "777…" in one["message"]]
        await patch(world, "p", **{key: f"{long}2"})
        await drift_events(world, "p", lambda found: any(one["count"] > shown["count"] for one in found))
        await patch(world, "p", **{key: "0"})
        await until(lambda: not service.state.cards.drifting)
        for count in (2, 3):
            await patch(world, "p", **{key: "2"})
            await drift_events(world, "p", times("'2'", count))
            await patch(world, "p", **{key: "0"})
            await until(lambda: not service.state.cards.drifting)


async def test_a_pod_of_hami_that_is_to_be_given_other_cards_is_told(world: World, start: Start, queue: str) -> None:
    """Its device plugin gives what stands in `devices-to-allocate`; what is left there may be less, never other."""
    await test_hami.play(world)
    key = test_hami.TO_ALLOCATE
    async with start() as service:
        await world.create(test_hami.ask(world, "p", queue, 4000, 25))
        (given,) = await test_hami.given(world, "p")
        for text in (given + ";", given, ";", ""):
            await patch(world, "p", **{key: text})
            await asyncio.sleep(0)
            assert service.state.cards.drifting == {}
        await patch(world, "p", **{key: "GPU-1,NVIDIA,16000,100:;"})
        await drift_events(world, "p", told(key))
        await patch(world, "p", **{key: ";"})
        await until(lambda: not service.state.cards.drifting)
