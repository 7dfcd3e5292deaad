"""Parts of cards on nodes of Koordinator, over HTTP: cards by their minors, in one annotation of the binding."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from t9ksched.kube.resources import KOORDINATOR_DEVICES, NODES, PODS
from t9ksched.model import names
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.koordinator import (
    ALLOCATED,
    CORE,
    GPU,
    MEMORY,
    RATIO,
    SEEN,
    SHARED,
    card,
    play,
    report,
)
from tests.integration.world import TIMEOUT, World

CARD = 80 * 1024
"""MiB."""


def ask(world: World, name: str, queue: str, limits: dict[str, Any], **spec: Any) -> Any:
    made = world.pod(name, 0, queue=queue, **spec)
    made["spec"]["containers"][0]["resources"]["limits"] |= {key: str(amount) for key, amount in limits.items()}
    return made


async def given(world: World, name: str) -> dict[int, dict[str, str]]:
    """What stands in the annotation of a pod, by minor; the hook let its container see these cards."""
    (pod,) = await world.running(name)
    notes = pod["metadata"]["annotations"]
    said = json.loads(notes[ALLOCATED])
    assert list(said) == ["gpu"]
    assert notes[SEEN] == ",".join(str(one["minor"]) for one in said["gpu"])
    return {one["minor"]: one["resources"] for one in said["gpu"]}


def held(service: SchedulerService, world: World) -> list[list[tuple[str, int]]]:
    """Pod and MiB of each holder, card by card."""
    shape = node_shape(service.state, world.nodes[0])
    assert shape is not None
    return [sorted((one["pod"], one["memoryMiB"]) for one in each["holders"]) for each in shape["gpus"]]


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


WORDS = [
    ({GPU: 50}, {0: ("50", 40960, "50")}),
    ({GPU: 200}, {0: ("100", CARD, "100"), 1: ("100", CARD, "100")}),
    ({CORE: 30, RATIO: 25}, {0: ("30", 20480, "25")}),
    ({CORE: 30, MEMORY: "8Gi"}, {0: ("30", 8192, "10")}),
    ({MEMORY: "10Gi"}, {0: (None, 10240, "12")}),
    ({RATIO: 20}, {0: (None, 16384, "20")}),
    ({CORE: 100, RATIO: 200}, {0: ("50", CARD, "100"), 1: ("50", CARD, "100")}),
    ({SHARED: 2, CORE: 100, RATIO: 60}, {0: ("50", 24576, "30"), 1: ("50", 24576, "30")}),
    ({SHARED: 2, MEMORY: "20Gi"}, {0: (None, 10240, "12"), 1: (None, 10240, "12")}),
]


@pytest.mark.parametrize(("limits", "cards"), WORDS, ids=[" ".join(each).replace("/", ".") for each, _ in WORDS])
async def test_every_way_to_ask_names_the_cards_and_what_is_given_of_each(
    world: World, start: Start, queue: str, store: Store, limits: Any, cards: Any
) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "p", queue, limits))
        found = await given(world, "p")
        for minor, (core, memory, ratio) in cards.items():
            assert found[minor] == ({CORE: core} if core else {}) | {MEMORY: f"{memory}Mi", RATIO: ratio}
        assert found.keys() == cards.keys()
        before = held(service, world)
        assert before == [[("p", cards[minor][1])] if minor in cards else [] for minor in range(2)]
        (row,) = await store.bindings.all()
        assert [part.memory for part in row.grant.parts] == [memory for _, memory, _ in cards.values()]
    async with start() as service:
        assert held(service, world) == before


async def test_cards_are_filled_one_by_one_and_never_in_sum(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start():
        await world.create(*(ask(world, f"p{at}", queue, {GPU: 60}) for at in range(2)))
        minors = [list(await given(world, f"p{at}")) for at in range(2)]
        assert sorted(minors) == [[0], [1]]
        await world.create(ask(world, "wide", queue, {GPU: 60}))
        assert "2/2 CardInsufficient" in (await world.event(names.EVENT_WAITING, "wide"))["message"]
        await world.create(*(ask(world, f"q{at}", queue, {CORE: 40, MEMORY: "32Gi"}) for at in range(2)))
        assert sorted([list(await given(world, f"q{at}")) for at in range(2)]) == [[0], [1]]


async def test_cards_are_known_by_minor_whatever_their_order_and_gaps(world: World, start: Start, queue: str) -> None:
    rdma = {"type": "rdma", "id": "0000:09:00.0", "minor": 0, "health": True, "resources": {"koordinator.sh/rdma": 100}}
    await play(world, [card(5, "40Gi"), rdma, card(2), card(3, health=False)], cards=2, each=60)
    async with start() as service:
        await world.create(ask(world, "large", queue, {MEMORY: "60Gi"}))
        assert list(await given(world, "large")) == [2]
        await world.create(ask(world, "whole", queue, {GPU: 100}))
        assert await given(world, "whole") == {5: {CORE: "100", MEMORY: "40960Mi", RATIO: "100"}}
        shape = node_shape(service.state, world.nodes[0])
        assert shape is not None
        assert [each["healthy"] for each in shape["gpus"]] == [False, False, True, False, False, True]
        assert shape["gpus"][3]["unhealthyWhy"] == "Koordinator says that it is not healthy"


async def test_a_card_that_fails_gets_no_more_and_says_why(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "p", queue, {GPU: 50}))
        assert list(await given(world, "p")) == [0]
        conditions = [{"type": "Healthy", "status": "False", "reason": "Xid", "message": "Xid 79"}]
        await report(world, [card(0, health=False, conditions=conditions), card(1)])

        async def known() -> bool:
            shape = node_shape(service.state, world.nodes[0])
            return shape is not None and "Xid 79" in (shape["gpus"][0]["unhealthyWhy"] or "")

        await eventually(known)
        await world.create(ask(world, "q", queue, {GPU: 50}))
        assert list(await given(world, "q")) == [1]
        await world.create(ask(world, "more", queue, {GPU: 60}))
        assert "1/2 CardNotHealth" in (await world.event(names.EVENT_WAITING, "more"))["message"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"type": "gpu", "health": True}, "spec.devices[1]: it has no minor"),
        (card(-1), "spec.devices[1]: minor -1 is none"),
        (card(64), "spec.devices[1]: minor 64 is none"),
        (card(0), "spec.devices[1]: minor 0 is that of a device before it"),
        (card(7) | {"id": "GPU-0"}, "spec.devices[1]: its id is another device's"),
        (card(1, "-80Gi"), "spec.devices[1]: resources[koordinator.sh/gpu-memory] of -81920 MiB"),
        (card(1, "9" * 40), "spec.devices[1]: resources[koordinator.sh/gpu-memory] of"),
        (card(1, "much"), "spec.devices[1]: 'much' is not a quantity"),
        (card(1) | {"resources": {CORE: "101", MEMORY: "1Gi"}}, "resources[koordinator.sh/gpu-core] of 101"),
        ("{", "spec.devices[1]: Expected `object`"),
        (3, "spec.devices[1]: Expected `object`"),
    ],
)
async def test_a_device_that_means_nothing_is_named_and_the_others_are_used(
    world: World, start: Start, queue: str, bad: Any, said: str
) -> None:
    await play(world, [card(0), bad])
    async with start():
        await world.create(ask(world, "p", queue, {GPU: 100}))
        assert list(await given(world, "p")) == [0]
        event = await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default")
        assert said in event["message"]


async def test_without_its_report_a_node_gives_nothing(world: World, start: Start, queue: str) -> None:
    await play(world)
    node = world.nodes[0]
    await world.client.delete(KOORDINATOR_DEVICES, node)
    async with start():
        await world.create(ask(world, "p", queue, {GPU: 50}))
        said = (await world.event(names.EVENT_WAITING, "p"))["message"]
        assert "no Device (scheduling.koordinator.sh) of its name says which cards it has" in said
        await report(world, [card(0), card(1)])
        assert list(await given(world, "p")) == [0]


async def test_a_node_that_offers_nothing_now_keeps_its_cards(world: World, start: Start, queue: str) -> None:
    await play(world)
    node = world.nodes[0]
    await world.client.patch(NODES, node, None, {"metadata": {"labels": {"node.koordinator.sh/gpu-model": "A100"}}})
    async with start() as service:
        await world.create(ask(world, "p", queue, {GPU: 50}))
        assert list(await given(world, "p")) == [0]
        none = dict.fromkeys((GPU, CORE, MEMORY, RATIO))
        await world.client.patch(
            NODES, node, None, {"status": {"allocatable": none, "capacity": none}}, subresource="status"
        )
        await report(world, [card(0, health=False), card(1, health=False)])
        await world.create(ask(world, "q", queue, {GPU: 50}))
        await world.event(names.EVENT_WAITING, "q")
        assert held(service, world) == [[("p", 40960)], []]
        back = {GPU: "200", CORE: "200", MEMORY: "160Gi", RATIO: "200"}
        await world.client.patch(
            NODES, node, None, {"status": {"allocatable": back, "capacity": back}}, subresource="status"
        )
        await report(world, [card(0), card(1)])
        await given(world, "q")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({CORE: 50}, f"limits[{CORE}]: needs {MEMORY} or {RATIO} beside it"),
        ({GPU: 50, RATIO: 50}, f"limits[{GPU}]: is cores and memory in one: it stands alone"),
        ({MEMORY: "1Gi", RATIO: 50}, f"limits[{RATIO}]: stands beside {MEMORY}"),
        ({GPU: 150}, f"limits[{GPU}]: 150 is neither a part of one card nor a multiple of 100"),
        ({CORE: 150, MEMORY: "1Gi"}, f"limits[{CORE}]: 150 on 1 cards is 150 on each, and a card has 100"),
        ({SHARED: 2, RATIO: 51}, f"limits[{RATIO}]: 51 cannot be divided by 2 cards"),
        ({SHARED: 1}, f"limits[{SHARED}]: needs {MEMORY} or {RATIO} beside it"),
        ({RATIO: 6500}, f"limits[{RATIO}]: 65 cards: a container can have parts of 1 to 64"),
        ({GPU: 50, "nvidia.com/gpu": 1}, "stands beside whole cards of a device plugin"),
    ],
)
async def test_what_means_nothing_waits_with_its_path(
    world: World, start: Start, queue: str, limits: Any, said: str
) -> None:
    await play(world)
    async with start():
        await world.create(ask(world, "p", queue, limits))
        message = (await world.event(names.EVENT_REFUSED, "p"))["message"]
        assert said in message
        assert "spec.containers[0].resources." in message


async def test_one_container_of_a_pod_asks(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start():
        twice = ask(world, "twice", queue, {RATIO: 40})
        twice["spec"]["containers"].append({**twice["spec"]["containers"][0], "name": "second"})
        await world.create(twice)
        words = "container 'main' asks for it too: the node gives the cards of a pod to all its containers"
        message = (await world.event(names.EVENT_REFUSED, "twice"))["message"]
        assert f"spec.containers[1].resources.limits[{RATIO}]: {words}" in message
        first = ask(world, "first", queue, {RATIO: 40})
        first["spec"]["initContainers"] = [{**first["spec"]["containers"][0], "name": "before"}]
        await world.create(first)
        message = (await world.event(names.EVENT_REFUSED, "first"))["message"]
        assert f"spec.initContainers[0].resources.limits[{RATIO}]: the node gives the cards of a pod to all" in message


def theirs(minor: int, core: Any, memory: Any) -> str:
    return json.dumps({"gpu": [{"minor": minor, "resources": {CORE: core, MEMORY: memory, RATIO: 50}}], "rdma": []})


@pytest.mark.parametrize("limits", [{GPU: 50}, {CORE: 50, RATIO: 50}, {RATIO: 50}])
async def test_cards_of_pods_that_koordinator_bound_are_left_to_them(
    world: World, start: Start, queue: str, limits: Any
) -> None:
    await play(world)
    made = ask(world, "theirs", "", limits, annotations={ALLOCATED: theirs(1, 50, "40Gi")})
    await world.create(made | {"spec": made["spec"] | {"schedulerName": "koord-scheduler"}})
    await world.bind("theirs", world.nodes[0])
    await world.running("theirs")
    async with start() as service:
        assert held(service, world) == [[], [("theirs", 40960)]]
        await world.create(ask(world, "p", queue, {GPU: 100}))
        assert list(await given(world, "p")) == [0]
        await world.create(ask(world, "q", queue, {GPU: 60}))
        assert "2/2 CardInsufficientCore" in (await world.event(names.EVENT_WAITING, "q"))["message"]
        await world.create(ask(world, "r", queue, {CORE: 50, MEMORY: "40Gi"}))
        assert list(await given(world, "r")) == [1]


async def test_whole_cards_that_koordinator_gave_by_the_plugins_name_are_left_too(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    both = {"nvidia.com/gpu": "2"}
    await world.client.patch(
        NODES, world.nodes[0], None, {"status": {"allocatable": both, "capacity": both}}, subresource="status"
    )
    made = world.pod("theirs", 1, annotations={ALLOCATED: theirs(0, 100, "80Gi")})
    await world.create(made | {"spec": made["spec"] | {"schedulerName": "koord-scheduler"}})
    await world.bind("theirs", world.nodes[0])
    await world.running("theirs")
    async with start() as service:
        assert held(service, world) == [[("theirs", CARD)], []]
        await world.create(ask(world, "p", queue, {GPU: 50}))
        assert list(await given(world, "p")) == [1]


async def test_a_pod_of_another_scheduler_on_unknown_cards_may_be_on_any(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    made = ask(world, "theirs", "", {RATIO: 50}, annotations={ALLOCATED: theirs(7, 50, "40Gi")})
    await world.create(made | {"spec": made["spec"] | {"schedulerName": "koord-scheduler"}})
    await world.bind("theirs", world.nodes[0])
    await world.running("theirs")
    async with start():
        await world.create(ask(world, "p", queue, {GPU: 10}))
        await world.event(names.EVENT_WAITING, "p")
        await world.client.delete(PODS, "theirs", world.namespace)
        await given(world, "p")


FORGED = [
    theirs(1, 50, "40Gi"),
    theirs(7, 50, "40Gi"),
    theirs(0, -50, "40Gi"),
    theirs(0, 50, "9" * 40),
    theirs(0, 50, "much"),
    '{"gpu": [{"minor": "x"}]}',
    "{",
    "[" * 5000,
    "[]",
    "",
    None,
]


@pytest.mark.parametrize("text", FORGED, ids=[str(at) for at in range(len(FORGED))])
async def test_a_forged_annotation_moves_nothing(world: World, start: Start, queue: str, text: str | None) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "victim", queue, {GPU: 60}))
        genuine = await given(world, "victim")
        assert list(genuine) == [0]
        await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": {ALLOCATED: text}}})
        await world.event(names.EVENT_CARD_DRIFT, "victim")
        await world.create(ask(world, "a", queue, {GPU: 60}))
        assert list(await given(world, "a")) == [1]
    async with start() as service:
        assert held(service, world) == [[("victim", 49152)], [("a", 49152)]]
    mended = json.dumps({"gpu": [{"minor": 0, "resources": genuine[0]}]})
    await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": {ALLOCATED: mended}}})
