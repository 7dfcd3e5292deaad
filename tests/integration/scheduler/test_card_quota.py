"""A quota of physical cards on nodes with parts of cards and with MIG slices: kept, told, and after a restart."""

from typing import Any

import aiohttp

from t9ksched.kube.resources import PODS, QUEUES
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_parts import CORE, MEMORY, V100S, part
from tests.integration.scheduler.test_metrics import SECRET, values
from tests.integration.world import GPU, RUN_LABEL, World

SLICE = "nvidia.com/mig-1g.5gb"


def slices(world: World, name: str, count: int, queue: str) -> dict[str, Any]:
    made = world.pod(name, 0, queue=queue)
    made["spec"]["containers"][0]["resources"]["limits"] |= {SLICE: str(count)}
    return made


async def told(service: SchedulerService, queue: str) -> tuple[str, float]:
    """What status and metrics say that the queue has of cards."""
    async with aiohttp.ClientSession(headers=SECRET) as session:
        async with session.get(f"{service.address}/internal/v1/queues/{queue}") as answer:
            status = await answer.json()
        async with session.get(f"{service.address}/metrics") as answer:
            page = await answer.text()
    return status["allocated"]["cards"], values(page, "t9ksched_queue_allocated", queue=queue)["cards", "card"]


async def test_a_quota_of_cards_that_are_divided(world: World, start: Start, store: Store) -> None:
    await world.play(1, allocatable=V100S, labels={RUN_LABEL: world.run, "vke.node.gpu.schedule": "mgpu"})
    name = f"{world.run}-cards"
    quota = {"quota": {"requests": {"cards": 2.5}}}
    await store.queues.create(name, {}, world.queue_spec | quota, {"everyone": True})
    async with start() as service:
        await world.create(part(world, "half", 30, 16_255, name), part(world, "one", 100, None, name))
        await world.running("half", "one")
        assert await told(service, name) == ("1.5", 1.5)
        await world.create(part(world, "two", 200, None, name))
        said = (await world.event(names.EVENT_WAITING, "two"))["message"]
        assert f"needs 2 cards, queue '{name}' has 1 of 2.5 left" in said
        async with aiohttp.ClientSession(headers=SECRET) as session:
            url = f"{service.address}/internal/v1/jobs/{world.namespace}/Pod/two/explanation"
            async with session.get(url) as answer:
                explained = await answer.json()
        assert [explained["reasons"][0][key] for key in ("needs", "has")] == [{"cards": "2"}, {"cards": "1"}]
        holders = {one["job"].rpartition("/")[2]: (one["gpus"], one["holds"]) for one in explained["holders"]}
        assert holders == {"half": (1, {"cards": "0.5"}), "one": (1, {"cards": "1"})}
        await world.create(part(world, "rest", 100, None, name))
        await world.running("rest")
        status = await world.until(QUEUES, name, lambda obj: obj["status"]["allocated"]["cards"] == "2.5", "t9k-system")
        assert "cards" in status["status"]["conditions"][1]["message"]
        await world.create(part(world, "more", 1, 256, name), part(world, "too-many", 300, None, name))
        said = (await world.event(names.EVENT_WAITING, "more"))["message"]
        assert f"needs 0.01 cards, queue '{name}' has 0 of 2.5 left" in said
        said = (await world.event(names.EVENT_REFUSED, "too-many"))["message"]
        assert "cards: needs 3, the whole quota is 2.5" in said
        await world.client.delete(PODS, "too-many", world.namespace, grace=0)
    async with start() as service:
        assert await told(service, name) == ("2.5", 2.5), "counted again from what is bound"
        await world.client.delete(PODS, "one", world.namespace, grace=0)
        await world.running("more")
        assert await told(service, name) == ("1.51", 1.51)


async def test_a_quota_of_slices_and_whole_cards(world: World, start: Start, store: Store) -> None:
    await world.play(1, allocatable={"cpu": "64", "memory": "256Gi", SLICE: "14", GPU: "2"})
    name = f"{world.run}-cards"
    quota = {"quota": {"requests": {"cards": 2, GPU: "4"}}}
    await store.queues.create(name, {}, world.queue_spec | quota, {"everyone": True})
    async with start() as service:
        await world.create(world.pod("whole", 1, queue=name), slices(world, "seven", 7, name))
        await world.running("whole", "seven")
        assert await told(service, name) == ("2", 2)
        await world.create(slices(world, "slice", 1, name))
        said = (await world.event(names.EVENT_WAITING, "slice"))["message"]
        assert f"needs 0.143 cards, queue '{name}' has 0 of 2 left" in said
        await world.client.delete(PODS, "whole", world.namespace, grace=0)
        await world.running("slice")
        assert await told(service, name) == ("1.143", 1.143)


async def test_a_part_of_a_card_goes_where_the_quota_pays_for_it(world: World, start: Start, store: Store) -> None:
    """8,000 MiB are a fourth of a card of 32,510 MiB, and half of one of 16,000 MiB."""
    labels = {RUN_LABEL: world.run, "vke.node.gpu.schedule": "mgpu"}
    small = {"cpu": "64", "memory": "256Gi", CORE: "400", MEMORY: "64000"}
    await world.play(1, allocatable=V100S, labels=labels)
    await world.play(1, allocatable=small, labels=labels, name=f"{world.run}-a")
    name = f"{world.run}-cards"
    quota = {"quota": {"requests": {"cards": "0.495"}}}
    await store.queues.create(name, {}, world.queue_spec | quota, {"everyone": True})
    async with start():
        made = [part(world, one, 10, 8_000, name) for one in ("one", "two", "three")]
        await world.create(made[0])
        await world.running("one")
        await world.create(made[1])
        await world.running("two")
        pods = [await world.client.get(PODS, one, world.namespace) for one in ("one", "two")]
        assert {pod["spec"]["nodeName"] for pod in pods} == {world.nodes[0]}
        await world.create(made[2])
        said = (await world.event(names.EVENT_WAITING, "three"))["message"]
        assert "needs 0.246 cards" in said
