"""Nodes whose accelerators are not whole cards by index, and more cards than have indices, from outside."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import ClientSession

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.model.quantity import CARD
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.history import BOUND, Event
from t9ksched.store.spans import Span
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import RUN_LABEL, World

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
SECRET = {"Authorization": f"Bearer {'s' * 20}"}
ANY: Any = {"annotations": {names.GPU_MODE_ANNOTATION: "any"}}
BOTH = pytest.mark.parametrize("card_mode", ["honours-index", "plugin-chooses"])


async def charged(store: Store) -> list[Span]:
    """The pods whose card-hours are counted now, once there are any."""
    async with asyncio.timeout(90):
        while True:
            spans = [span async for page in store.usage.running(datetime.now(UTC)) for span in page]
            if spans:
                return spans
            await asyncio.sleep(0.1)


async def told(service: SchedulerService, node: str) -> dict[str, Any]:
    """The node as the scheduler shows it."""
    async with (
        ClientSession() as session,
        session.get(f"{service.address}/internal/v1/nodes/{node}", headers=SECRET) as answer,
    ):
        return dict(await answer.json())


def asks(pod: dict[str, Any], **amounts: str) -> dict[str, Any]:
    """The pod with other requests."""
    more = {key.replace("__", "/").replace("_", "-"): value for key, value in amounts.items()}
    for part in pod["spec"]["containers"][0]["resources"].values():
        part.update(more)
    return pod


def indices(pod: dict[str, Any]) -> list[str]:
    """The annotations that name cards by index."""
    return [key for key in pod["metadata"].get("annotations") or {} if key.startswith(names.GPU_INDEX_PREFIX)]


@BOTH
async def test_more_than_64_cards_are_all_used_and_counted(
    world: World, start: Start, queue: str, store: Store, card_mode: str
) -> None:
    await world.play(1, 80, cardMode=card_mode)
    async with start() as service:
        await world.gang("g", 10, 8, queue)
        pods = await world.running(*(f"g-{at}" for at in range(10)))
        assert [indices(pod) for pod in pods] == [[]] * 10
        node = await told(service, world.nodes[0])
        assert (node["mode"], node["gpus"]) == ("Whole", [])
        (counted,) = node["counted"]
        assert (counted["resource"], counted["has"], counted["held"]) == (GPU, 80, 80)
        await world.create(world.pod("one-more", 1, queue=queue))
        waits = await world.event(names.EVENT_WAITING, "one-more")
        assert "best has 0 free" in waits["message"]
        spans = await charged(store)
        assert {(len(span.cards), span.resource) for span in spans} == {(8, GPU)}
        assert all(card < 0 for span in spans for card in span.cards), "they are nameless"


@BOTH
async def test_slices_are_counted_and_get_no_index(
    world: World, start: Start, queue: str, store: Store, card_mode: str
) -> None:
    labels = {RUN_LABEL: world.run, PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/mig.strategy": "single"}
    await world.play(1, 7, cardMode=card_mode, labels=labels)
    async with start() as service:
        await world.create(world.pod("p", 3, queue=queue, **ANY))
        (pod,) = await world.running("p")
        assert indices(pod) == []
        node = await told(service, world.nodes[0])
        assert (node["mode"], node["gpus"]) == ("MIGSingle", [])
        assert [(one["resource"], one["has"], one["held"]) for one in node["counted"]] == [(GPU, 7, 3)]
        events: list[Event] = []
        async with asyncio.timeout(90):
            while not events:
                await asyncio.sleep(0.1)
                events = await store.history.list(event=BOUND, namespace=world.namespace)
        assert (events[0].detail["counted"], events[0].detail["mode"]) == ({GPU: 3}, "MIGSingle")
        assert events[0].detail["physicalCards"] == 0.4285714
        (span,) = await charged(store)
        assert (span.cards, span.worth, span.model) == ((-3, -2, -1), 3 * CARD // 7, "NVIDIA-A100-SXM4-40GB")


TIME_SLICED = {"nvidia.com/gpu.sharing-strategy": "time-slicing"}
SLICED = {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}


@pytest.mark.parametrize(("layout", "mode"), [(TIME_SLICED, "TimeSliced"), (SLICED, "MIGSingle")])
async def test_a_pod_that_was_counted_may_hold_any_card_once_its_node_has_whole_cards(
    world: World, start: Start, queue: str, layout: dict[str, str], mode: str
) -> None:
    """The verdict is the same while running and after a restart; the layout may change to and fro."""
    await world.play(1, 8, cardMode="honours-index", labels={RUN_LABEL: world.run, **layout})
    node = world.nodes[0]

    async def lay_out(whole: bool) -> dict[str, Any]:
        labels = dict.fromkeys(layout) if whole else layout
        await world.client.patch(NODES, node, None, {"metadata": {"labels": labels}})
        async with asyncio.timeout(90):
            while True:
                shape = await told(service, node)
                if shape["mode"] == ("Whole" if whole else mode):
                    return shape
                await asyncio.sleep(0.05)

    async with start() as service:
        await world.create(world.pod("before", 4, queue=queue, **ANY))
        await world.running("before")
        shape = await lay_out(True)
        assert (shape["cardDrift"], shape["cardsUnknown"]) == (1, 1)
        await world.create(world.pod("after", 4, queue=queue, **ANY))
        assert "not on record" in await world.node_or_reason("after")
        assert "not on record" in (await world.event(names.EVENT_CARD_DRIFT, "before"))["message"]
        shape = await lay_out(False)
        assert (shape["cardDrift"], shape["cardsUnknown"]) == (0, 0)
        await world.running("after")
        shape = await lay_out(True)
        assert shape["cardsUnknown"] == 2
    async with start() as service:
        await world.create(world.pod("last", 4, queue=queue, **ANY))
        assert "not on record" in await world.node_or_reason("last")
        assert (await told(service, node))["cardsUnknown"] == 2
        for name in ("before", "after"):
            await world.client.delete(PODS, name, world.namespace, grace=0)
        (last,) = await world.running("last")
        assert indices(last)
        assert (await told(service, node))["cardsUnknown"] == 0


async def test_a_layout_in_the_making_keeps_pods_that_ask_for_gpus_away(world: World, start: Start, queue: str) -> None:
    state = "nvidia.com/mig.config.state"
    await world.play(1, 8, labels={RUN_LABEL: world.run, state: "pending"})
    async with start() as service:
        await world.create(world.pod("cpu", 0, queue=queue), world.pod("card", 1, queue=queue))
        await world.running("cpu")
        waits = await world.event(names.EVENT_WAITING, "card")
        assert "has GPUs that are not ready" in waits["message"]
        assert (await told(service, world.nodes[0]))["mode"] == "NotReady"
        await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"labels": {state: "success"}}})
        (card,) = await world.running("card")
        assert indices(card)
        assert (await told(service, world.nodes[0]))["mode"] == "Whole"


@pytest.mark.parametrize(
    "amounts",
    [
        {"aliyun.com__gpu_core.percentage": "50", "aliyun.com__gpu_mem": "8"},
    ],
    ids=["gpushare with compute"],
)
async def test_shares_of_cards_wait_and_are_told_why(
    world: World, start: Start, queue: str, amounts: dict[str, str]
) -> None:
    has = {name.replace("__", "/").replace("_", "-"): "100000" for name in amounts if name != GPU}
    await world.play(1, 8, allocatable={"cpu": "64", "memory": "256Gi", GPU: "8", **has})
    async with start() as service:
        await world.create(asks(world.pod("share", 0, queue=queue), **amounts))
        waits = await world.event(names.EVENT_WAITING, "share")
        assert "shares of cards" in waits["message"]
        (gang,) = service.state.pending
        assert [str(reason.code) for reason in gang.reasons] == ["UnsupportedClaim"]
        await world.create(world.pod("whole", 1, queue=queue))
        await world.running("whole")


async def test_what_the_gpu_operator_does_on_a_node_is_told_and_holds_pods_back(
    world: World, start: Start, queue: str
) -> None:
    pci = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.deploy.driver": "true"}
    await world.play(1, 0, labels={RUN_LABEL: world.run, **pci})
    name = world.nodes[0]
    async with start() as service:
        await world.create(world.pod("a", 1, queue=queue))
        waits = await world.event(names.EVENT_WAITING, "a")
        assert f"{name} (nvidia.com/gpu.deploy.driver=true: it has NVIDIA cards" in waits["message"]
        await world.create(world.pod("b", 0, queue=queue))
        await world.running("b")
        node = await told(service, name)
        assert (node["mode"], node["gpus"]) == ("NotReady", [])
        assert node["notReady"].startswith("nvidia.com/gpu.deploy.driver=true")
        offered = {"status": {"allocatable": {GPU: "2"}, "capacity": {GPU: "2"}}}
        state = "nvidia.com/gpu-driver-upgrade-state"
        await world.client.patch(NODES, name, None, {"metadata": {"labels": {state: "drain-required"}}})
        await world.client.patch(NODES, name, None, offered, subresource="status")
        async with asyncio.timeout(60):
            while len((node := await told(service, name))["gpus"]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert node["notReady"] == f"{state}=drain-required: its driver is being upgraded"
        assert not (await world.client.get(PODS, "a", world.namespace))["spec"].get("nodeName")
        await world.client.patch(NODES, name, None, {"metadata": {"labels": {state: "upgrade-done"}}})
        await world.running("a")
