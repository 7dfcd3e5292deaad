"""What is accepted is the owner: its replacement pods go on where new work is refused, and more of it is new work."""

from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.kube.resources import DEPLOYMENTS, JOBS, PODS
from t9ksched.model import names
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import SCHEDULING, Stop
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.world import GPU, World

Object = dict[str, Any]


def template(world: World, queue: str, gpus: int = 1, **labels: str) -> Object:
    """A pod template of our scheduler."""
    made = world.pod("x", gpus, queue=queue)
    return {"metadata": {"labels": made["metadata"]["labels"] | labels}, "spec": made["spec"]}


def deployment(world: World, name: str, queue: str, replicas: int = 2, kind: str = "Deployment") -> Object:
    more = {"serviceName": name} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(world, queue, app=name),
            **more,
        },
    }


def batch_job(world: World, name: str, queue: str, **spec: Any) -> Object:
    pods = template(world, queue)
    pods["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 9, "template": pods, **spec},
    }


def made(kind: str, world: World, name: str, queue: str) -> Object:
    return batch_job(world, name, queue) if kind == "Job" else deployment(world, name, queue, kind=kind)


async def pods_of(world: World, count: int, phase: str = "Running") -> dict[str, str]:
    """Names by UID of the pods in that phase, once there are so many."""
    found: dict[str, str] = {}
    async for listed in _looks(world):
        found = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in listed if _is(pod, phase)}
        if len(found) == count:
            return found
    raise AssertionError(found)


def _is(pod: Object, phase: str) -> bool:
    return (pod.get("status") or {}).get("phase") == phase and not pod["metadata"].get("deletionTimestamp")


async def _looks(world: World) -> Any:
    import asyncio

    async with asyncio.timeout(90):
        while True:
            listed = await world.client.list(PODS, world.namespace)
            yield listed.items
            async for _ in world.client.watch(
                PODS, world.namespace, resource_version=listed.resource_version, timeout=1
            ):
                break


async def replaced(world: World, running: dict[str, str]) -> dict[str, str]:
    """Delete one of the pods; those that run once there are as many again."""
    uid, name = next(iter(running.items()))
    await world.client.delete(PODS, name, world.namespace, grace=0)
    async for listed in _looks(world):
        found = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in listed if _is(pod, "Running")}
        if len(found) == len(running) and uid not in found:
            return found
    raise AssertionError


async def shut(store: Store, queue: str, how: str) -> None:
    await store.queues.edit(queue, lambda old: (old.labels, old.spec | {"closed": True}), draining=how == "drained")


