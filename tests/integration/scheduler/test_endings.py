"""A job that has ended says why and what it had, also when its pods are gone and after a restart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.resources import NODES, PODS
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store import history
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import TIMEOUT, World
from tests.kinds import MPIJOBS, PYTORCHTRAININGJOBS
from tests.unit.workloads.builders import mpi_v2, pytorch

Object = dict[str, Any]
SECRET = {"Authorization": "Bearer " + "s" * 20}
RUN, EXIT = "devcluster.tensorstack.dev/run-seconds", "devcluster.tensorstack.dev/exit-code"


@pytest.fixture
async def controllers(world: World) -> AsyncIterator[None]:
    service = Controllers(await world.account(CONTROLLER))
    task = asyncio.create_task(service.run())
    await service.ready.wait()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def failing(job: Object, world: World, queue: str, code: int) -> Object:
    """The job in this test's namespace and queue, its last replica type ending with that code."""
    job["metadata"] = {"name": job["metadata"]["name"], "namespace": world.namespace}
    job["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
    annotations = {RUN: "0.2", EXIT: str(code)}
    job["spec"]["replicaSpecs"][-1]["template"]["metadata"] = {"annotations": annotations}
    return job


async def ask(service: SchedulerService, world: World, what: str) -> Any:
    async with aiohttp.ClientSession() as session:
        url = f"{service.address}/internal/v1/jobs/{world.namespace}/{what}"
        async with session.get(url, headers=SECRET) as answer:
            return await answer.json() if answer.status == 200 else None


async def shown(service: SchedulerService, world: World, what: str, holds: Callable[[Object], Any]) -> Object:
    """The job once something holds of it."""
    job: Object = {}
    try:
        async with asyncio.timeout(TIMEOUT):
            while not (job := await ask(service, world, what) or {}) or not holds(job):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{what} did not get there; last seen: {job}") from None
    return job


def numbers(job: Object) -> Object:
    """What must not change any more once the job has ended."""
    kept = ("phase", "gpus", "reason", "startedAt", "finishedAt")
    return {key: job[key] for key in kept} | {key: job["members"][key] for key in ("min", "total", "failed")}


@pytest.mark.cluster
async def test_a_failed_job_whose_pods_are_cleaned_up(
    world: World, start: Start, queue: str, store: Store, controllers: None
) -> None:
    await world.play(1, 8)
    job = pytorch(replicas=2, gpu=2, restart="Never", runPolicy={"cleanUpPolicy": "All"})
    what = "PyTorchTrainingJob/net"
    async with start() as service:
        await world.create(failing(job, world, queue, 3))
        await world.until(PYTORCHTRAININGJOBS, "net", lambda job: (job.get("status") or {}).get("phase") == "Failed")
        for name in ("net-worker-0", "net-worker-1"):
            await world.gone(PODS, name)
        told = await shown(service, world, what, lambda job: job["phase"] == "Failed" and not job["members"]["bound"])
        explained = await ask(service, world, f"{what}/explanation")
        async with asyncio.timeout(TIMEOUT):
            while not (finished := await store.history.list(name="net", event=history.FINISHED)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert told["reason"]["code"] == "ReplicaFailed"
    assert told["reason"]["message"].startswith(
        "pod net-worker-0 ended with exit code 3, and its restart policy is Never"
    )
    assert (told["gpus"], told["members"]["total"], told["members"]["min"]) == (4, 2, 2)
    assert told["startedAt"] <= told["finishedAt"]
    assert explained["verdict"] == "Finished"
    assert [reason["message"] for reason in explained["reasons"]] == [told["reason"]["message"]]
    assert finished[0].detail["message"] == told["reason"]["message"]
    async with start() as service:
        again = await shown(service, world, what, lambda job: job["phase"] == "Failed")
        assert numbers(again) == numbers(told)


@pytest.mark.cluster
async def test_a_failed_mpi_job_whose_pods_are_deleted_by_hand(
    world: World, start: Start, queue: str, controllers: None
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(failing(mpi_v2(replicas=2), world, queue, 137))
        done = await world.until(MPIJOBS, "walk", lambda job: (job.get("status") or {}).get("phase") == "Failed")
        before = await shown(service, world, "MPIJob/walk", lambda job: job["phase"] == "Failed")
        assert "ended with exit code 137 (SIGKILL)" in before["reason"]["message"]
        (failed,) = (each for each in done["status"]["conditions"] if each["type"] == "Failed")
        assert failed["message"] == before["reason"]["message"]
        assert (before["gpus"], before["members"]["total"]) == (4, 3)
        for pod in (await world.client.list(PODS, world.namespace)).items:
            await world.client.delete(PODS, pod["metadata"]["name"], world.namespace, grace=0)
        for name in ("walk-launcher-0", "walk-worker-0", "walk-worker-1"):
            await world.gone(PODS, name)
        after = await shown(service, world, "MPIJob/walk", lambda job: not job["members"]["bound"])
        assert {**numbers(after), "failed": 0} == {**numbers(before), "failed": 0}


@pytest.mark.cluster
async def test_a_failed_batch_job(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    pod = world.pod("x", 2, queue=queue, restartPolicy="Never")
    template = {"metadata": {"labels": pod["metadata"]["labels"], "annotations": {RUN: "0.2", EXIT: "7"}}}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "batch", "namespace": world.namespace},
        "spec": {"backoffLimit": 0, "template": template | {"spec": pod["spec"]}},
    }
    async with start() as service:
        await world.create(body)
        job = await shown(service, world, "Job/batch", lambda job: job["phase"] == "Failed")
        assert (job["gpus"], job["members"]["total"], job["members"]["failed"]) == (2, 1, 1)
        assert job["reason"]["code"] == "BackoffLimitExceeded"
        assert "ended with exit code 7" in job["reason"]["message"]


async def last_end(world: World, *names: str) -> str:
    """When the last container of these pods ended."""
    pods = [await world.client.get(PODS, name, world.namespace) for name in names]
    ends = [each["state"]["terminated"]["finishedAt"] for pod in pods for each in pod["status"]["containerStatuses"]]
    return str(max(ends))


@pytest.mark.cluster
async def test_failed_pods_and_groups_by_hand(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    dying = {"annotations": {RUN: "0.2", EXIT: "137"}, "restartPolicy": "Never"}
    async with start() as service:
        await world.create(world.pod("alone", 2, queue=queue, **dying))
        job = await shown(service, world, "Pod/alone", lambda job: job["phase"] == "Failed")
        assert job["reason"] == {"code": "PodFailed", "message": "pod alone ended with exit code 137 (SIGKILL)"}
        assert (job["gpus"], job["members"]["failed"]) == (2, 1)
        assert job["startedAt"] <= job["finishedAt"]
        await world.create(world.group("pair", 2, queue))
        for index in (0, 1):
            dying = {"annotations": {RUN: "0.2", EXIT: str(index)}, "restartPolicy": "Never"}
            await world.create(world.pod(f"pair-{index}", 1, group="pair", **dying))
        job = await shown(service, world, "PodGroup/pair", lambda job: job["phase"] == "Failed")
        assert job["reason"]["message"] == "pod pair-1 ended with exit code 1"
        assert (job["gpus"], job["members"]["total"]) == (2, 2)
        assert job["finishedAt"] == await last_end(world, "pair-0", "pair-1")
        await world.create(world.pod("done", 1, queue=queue, annotations={RUN: "0.2"}, restartPolicy="Never"))
        job = await shown(service, world, "Pod/done", lambda job: job["phase"] == "Succeeded")
        assert job["finishedAt"] == await last_end(world, "done")
    async with start() as service:
        again = await shown(service, world, "Pod/done", lambda job: job["phase"] == "Succeeded")
        assert again["finishedAt"] == job["finishedAt"]


@pytest.mark.cluster
async def test_half_a_gang_up_is_not_running(world: World, start: Start, queue: str, controllers: None) -> None:
    """A gang runs with its minimum; while a member is being made anew it does not."""
    await world.play(2, 2)
    job = failing(pytorch(replicas=2, gpu=2), world, queue, 0)
    job["spec"]["replicaSpecs"][0]["template"]["metadata"] = {}
    async with start() as service:
        await world.create(job)
        await shown(service, world, "PyTorchTrainingJob/net", lambda job: job["phase"] == "Running")
        pods = await world.running("net-worker-0", "net-worker-1")
        lost = pods[1]["spec"]["nodeName"]
        await world.client.patch(NODES, lost, None, {"spec": {"unschedulable": True}})
        await world.client.delete(PODS, "net-worker-1", world.namespace, grace=0)
        told = await shown(service, world, "PyTorchTrainingJob/net", lambda job: job["members"]["running"] == 1)
        told = await shown(service, world, "PyTorchTrainingJob/net", lambda job: job["phase"] != "Running")
        assert (told["phase"], told["members"]["running"]) == ("Pending", 1)
        await world.client.patch(NODES, lost, None, {"spec": {"unschedulable": False}})
        await shown(service, world, "PyTorchTrainingJob/net", lambda job: job["phase"] == "Running")
