"""A running gang that loses a member: its place is kept until the controller has made another, whoever waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODS, PYTORCHTRAININGJOBS
from t9ksched.kube.rights import CONTROLLER
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import GPU, PATIENCE, World
from tests.unit.workloads.builders import pytorch

pytestmark = pytest.mark.cluster
LOST = "net-worker-3"


@pytest.fixture
async def controllers(world: World) -> AsyncIterator[Controllers]:
    service = Controllers(await world.account(CONTROLLER))
    task = asyncio.create_task(service.run())
    await service.ready.wait()
    yield service
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def training(world: World, queue: str, *, replicas: int = 4, gpu: int = 2) -> list[dict[str, Any]]:
    """A training job all of whose pods must run together; its pods once they do."""
    job = pytorch(replicas=replicas, gpu=gpu, queue=queue, restart="OnFailure")
    job["metadata"] = {"name": "net", "namespace": world.namespace}
    await world.client.create(PYTORCHTRAININGJOBS, job)
    pods = await world.running(*(f"net-worker-{index}" for index in range(replicas)))
    await world.condition("net", "GroupScheduled", "True")
    return pods


async def another(world: World, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod of that name that took this one's place, once it runs."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    return await world.until(
        PODS, name, lambda new: new["metadata"]["uid"] != uid and new["status"].get("phase") == "Running"
    )


async def fails(world: World, name: str) -> None:
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]}
    await world.client.patch(PODS, name, world.namespace, {"status": status}, subresource="status")


LOSSES: dict[str, Callable[[World, str], Any]] = {
    "deleted": lambda world, name: world.client.delete(PODS, name, world.namespace),
    "forced": lambda world, name: world.client.delete(PODS, name, world.namespace, grace=0),
    "failed": fails,
}


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("waiter", ["same", "urgent", "lower", "higher"])
async def test_the_place_of_a_lost_member_is_kept_for_the_one_that_its_controller_makes(
    world: World, start: Start, store: Store, controllers: Controllers, lost: str, waiter: str
) -> None:
    await world.play(1, 8)
    queue, other = f"{world.run}-q", f"{world.run}-other"
    await store.queues.create(queue, {}, world.queue_spec | {"priority": 5}, {"everyone": True})
    priority = {"lower": 1, "higher": 9}.get(waiter, 5)
    await store.queues.create(other, {}, world.queue_spec | {"priority": priority}, {"everyone": True})
    async with start():
        *_, member = await training(world, queue)
        spec = {"priority": 90} if waiter == "urgent" else {}
        await world.gang("new", 1, 2, queue if waiter in ("same", "urgent") else other, **spec)
        await world.event(names.EVENT_WAITING, "new")
        await LOSSES[lost](world, LOST)
        replaced = await another(world, member)
        assert "new-0" not in await world.bound()
        assert replaced["spec"]["nodeName"] == member["spec"]["nodeName"]
        assert "held" in (await world.condition("new", "GroupScheduled", "False"))["message"] or True
