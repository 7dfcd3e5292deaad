"""Parts of the memory of cards on nodes of gpushare, over HTTP: one pod of an amount at a time on a node."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.scheduler.act.node_turns import TurnTimeouts
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import RUN_LABEL, TIMEOUT, World

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
INDEX, OF_POD, OF_CARD, ASSIGNED, ASSUME_TIME = (
    f"ALIYUN_COM_GPU_MEM_{name}" for name in ("IDX", "POD", "DEV", "ASSIGNED", "ASSUME_TIME")
)
GIVEN = "devcluster.tensorstack.dev/gpushare-container-main"


async def play(world: World, cards: int = 2, each: int = 16, nodes: int = 1) -> None:
    offered = {"cpu": "64", "memory": "256Gi", MEMORY: str(each * cards), COUNT: str(cards)}
    await world.play(nodes, allocatable=offered, labels={RUN_LABEL: world.run})


def ask(world: World, name: str, queue: str, amount: int, **spec: Any) -> Any:
    made = world.pod(name, 0, queue=queue, **spec)
    made["spec"]["containers"][0]["resources"]["limits"] |= {MEMORY: str(amount)}
    return made


async def given(world: World, *pods: str) -> list[str]:
    """Which card the node gave each pod; the scheduler named the same."""
    found = []
    for name in pods:
        await world.running(name)
        pod = await world.until(PODS, name, lambda pod: pod["metadata"]["annotations"].get(ASSIGNED) == "true")
        notes = pod["metadata"]["annotations"]
        assert notes[GIVEN] == notes[INDEX]
        assert len(notes[ASSUME_TIME]) == 19, "nanoseconds"
        found.append(notes[INDEX])
    return found


def held(service: SchedulerService, world: World) -> list[list[tuple[str, int]]]:
    """Pod and MiB of each holder, card by card."""
    shape = node_shape(service.state, world.nodes[0])
    assert shape is not None
    return [sorted((one["pod"], one["memoryMiB"]) for one in card["holders"]) for card in shape["gpus"]]


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("each", "unit"), [(16, 1024), (16_160, 1)])
async def test_a_card_is_filled_in_the_unit_of_its_node(
    world: World, start: Start, queue: str, store: Store, each: int, unit: int
) -> None:
    await play(world, each=each)
    large, small = each * 3 // 4, each - each * 3 // 4
    async with start() as service:
        await world.create(*(ask(world, f"l{at}", queue, large) for at in range(2)))
        assert sorted(await given(world, "l0", "l1")) == ["0", "1"]
        await world.create(*(ask(world, f"s{at}", queue, small) for at in range(2)))
        assert sorted(await given(world, "s0", "s1")) == ["0", "1"]
        notes = (await world.client.get(PODS, "l0", world.namespace))["metadata"]["annotations"]
        assert (notes[OF_POD], notes[OF_CARD]) == (str(large), str(each))
        for (_, most), (_, rest) in held(service, world):
            assert (most, rest) == (large * unit, small * unit)
        await world.create(ask(world, "more", queue, 1))
        assert "2/2 CardInsufficientMemory" in (await world.event(names.EVENT_WAITING, "more"))["message"]
        before = held(service, world)
        rows = {row.name: row for row in await store.bindings.all()}
        assert [part.memory for part in rows["l0"].grant.parts] == [large * unit]
    async with start() as service:
        assert held(service, world) == before


async def test_equal_pods_get_the_cards_that_are_named_to_them(world: World, start: Start, queue: str) -> None:
    """The plugin tells pods apart by their amounts alone: bound at once, they could swap cards."""
    await play(world, cards=4)
    async with start():
        await world.create(*(ask(world, f"p{at}", queue, 10) for at in range(4)))
        assert sorted(await given(world, *(f"p{at}" for at in range(4)))) == ["0", "1", "2", "3"]


async def test_another_schedulers_pod_of_that_amount_is_waited_for(world: World, start: Start, queue: str) -> None:
    await play(world)
    node = world.nodes[0]
    world.faults.silent.add(node)
    notes = {INDEX: "1", OF_POD: "10", OF_CARD: "16", ASSIGNED: "false", ASSUME_TIME: "1700000000000000000"}
    theirs = ask(world, "theirs", "", 10, annotations=notes)
    await world.create(theirs | {"spec": theirs["spec"] | {"schedulerName": "gpushare"}})
    await world.bind("theirs", node)
    async with start() as service:
        await world.create(ask(world, "p", queue, 10))

        async def charged() -> bool:
            return held(service, world) == [[("p", 10 * 1024)], [("theirs", 10 * 1024)]]

        await eventually(charged)
        assert list(await world.bound()) == ["theirs"]
        await world.create(ask(world, "other", queue, 6))
        world.faults.silent.discard(node)
        assert await given(world, "theirs", "p") == ["1", "0"]
        await given(world, "other")


async def test_a_pod_that_runs_without_its_card_is_evicted(world: World, start: Start, queue: str) -> None:
    await play(world)
    node = world.nodes[0]
    world.faults.silent.add(node)
    async with start() as service:
        service.executor.turns.timeouts = TurnTimeouts(look=0.05)
        await world.create(ask(world, "p", queue, 10))
        await world.until(PODS, "p", lambda pod: pod["spec"].get("nodeName"))
        # An edit of its annotation: the plugin does not find the card, and starts the container without one.
        await world.client.patch(PODS, "p", world.namespace, {"metadata": {"annotations": {INDEX: "7"}}})
        world.faults.silent.discard(node)
        assert "gave the pod no cards" in (await world.event(names.EVENT_REFUSED, "p"))["message"]
        await world.gone(PODS, "p")
        assert held(service, world) == [[], []]


async def test_a_pod_without_an_answer_is_evicted_also_by_the_next_scheduler(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    world.faults.silent.add(world.nodes[0])
    async with start():
        await world.create(ask(world, "stuck", queue, 10))
        await world.until(PODS, "stuck", lambda pod: pod["spec"].get("nodeName"))
    async with start() as service:
        service.executor.turns.timeouts = TurnTimeouts(busy=0.1, answer=0.2, look=0.05)
        await world.client.patch(PODS, "stuck", world.namespace, {"metadata": {"annotations": {"note": "1"}}})
        await world.until(PODS, "stuck", lambda pod: pod["metadata"].get("deletionTimestamp"))
        world.faults.silent.clear()
        await world.gone(PODS, "stuck")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_binding_whose_answer_is_lost_is_one(world: World, start: Start, queue: str, when: Any) -> None:
    await play(world)
    world.faults.rules = [Rule("create", "pods/binding", drop=when, count=1)]
    async with start() as service:
        await world.create(ask(world, "p", queue, 10))
        assert await given(world, "p") == ["0"]
        assert held(service, world) == [[("p", 10 * 1024)], []]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({COUNT: "1"}, f"spec.containers[0].resources.limits[{COUNT}]: needs {MEMORY} beside it"),
        ({MEMORY: "4", COUNT: "2"}, f"limits[{COUNT}]: 2 cards: the node gives a container a part of one card"),
    ],
)
async def test_what_means_nothing_waits_with_its_path(
    world: World, start: Start, queue: str, limits: dict[str, str], said: str
) -> None:
    await play(world)
    async with start():
        made = world.pod("p", 0, queue=queue)
        made["spec"]["containers"][0]["resources"]["limits"] |= limits
        await world.create(made)
        assert said in (await world.event(names.EVENT_REFUSED, "p"))["message"]
        twice = ask(world, "twice", queue, 4)
        twice["spec"]["containers"].append({**twice["spec"]["containers"][0], "name": "second"})
        await world.create(twice)
        words = "the node gives a card to one container of a pod"
        assert (
            f"spec.containers[1].resources.limits[{MEMORY}]: container 'main' asks for it too: {words}"
            in ((await world.event(names.EVENT_REFUSED, "twice"))["message"])
        )


async def test_a_node_with_a_card_that_does_not_work_gives_none(world: World, start: Start, queue: str) -> None:
    await play(world)
    less = {"status": {"allocatable": {MEMORY: "16"}, "capacity": {MEMORY: "32", COUNT: "2"}}}
    await world.client.patch(NODES, world.nodes[0], None, less, subresource="status")
    async with start():
        await world.create(ask(world, "p", queue, 4))
        said = (await world.event(names.EVENT_WAITING, "p"))["message"]
        assert f"it offers 16 of its 32 of {MEMORY}: which of its cards do not work is unknown" in said


@pytest.mark.parametrize(
    ("key", "text"), [(INDEX, "1"), (INDEX, None), (OF_POD, "1"), (OF_POD, "-5"), (INDEX, "9" * 30)]
)
async def test_a_forged_annotation_moves_nothing(
    world: World, start: Start, queue: str, key: str, text: str | None
) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "victim", queue, 12))
        assert await given(world, "victim") == ["0"]
        await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": {key: text}}})
        await world.event(names.EVENT_CARD_DRIFT, "victim")
        await world.create(ask(world, "a", queue, 12))
        assert await given(world, "a") == ["1"]
    async with start() as service:
        assert held(service, world) == [[("victim", 12 * 1024)], [("a", 12 * 1024)]]
    genuine = {INDEX: "0", OF_POD: "12"}
    await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": genuine}})
