"""A running gang that loses a member: its place is kept until the controller has made another, whichever gangs wait."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import NODES, PODGROUPS, PODS, REPLICASETS
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.model import names
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.service import SchedulerService
from t9ksched.scheduler.state import refill
from t9ksched.store.store import Store
from t9ksched.workloads import replica
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.workloads.builders import pytorch

pytestmark = pytest.mark.cluster
LOST = "net-worker-3"
PREEMPT = Policy(actions=("allocate", "preempt"))


@pytest.fixture
async def controllers(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controllers]:
    """Controllers that make a pod that failed anew without long pauses."""
    monkeypatch.setattr(replica, "MAX_DELAY", 0.1)
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


async def succeeds(world: World, name: str) -> None:
    """The pod ends well: no replacement takes its room."""
    await world.client.patch(PODS, name, world.namespace, {"status": {"phase": "Succeeded"}}, subresource="status")


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


async def queues(world: World, store: Store, **specs: dict[str, Any]) -> None:
    for name, spec in specs.items():
        await store.queues.create(f"{world.run}-{name}", {}, world.queue_spec | spec, {"everyone": True})


async def test_what_waits_is_told_for_whom_room_is_kept_and_the_gang_that_it_is(
    world: World, start: Start, queue: str
) -> None:
    """Without a controller: no replacement is made in this test."""
    await world.play(1, 8)
    async with start() as service:
        await world.gang("old", 4, 2, queue)
        await world.running(*(f"old-{index}" for index in range(4)))
        await world.gang("new", 1, 2, queue, priority=90)
        await world.event(names.EVENT_WAITING, "new")
        await world.client.delete(PODS, "old-3", world.namespace)
        await world.condition("new", "GroupScheduled", "False", "HeldForOther")
        told = await explained(service, "new")
        assert [(one["job"], one["gpus"], bool(one["until"])) for one in told["holders"]] == [
            (f"{world.namespace}/PodGroup/old", 8, False),
        ]
        waits = await explained(service, "old")
        assert [reason["message"] for reason in waits["reasons"]] == [
            "has 3 of 4 members",
            f"room for 1 lost member is kept on {world.nodes[0]}",
        ]
        await world.create(world.pod("old-4", 2, group="old"))
        await world.running("old-4")
        assert "new-0" not in await world.bound()
        await world.condition("new", "GroupScheduled", "False", "InsufficientResources")  # the room is kept no longer
        assert (await explained(service, "new"))["reasons"][0]["code"] == "InsufficientResources"


async def explained(service: SchedulerService, name: str) -> dict[str, Any]:
    (gang,) = (gang for gang in service.state.gangs.values() if gang.name == name)
    view = observed_job(service.state, gang.uid)
    assert view is not None
    return await explanation(view, service.state)


async def test_room_is_not_kept_for_a_job_that_is_paused_and_it_comes_back_as_what_waits(
    world: World, start: Start, queue: str, controllers: Controllers
) -> None:
    await world.play(1, 8)
    async with start():
        await training(world, queue)
        await world.gang("new", 1, 2, queue)
        await world.event(names.EVENT_WAITING, "new")
        await pause(world, True)
        await world.running("new-0")
        await world.gang("urgent", 1, 6, queue, priority=90)
        await world.running("urgent-0")
        await pause(world, False)
        await world.event(names.EVENT_WAITING, "net")
        await world.gang("first", 1, 6, queue, priority=90)
        await world.event(names.EVENT_WAITING, "first")
        for name in ("new-0", "urgent-0"):
            await succeeds(world, name)
        await world.running("first-0")
        assert "net-worker-0" not in await world.bound()


async def pause(world: World, paused: bool) -> None:
    body = {"spec": {"runMode": {"pause": {"enabled": paused}}}}
    await world.client.patch(PYTORCHTRAININGJOBS, "net", world.namespace, body)


async def test_room_of_a_job_that_is_deleted_is_free_at_once(
    world: World, start: Start, queue: str, controllers: Controllers
) -> None:
    await world.play(1, 8)
    async with start():
        await training(world, queue)
        await world.gang("new", 1, 8, queue)
        await world.event(names.EVENT_WAITING, "new")
        await world.client.delete(PYTORCHTRAININGJOBS, "net", world.namespace)
        await world.running("new-0")


async def test_room_is_free_when_the_controller_of_the_pods_is_gone(world: World, start: Start, queue: str) -> None:
    """The PodGroup was made by hand and stays, the ReplicaSet goes with its pods."""
    await world.play(1, 8)
    async with start():
        group = {"apiVersion": names.SCHEDULER_API, "kind": "PodGroup", "metadata": {"name": "web"}}
        spec = {"minMember": 4, "queue": queue}
        await world.client.create(PODGROUPS, group | {"spec": spec}, world.namespace)
        pod = world.pod("x", 2, group="web")
        template = {"metadata": {"labels": pod["metadata"]["labels"] | {"app": "web"}}, "spec": pod["spec"]}
        template["spec"].pop("restartPolicy", None)
        web = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": web}
        await world.client.create(REPLICASETS, made, world.namespace)
        await world.condition("web", "GroupScheduled", "True")
        await world.gang("new", 1, 8, queue)
        await world.event(names.EVENT_WAITING, "new")
        await world.client.delete(REPLICASETS, "web", world.namespace)
        await world.running("new-0")


async def test_a_gang_that_was_evicted_whole_waits_like_any_other(
    world: World, start: Start, store: Store, controllers: Controllers
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 8)
    async with start(policy=PREEMPT):
        await training(world, f"{world.run}-low")
        await world.gang("high", 1, 8, f"{world.run}-high")
        await world.running("high-0")
        await world.condition("net", "Evicted", "True", "Preempted")
        await world.event(names.EVENT_WAITING, "net")
        await world.gang("urgent", 1, 8, f"{world.run}-low", priority=90)
        await world.event(names.EVENT_WAITING, "urgent")
        await succeeds(world, "high-0")
        await world.running("urgent-0")
        assert "net-worker-0" not in await world.bound()


async def test_only_a_gang_that_may_evict_the_whole_takes_room_that_is_kept(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, safe={"priority": 1, "preemptible": False}, high={"priority": 9})
    await world.play(1, 8)
    async with start(policy=PREEMPT):
        for name in ("safe", "low"):
            await world.gang(name, 2, 2, f"{world.run}-{name}")
            await world.running(f"{name}-0", f"{name}-1")
            await world.condition(name, "GroupScheduled", "True")
        for name in ("safe", "low"):
            await world.client.delete(PODS, f"{name}-1", world.namespace)
            await world.gone(PODS, f"{name}-1")
        await world.gang("high", 1, 4, f"{world.run}-high")
        await world.event(names.EVENT_PREEMPTED, "low")
        await world.running("high-0")
        await world.create(world.pod("safe-2", 2, group="safe"))
        await world.running("safe-2")
        assert set(await world.bound()) == {"safe-0", "safe-2", "high-0"}


async def test_a_member_whose_node_is_of_no_use_has_the_first_room_that_fits(
    world: World, start: Start, queue: str
) -> None:
    await world.play(3, 4)
    async with start():
        await world.create(world.pod("filler", 4, queue=queue))
        await world.running("filler")
        await world.gang("old", 2, 4, queue)
        lost, _ = await world.running("old-0", "old-1")
        await world.condition("old", "GroupScheduled", "True")
        await world.client.patch(NODES, lost["spec"]["nodeName"], None, {"spec": {"unschedulable": True}})
        await world.client.delete(PODS, "old-0", world.namespace)
        await world.gone(PODS, "old-0")
        await world.gang("new", 1, 4, queue, priority=90)
        await world.event(names.EVENT_WAITING, "new")
        await world.client.delete(PODS, "filler", world.namespace)
        await world.condition("new", "GroupScheduled", "False", "HeldForOther")
        await world.create(world.pod("old-2", 4, group="old"))
        await world.running("old-2")
        assert "new-0" not in await world.bound()


@pytest.mark.parametrize("fuller", ["the node where it fails", "the other node"])
async def test_a_member_that_failed_twice_on_a_node_goes_elsewhere_though_its_gang_was_whole_in_between(
    world: World, start: Start, queue: str, controllers: Controllers, fuller: str
) -> None:
    await world.play(3, 4)
    async with start():
        pods = await training(world, queue, replicas=2, gpu=4)
        first = pods[1]["spec"]["nodeName"]
        (other,) = set(world.nodes) - {pod["spec"]["nodeName"] for pod in pods}
        crowded = first if fuller == "the node where it fails" else other
        await world.create(world.pod("crowd", 0, nodeName=crowded))
        await world.running("crowd")
        places = []
        for _ in range(3):
            await fails(world, "net-worker-1")
            pods[1] = await another(world, pods[1])
            await world.condition("net", "GroupScheduled", "True")
            places.append(pods[1]["spec"]["nodeName"])
        assert places == [first, other, other]


async def test_a_member_that_fails_again_and_again_stays_where_no_other_node_has_room(
    world: World, start: Start, queue: str, controllers: Controllers
) -> None:
    await world.play(1, 8)
    async with start():
        *_, member = await training(world, queue)
        for _ in range(3):
            await fails(world, LOST)
            member = await another(world, member)


async def test_a_member_lost_while_no_scheduler_runs_has_its_place_back(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, q={"priority": 5}, other={"priority": 9})
    await world.play(1, 8)
    async with start() as service:
        await world.gang("old", 4, 2, f"{world.run}-q")
        await world.running(*(f"old-{index}" for index in range(4)))
        await world.condition("old", "GroupScheduled", "True")
        await service.sql_writer.flushed()
    await world.client.delete(PODS, "old-3", world.namespace)
    await world.gone(PODS, "old-3")
    await world.gang("new", 1, 2, f"{world.run}-other")
    async with start():
        await world.condition("new", "GroupScheduled", "False", "HeldForOther")
        await world.create(world.pod("old-4", 2, group="old"))
        await world.running("old-4")
        assert "new-0" not in await world.bound()


async def test_nothing_is_kept_for_a_member_that_failed_and_is_not_made_anew(
    world: World, start: Start, queue: str, controllers: Controllers
) -> None:
    await world.play(1, 4)
    job = pytorch(replicas=1, gpu=2, queue=queue)
    (worker,) = job["spec"]["replicaSpecs"]
    job["spec"]["replicaSpecs"] = [{**worker, "type": "m"}, {**worker, "type": "w", "restartPolicy": "Never"}]
    job["metadata"] = {"name": "net", "namespace": world.namespace}
    async with start() as service:
        await world.client.create(PYTORCHTRAININGJOBS, job)
        await world.running("net-m-0", "net-w-0")
        await world.condition("net", "GroupScheduled", "True")
        await world.gang("new", 1, 2, queue)
        await world.event(names.EVENT_WAITING, "new")
        await fails(world, "net-w-0")
        await world.running("new-0")
        view = observed_job(service.state, next(iter(service.state.jobs)))
        assert view is not None
        told = await explanation(view, service.state)
        assert (told["verdict"], told["reasons"], told["position"]) == ("Placed", [], None)
        assert [note["message"] for note in told["warnings"]] == ["pod net-w-0 ended with exit code 1"]
        assert told["job"]["members"]["min"] == 1


async def test_nothing_is_kept_for_a_job_of_which_all_pods_have_ended(
    world: World, start: Start, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what nobody controls the pods alone say that it is over: their room is free at once, not after a minute."""
    monkeypatch.setattr(refill, "UNCONTROLLED_NS", refill.GANG_RECOVERY_TIMEOUT_SECONDS * 10**9)
    await world.play(1, 8)
    async with start() as service:
        await world.gang("old", 3, 2, queue)
        await world.running("old-0", "old-1", "old-2")
        await world.condition("old", "GroupScheduled", "True")
        await fails(world, "old-1")
        await world.gang("new", 4, 2, queue)
        await world.event(names.EVENT_WAITING, "new")
        await fails(world, "old-0")
        await world.client.delete(PODS, "old-0", world.namespace)
        await succeeds(world, "old-2")
        await world.running(*(f"new-{index}" for index in range(4)))
        told = await explained(service, "old")
        assert (told["verdict"], told["position"]) == ("Finished", None)


async def test_what_was_told_of_kept_room_is_not_told_when_it_is_kept_no_longer(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 8)
    async with start(gang_recovery_timeout=1) as service:
        await world.gang("old", 4, 2, queue)
        await world.running(*(f"old-{index}" for index in range(4)))
        await world.condition("old", "GroupScheduled", "True")
        await world.client.delete(PODS, "old-3", world.namespace)
        await world.gang("new", 1, 2, queue)
        await world.running("new-0")
        told = await explained(service, "old")
        assert [reason["message"] for reason in told["reasons"]] == [
            "3 of 4 members have a place, and no pod of it waits for one: what runs goes on"
        ]
        assert (told["position"], told["unblocks"]) == (None, ["its other pods are created again"])