@pytest.mark.parametrize("how", ["closed", "drained"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
async def test_a_replacement_goes_on_in_a_queue_that_was_shut(
    world: World, start: Start, queue: str, store: Store, kind: str, how: str
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(made(kind, world, "work", queue))
        running = await pods_of(world, 2)
        await shut(store, queue, how)
        await until(lambda: service.state.queues[queue].spec.closed)
        running = await replaced(world, running)
        await world.create(world.pod("late", 1, queue=queue))
        await until(lambda: any(gang.reasons for gang in service.state.pending))
        await service.sql_writer.flushed()
    async with start() as service:
        await replaced(world, running)
        (late,) = service.state.pending
        assert (late.name, [str(one.code) for one in late.reasons]) == ("late", ["QueueClosed"])
        assert ("is draining" in late.reasons[0].message) == (how == "drained")


async def test_more_of_it_is_new_work(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(deployment(world, "web", queue))
        running = await pods_of(world, 2)
        await shut(store, queue, "closed")
        await until(lambda: service.state.queues[queue].spec.closed)
        await world.client.patch(DEPLOYMENTS, "web", world.namespace, {"spec": {"replicas": 3}})
        await until(lambda: any(gang.reasons for gang in service.state.pending))
        (more,) = service.state.pending
        assert [(str(one.code), one.refused) for one in more.reasons] == [("QueueClosed", True)]
        await replaced(world, running)
        await store.queues.edit(queue, lambda old: (old.labels, {}), draining=False)
        running = await pods_of(world, 3)
        await shut(store, queue, "closed")
        await until(lambda: service.state.queues[queue].spec.closed)
        await replaced(world, running)


async def test_accepted_at_the_door_while_scheduling_is_stopped(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 8)
    now = datetime.now(UTC)
    await store.stops.stop(Stop(SCHEDULING, None, "ann", now))
    async with start() as service:
        job = await world.create(batch_job(world, "by-rest", queue))
        row = Acceptance(
            uid=job["metadata"]["uid"],
            kind="Job",
            namespace=world.namespace,
            name="by-rest",
            submitter="ann",
            queue=queue,
        )
        await store.acceptances.put_many([row])
        await world.create(deployment(world, "by-kubectl", queue))
        await until(lambda: len(service.state.pending) == 4)
        await until(lambda: len([one for one in service.state.acceptances.values() if one.replicas]) >= 2)
        await service.sql_writer.flushed()
        await shut(store, queue, "closed")
        await until(lambda: service.state.queues[queue].spec.closed)
    async with start():
        await store.stops.resume(SCHEDULING, "ann")
        await pods_of(world, 4)


async def test_what_was_accepted_and_never_started_stays_in_a_queue_that_drains(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(deployment(world, "runs", queue))
        running = await pods_of(world, 2)
        await world.create(batch_job(world, "waits", queue))
        await until(lambda: len([gang for gang in service.state.pending if gang.reasons]) == 2)
        await shut(store, queue, "drained")
        await until(lambda: service.state.queues[queue].draining)
        await replaced(world, running)
        assert {str(one.code) for gang in service.state.pending for one in gang.reasons} == {"QueueClosed"}


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
async def test_a_member_no_more_keeps_what_runs_and_gets_no_replacement(
    world: World, start: Start, store: Store, queue: str, kind: str
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(made(kind, world, "work", queue))
        running = await pods_of(world, 2)
        await store.queues.set_members(queue, {})
        uid, name = next(iter(running.items()))
        await until(
            lambda: (
                not service.state.permissions.access(
                    service.state.gangs_by_uid[uid], service.state.queues[queue]
                ).allowed
            )
        )
        await world.client.delete(PODS, name, world.namespace, grace=0)
        await until(lambda: any(gang.reasons for gang in service.state.pending))
        (gang,) = service.state.pending
        assert [(str(one.code), one.refused) for one in gang.reasons] == [("NotPermitted", False)]
        left = await pods_of(world, 1)
        assert set(left) < set(running)
        await store.queues.set_members(queue, {"everyone": True})
        await pods_of(world, 2)


async def test_an_owner_that_is_gone_is_forgotten(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 8)
    async with start() as service:
        job = await world.create(batch_job(world, "work", queue))
        await pods_of(world, 2)
        uid = job["metadata"]["uid"]
        await until(lambda: uid in service.state.acceptances)
        assert service.state.knows(uid)
        await world.client.delete(JOBS, "work", world.namespace, propagation="Background")
        await until(lambda: not service.state.knows(uid))


async def test_a_group_made_by_hand_is_rejected_like_a_submission_though_its_pods_come_one_by_one(
    world: World, start: Start, store: Store
) -> None:
    queue = f"{world.run}-small"
    spec = world.queue_spec | {"quota": {"requests": {GPU: "4"}}, "overQuota": "Reject"}
    await store.queues.create(queue, {}, spec, {"everyone": True})
    await world.play(1, 8)
    async with start() as service:
        await world.gang("held", 1, 3, queue)
        await world.running("held-0")
        await world.create(world.group("g", 2, queue), world.pod("g-0", 1, group="g"))
        await world.condition("g", "GroupScheduled", "False", "GangIncomplete")
        await world.create(world.pod("g-1", 1, group="g"))
        told = await world.event(names.EVENT_REFUSED, "g")
        assert "needs 2" in told["message"]
        assert service.state.gangs[world.namespace, "g"].acceptance is None
