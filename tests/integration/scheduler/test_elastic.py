"""Elastic jobs from outside: they grow to what they expect as room allows, and shrink, never below their minimum."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_preemption import queues
from tests.integration.world import World
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.workloads.builders import pytorch

PREEMPT = Policy(actions=("allocate", "preempt"))


@asynccontextmanager
async def controllers(world: World) -> AsyncIterator[None]:
    """The job controllers beside the scheduler."""
    service = Controllers(await world.account(CONTROLLER))
    task = asyncio.create_task(service.run())
    await service.ready.wait()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def submit(world: World, queue: str, low: int, expected: int) -> None:
    job = pytorch(gpu=1, queue=queue)
    job["metadata"] = {"name": "net", "namespace": world.namespace}
    job["spec"]["torchrunConfig"] = {"enabled": True}
    job["spec"]["elastic"] = {
        "enabled": True,
        "minReplicas": low,
        "maxReplicas": 8,
        "expectedReplicas": expected,
    }
    await world.create(job)


def members(*indices: int) -> list[str]:
    return [f"net-worker-{at}" for at in indices]


async def ends(world: World, name: str) -> None:
    """The pod ends well and is gone: no replacement takes its room."""
    await world.client.patch(PODS, name, world.namespace, {"status": {"phase": "Succeeded"}}, subresource="status")
    await world.client.delete(PODS, name, world.namespace, grace=0)


async def test_a_job_grows_shrinks_for_a_waiting_minimum_and_grows_again(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, q={"priority": 1})
    queue = f"{world.run}-q"
    await world.play(2, 2)
    async with start(policy=PREEMPT), controllers(world):
        await submit(world, queue, 2, 4)
        before = await world.running(*members(0, 1, 2, 3))
        await world.gang("other", 2, 1, queue)
        told = await world.event(names.EVENT_PREEMPTED, "net")
        assert "yield to a waiting job of their queue" in told["message"]
        await world.running("other-0", "other-1")
        assert set(await world.bound()) == {*members(0, 1), "other-0", "other-1"}, "the highest indices went"
        for name in members(2, 3):  # its controller makes them anew; they wait, and preempt no pod
            pod = await world.until(PODS, name, lambda pod: not pod["metadata"].get("deletionTimestamp"))
            assert "nodeName" not in pod["spec"]
        await world.gang("third", 1, 1, queue)
        await world.event(names.EVENT_WAITING, "third")
        assert set(await world.bound()) == {*members(0, 1), "other-0", "other-1"}, "no gang goes below its minimum"
        await ends(world, "third-0")
        for pod in ("other-0", "other-1"):
            await ends(world, pod)
        await world.client.delete(PODGROUPS, "other", world.namespace)
        after = await world.running(*members(0, 1, 2, 3))
        assert [pod["metadata"]["uid"] for pod in after[:2]] == [pod["metadata"]["uid"] for pod in before[:2]]


async def test_a_job_starts_at_its_minimum_and_takes_room_as_it_comes(world: World, start: Start, store: Store) -> None:
    await queues(world, store, q={})
    queue = f"{world.run}-q"
    await world.play(1, 4)
    async with start(policy=PREEMPT), controllers(world):
        await world.gang("first", 1, 2, queue)
        await world.running("first-0")
        await submit(world, queue, 2, 4)
        await world.running(*members(0, 1))
        assert len(await world.bound()) == 3
        await ends(world, "first-0")
        await world.running(*members(2, 3))
        fewer = {"spec": {"elastic": {"expectedReplicas": 3}}}
        await world.client.patch(PYTORCHTRAININGJOBS, "net", world.namespace, fewer)
        await world.gone(PODS, "net-worker-3")
        assert set(await world.bound()) == set(members(0, 1, 2))


@pytest.mark.parametrize(
    ("ordering", "passes"), [("BestEffort", True), ("Strict", False), ("Backfill", True)], ids=lambda one: str(one)
)
async def test_which_gangs_may_pass_a_blocked_one(
    world: World, start: Start, store: Store, ordering: str, passes: bool
) -> None:
    """`Backfill` plans no starts yet and acts as `BestEffort`."""
    await queues(world, store, q={"ordering": ordering})
    queue = f"{world.run}-q"
    await world.play(1, 4)
    async with start():
        await world.gang("runs", 1, 2, queue)
        await world.running("runs-0")
        await world.gang("large", 1, 4, queue, priority=9)
        await world.event(names.EVENT_WAITING, "large")
        await world.gang("small", 1, 1, queue)
        await world.create(world.group("free", 1, queue), world.pod("free-0", 0, group="free"))
        if passes:
            await world.running("small-0", "free-0")
            return
        told = await world.event(names.EVENT_WAITING, "small")
        assert "keeps strict order: position 1 waits for room" in told["message"]
        assert set(await world.bound()) == {"runs-0"}
        await ends(world, "runs-0")
        await world.running("large-0")
        assert "small-0" not in await world.bound()
