"""The metrics page as a scraper reads it, the secret of the rest, and the status of queues by REST and as an object."""

from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from t9ksched.kube.resources import QUEUES
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, World

SECRET = {"Authorization": f"Bearer {'s' * 20}"}


def values(page: str, family: str, **labels: str) -> dict[tuple[str, str], float]:
    """`(resource, unit)` to value of the samples of a family with those labels."""
    return {
        (sample.labels["resource"], sample.labels["unit"]): sample.value
        for found in text_string_to_metric_families(page)
        for sample in found.samples
        if sample.name == family and labels.items() <= sample.labels.items()
    }


async def test_requests_by_node_and_the_secret(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start() as service, aiohttp.ClientSession() as session:
        await world.create(world.pod("a", 2, queue=queue))
        await world.running("a")
        async with session.get(f"{service.address}/metrics") as answer:
            page = await answer.text()
        node = world.nodes[0]
        wanted = {(GPU, "integer"): 2, ("cpu", "core"): 1, ("memory", "byte"): 2**30}
        assert values(page, "T9kScheduler_node_resource_requests", node=node) == wanted
        assert values(page, "t9ksched_queue_allocated", queue=queue) == wanted
        async with session.get(f"{service.address}/internal/v1/nodes") as answer:
            assert answer.status == 401
        async with session.get(f"{service.address}/internal/v1/nodes/{node}", headers=SECRET) as answer:
            shape = await answer.json()
        assert shape["cardMode"] == names.HONOURS_INDEX
        assert [holder["pod"] for gpu in shape["gpus"] for holder in gpu["holders"]] == ["a", "a"]


async def test_object_and_rest_tell_the_same_of_a_queue(world: World, start: Start, store: Store) -> None:
    await world.play(1, 4)
    name = f"{world.run}-counted"
    spec = world.queue_spec | {"quota": {"requests": {"pods": "2", GPU: "8"}}}
    await store.queues.create(name, {}, spec, {"everyone": True})

    async def asked(address: str) -> dict[str, Any]:
        url = f"{address}/internal/v1/queues/{name}"
        async with aiohttp.ClientSession(headers=SECRET) as session, session.get(url) as answer:
            return dict(await answer.json())

    def tells(status: dict[str, Any]) -> Any:
        return lambda obj: obj.get("status") == status

    async with start() as service:
        await world.create(world.pod("a", 1, queue=name), world.pod("b", 1, queue=name))
        await world.running("a", "b")
        status = await asked(service.address)
        assert status["allocated"] == {"pods": "2", GPU: "2", "cpu": "2", "memory": "2Gi"}
        assert {one["type"]: one["status"] for one in status["conditions"]}["ResourcePressure"] == "True", "of pods"
        await world.until(QUEUES, name, tells(status), names.SYSTEM_NAMESPACE)
        assert await asked(service.address) == status
    async with start() as again:
        assert (await asked(again.address))["conditions"] == status["conditions"], "a restart is no transition"
