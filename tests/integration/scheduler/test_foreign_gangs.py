"""Jobs of other projects start whole: their pods, as their controllers make them, wait for each other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.kube.resources import JOBS, PODGROUPS, PODS
from t9ksched.model import names
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.foreign import (
    JOBSETS,
    PYTORCHJOBS,
    allow,
    define,
    jobs_of,
    kubeflow_pods,
    looks,
    make,
    pods,
)
from tests.integration.scheduler.test_directions import until
from tests.integration.world import GPU, World

Object = dict[str, Any]


def template(world: World, gpus: int = 1) -> Object:
    amounts = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    return {"spec": {"schedulerName": names.SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container]}}


def jobset(world: World, name: str, queue: str, workers: int = 2, pods_each: int = 2, gpus: int = 1) -> Object:
    def job(count: int) -> Object:
        return {"spec": {"parallelism": count, "completions": count, "template": template(world, gpus)}}

    return {
        "apiVersion": JOBSETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": world.namespace, "labels": {names.QUEUE_LABEL: queue}},
        "spec": {
            "replicatedJobs": [
                {"name": "leader", "template": job(1)},
                {"name": "workers", "replicas": workers, "template": job(pods_each)},
            ]
        },
    }


def pytorch_job(world: World, name: str, queue: str, workers: int = 3, **spec: Any) -> Object:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": world.namespace, "annotations": {names.QUEUE_LABEL: queue}},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template(world)},
                "Worker": {"replicas": workers, "template": template(world)},
            },
            **spec,
        },
    }


async def bound(world: World, count: int) -> dict[str, str]:
    """The pods with nodes, once there are so many."""
    async for found in looks(world):
        if sum(bool(node) for node in found.values()) == count:
            return {name: node for name, node in found.items() if node}
    raise AssertionError


async def settled(said: Callable[[], bool]) -> None:
    """What was said is said still a moment later."""
    await until(said)
    for _ in range(10):
        await asyncio.sleep(0.05)
        assert said()


@pytest.fixture
async def projects(world: World) -> None:
    await define(world, JOBSETS, PYTORCHJOBS)
    await allow(world, "jobset", "kubeflow-training")


@pytest.mark.usefixtures("projects")
async def test_a_jobset_starts_whole_over_its_jobs(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    async with start() as service:
        made = await world.client.create(JOBSETS, jobset(world, "train", queue))
        leader, *workers = jobs_of(made)
        await make(world, leader, workers[0])
        await settled(lambda: any(one.name == "JobSet/train" and one.reasons for one in service.state.pending))
        (gang,) = [one for one in service.state.pending if not one.virtual]
        assert [str(one.code) for one in gang.reasons] == ["GangIncomplete"]
        assert not any((await pods(world)).values())
        await make(world, workers[1])
        await bound(world, 5)
        assert gang.queue == queue
        assert (gang.spec.min_member, dict(gang.spec.roles)) == (5, {"leader": 1, "workers": 4})
        assert {one.role for one in gang.members.values()} == {"leader", "workers"}
        uid = made["metadata"]["uid"]
        assert [job.kind for job in service.state.jobs.values()] == ["JobSet"]
        assert service.state.groups_of(uid) == [gang]
    assert (await world.client.list(PODGROUPS, world.namespace)).items == []


@pytest.mark.usefixtures("projects")
async def test_a_pytorch_job_starts_whole(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    async with start() as service:
        made = await world.client.create(PYTORCHJOBS, pytorch_job(world, "train", queue))
        children = kubeflow_pods(made, "pytorchReplicaSpecs")
        await make(world, *children[:3])
        await settled(lambda: any(one.name == "PyTorchJob/train" and one.reasons for one in service.state.pending))
        assert not any((await pods(world)).values())
        await make(world, *children[3:])
        await bound(world, 4)


@pytest.mark.usefixtures("projects")
async def test_a_gang_that_does_not_fit_starts_with_nothing(world: World, start: Start, queue: str) -> None:
    await world.play(1, 4)
    async with start() as service:
        made = await world.client.create(JOBSETS, jobset(world, "large", queue))
        await make(world, *jobs_of(made))
        await settled(
            lambda: any(
                one.reasons and one.reasons[0].code in ("NeverFits", "InsufficientResources")
                for one in service.state.pending
            )
        )
        assert not any((await pods(world)).values())
        # It asks for less now, as its controller does when it is scaled down.
        small = jobset(world, "large", queue, workers=1)
        made["spec"] = small["spec"]
        await world.client.replace(JOBSETS, made)
        await world.client.delete(JOBS, "large-workers-1", world.namespace, propagation="Background")
        await bound(world, 3)


@pytest.mark.usefixtures("projects")
async def test_a_scheduler_that_starts_again_goes_on_with_it(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    async with start() as service:
        made = await world.client.create(JOBSETS, jobset(world, "train", queue))
        await make(world, *jobs_of(made))
        running = await bound(world, 5)
        await until(lambda: all(one.ran for one in service.state.gangs.values()))
        other = await world.client.create(PYTORCHJOBS, pytorch_job(world, "late", queue))
        children = kubeflow_pods(other, "pytorchReplicaSpecs")
        await make(world, *children[:2])
        await until(lambda: any(one.name == "PyTorchJob/late" for one in service.state.pending))
        await service.sql_writer.flushed()
    async with start() as service:
        (gang,) = service.state.groups_of(made["metadata"]["uid"])
        assert (gang.ran, len(gang.members), gang.minimum.members) == (True, 5, 5)
        await world.client.delete(PODS, "late-worker-0", world.namespace, grace=0)
        await make(world, *children[1:3])
        await asyncio.sleep(0.5)
        assert {name: node for name, node in (await pods(world)).items() if node} == running
        # One of the running gang is lost, and comes back before anything new.
        lost = next(iter(running))
        await world.client.delete(PODS, lost, world.namespace, grace=0)
        await bound(world, 5)
        assert all(node == "" for name, node in (await pods(world)).items() if name.startswith("late"))


async def test_without_rights_its_pods_are_placed_one_by_one(world: World, start: Start, queue: str) -> None:
    await define(world, PYTORCHJOBS)
    await world.play(1, 8)
    async with start():
        made = await world.client.create(PYTORCHJOBS, pytorch_job(world, "train", queue))
        first = kubeflow_pods(made, "pytorchReplicaSpecs")[0]
        first["metadata"]["labels"][names.QUEUE_LABEL] = queue
        await make(world, first)
        await bound(world, 1)


async def test_kinds_that_are_installed_later_are_followed(
    world: World, start: Start, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t9ksched.kube.watch.reflector._UNSERVED", 0.5)
    await allow(world, "kubeflow-training")
    await world.play(1, 8)
    async with start() as service:
        await define(world, PYTORCHJOBS)
        made = await world.client.create(PYTORCHJOBS, pytorch_job(world, "train", queue))
        children = kubeflow_pods(made, "pytorchReplicaSpecs")
        await make(world, *children[:3])
        await settled(lambda: any(one.name == "PyTorchJob/train" for one in service.state.pending))
        assert not any((await pods(world)).values())
        await make(world, *children[3:])
        await bound(world, 4)
