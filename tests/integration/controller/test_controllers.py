"""Jobs over HTTP, from their YAML to their end: pods that run on simulated nodes, statuses that come back."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.controller.activity import Asking
from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import CONFIGMAPS, PODGROUPS, PODS, SECRETS, SERVICES, of
from t9ksched.kube.transport.client import Client
from t9ksched.workloads.answers import Activity, Question
from tests.integration.controller.conftest import Cluster
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.workloads.builders import container, mpi_v1, notebook, pytorch, template

RUN, EXIT = "devcluster.tensorstack.dev/run-seconds", "devcluster.tensorstack.dev/exit-code"
POD = "managed-notebook-lab-0"


def training(run: str | None = "0.2", exit_code: str = "0", **more: Any) -> dict[str, Any]:
    job = pytorch(**{"gpu": 2, **more})
    annotations = {EXIT: exit_code} | ({RUN: run} if run else {})
    job["spec"]["replicaSpecs"][0]["template"]["metadata"] = {"annotations": annotations}
    return job


@pytest.mark.cluster
async def test_a_training_job_from_yaml_to_its_end(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(training())
    done = await cluster.phase(job, "Succeeded")
    group = await cluster.client.get(PODGROUPS, "net", cluster.namespace)
    assert (group["spec"]["queue"], group["spec"]["minMember"], group["spec"]["priority"]) == ("a100", 2, 5)
    assert group["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert await cluster.names(PODS) == ["net-worker-0", "net-worker-1"]
    assert done["status"]["aggregate"]["succeeded"] >= 1
    assert done["status"]["startTime"] <= done["status"]["completionTime"]
    assert (await cluster.event("Start"))["involvedObject"]["uid"] == job["metadata"]["uid"]


@pytest.mark.cluster
async def test_failures_use_up_the_restarts(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(training("0.1", "1", replicas=1, runPolicy={"backoffLimit": 1}))
    done = await cluster.phase(job, "Failed")
    assert done["status"]["backoffCount"] == 1
    assert {each["type"]: each["reason"] for each in done["status"]["conditions"]}["Failed"] == "BackoffLimitExceeded"


@pytest.mark.cluster
async def test_a_pod_the_kubelet_refuses_is_made_anew_uncounted(cluster: Cluster, controllers: Controllers) -> None:
    """Bound to a node without room for it, as after a race; then to one with room."""
    await cluster.submit({**pytorch(replicas=1, gpu=8), "metadata": {"name": "first"}})
    await cluster.until(PODS, "first-worker-0", lambda pod: pod["status"].get("phase") == "Running")
    job = await cluster.submit(training("0.2", gpu=1, replicas=1, restart="Never", runPolicy={"backoffLimit": 0}))
    refused = await cluster.until(PYTORCHTRAININGJOBS, "net", lambda job: "disruptionCount" in str(job.get("status")))
    assert refused["status"]["backoffCount"] == 0
    cluster.binder.node = cluster.world.nodes[1]
    done = await cluster.phase(job, "Succeeded")
    assert done["status"]["backoffCount"] == 0


@pytest.mark.cluster
async def test_deleting_a_job_deletes_what_it_owns(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(mpi_v1(replicas=2))
    await cluster.phase(job, "Running")
    assert await cluster.names(PODS) == ["walk-launcher-0", "walk-worker-0", "walk-worker-1"]
    await cluster.client.delete(_res(job), "walk", cluster.namespace)
    for res in (PODS, PODGROUPS, SERVICES, SECRETS, CONFIGMAPS):
        await cluster.until_gone(res)


@pytest.mark.cluster
async def test_pause_and_resume(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(training(None))
    await cluster.phase(job, "Running")
    await cluster.patch(job, {"spec": {"runMode": {"pause": {"enabled": True}}}})
    await cluster.phase(job, "Paused")
    await cluster.until_gone(PODS)
    await cluster.patch(job, {"spec": {"runMode": {"pause": {"enabled": False}}}})
    await cluster.phase(job, "Running")


@pytest.mark.cluster
async def test_a_notebook_moves_to_another_queue(cluster: Cluster, controllers: Controllers) -> None:
    book = await cluster.submit(notebook())
    running = await cluster.phase(book, "Running")
    first = running["status"]["pod"]["reference"]["uid"]
    await cluster.patch(book, {"spec": {"scheduler": {"t9kScheduler": {"queue": "a40"}}}})
    pod = await cluster.until(PODS, POD, lambda pod: pod["metadata"]["uid"] != first)
    assert pod["metadata"]["labels"]["scheduler.tensorstack.dev/queue"] == "a40"
    await cluster.patch(book, {"spec": {"suspend": True}})
    await cluster.phase(book, "Paused")
    await cluster.until_gone(PODS)


@pytest.mark.cluster
async def test_without_a_block_the_default_scheduler_runs_it(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(training(queue=None))
    await cluster.phase(job, "Succeeded")
    assert await cluster.names(PODGROUPS) == []


@pytest.mark.cluster
async def test_a_name_that_is_taken_is_told(cluster: Cluster, controllers: Controllers) -> None:
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "net-worker-1", "namespace": cluster.namespace}}
    await cluster.client.create(PODS, {**foreign, **template(container())})
    job = await cluster.submit(training(None))
    event = await cluster.event("NameTaken")
    assert "net-worker-1" in event["message"]
    await cluster.client.delete(PODS, "net-worker-1", cluster.namespace)
    await cluster.phase(job, "Running")


@pytest.mark.cluster
async def test_a_faulty_job_makes_nothing(cluster: Cluster, controllers: Controllers) -> None:
    job = training()
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "-1"
    await cluster.submit(job)
    event = await cluster.event("Refused")
    assert "limits[nvidia.com/gpu]" in event["message"]
    assert await cluster.names(PODS) == []


@pytest.mark.cluster
async def test_controllers_that_die_and_come_back_go_on(cluster: Cluster, account: Client) -> None:
    """Killed again and again while jobs come and go: each ends once, with no pod too many and no restart miscounted."""
    jobs = []
    for number in range(6):
        job = training("0.3", str(number % 2), replicas=2, runPolicy={"backoffLimit": 1, "cleanUpPolicy": "All"})
        job["metadata"]["name"] = f"net{number}"
        jobs.append(await cluster.submit(job))
    for _ in range(5):
        service = Controllers(account)
        task = asyncio.create_task(service.run())
        await service.ready.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.15):
                await asyncio.shield(task)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    task = asyncio.create_task(Controllers(account).run())
    try:
        for number, job in enumerate(jobs):
            done = await cluster.phase(job, "Succeeded", "Failed")
            assert done["status"]["phase"] == ("Failed" if number % 2 else "Succeeded")
            assert done["status"]["backoffCount"] == number % 2
        await cluster.until_gone(PODS)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    with pytest.raises(NotFound):
        await cluster.client.get(PODS, "net0-worker-0", cluster.namespace)


def _res(obj: dict[str, Any]) -> Any:
    from t9ksched.kube.resources import of

    return of(obj)


@pytest.mark.cluster
async def test_a_notebook_is_asked_whether_anybody_uses_it(cluster: Cluster, account: Client) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Activity:
        asked.append(question)
        return Activity(busy="2 of its kernels work")

    service = Controllers(account, asking=Asking(ask, 0.1))
    task = asyncio.create_task(service.run())
    try:
        book = await cluster.submit(notebook())
        seen = await cluster.until(of(book), "lab", lambda each: "activity" in (each.get("status") or {}))
        (idle,) = [each for each in seen["status"]["conditions"] if each["type"] == "Idle"]
        assert (idle["status"], idle["reason"], idle["message"]) == ("False", "Active", "2 of its kernels work")
        pod = await cluster.client.get(PODS, "managed-notebook-lab-0", cluster.namespace)
        assert asked[0] == Question(pod["status"]["podIP"], 8888, f"/notebook/{cluster.namespace}/lab/")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
