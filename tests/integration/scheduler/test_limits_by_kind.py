"""Each kind of job ends at its time limit in its own way, whatever owns the pods, and its object says why."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.resources import DEPLOYMENTS, PODS, STATEFULSETS
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.model import names
from t9ksched.model.api_resource import Resource
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_metrics import SECRET
from tests.integration.scheduler.test_owners import deployment, pods_of
from tests.integration.world import Object, World
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS
from tests.unit.workloads.builders import mpi_v2, notebook, pytorch

LIMIT = names.TIME_LIMIT_ANNOTATION


@pytest.fixture
async def controllers(world: World) -> AsyncIterator[None]:
    service = Controllers(await world.account(CONTROLLER))
    task = asyncio.create_task(service.run())
    await service.ready.wait()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _paused(job: Object) -> bool:
    return bool(job["spec"].get("runMode", {}).get("pause", {}).get("enabled"))


def _suspended(job: Object) -> bool:
    return job["spec"].get("suspend") is True


def _scaled_to_none(owner: Object) -> bool:
    return bool(owner["spec"]["replicas"] == 0)


def _why(job: Object) -> tuple[str, str]:
    """Reason and message of its condition Paused, while that is true."""
    found = [each for each in (job.get("status") or {}).get("conditions") or () if each["type"] == "Paused"]
    return (found[0]["reason"], found[0]["message"]) if found and found[0]["status"] == "True" else ("", "")


async def asked(service: Any, kind: str, name: str, namespace: str) -> Object:
    """The leader's explanation, as REST asks for it."""
    url = f"{service.address}/internal/v1/jobs/{namespace}/{kind.lower()}/{name}/explanation"
    async with aiohttp.ClientSession(headers=SECRET) as session, session.get(url) as answer:
        assert answer.status == 200, await answer.text()
        return dict(await answer.json())


def ours(job: Object, world: World, queue: str, **annotations: str) -> Object:
    """A job of a kind with a scheduler block, in this test's namespace and queue."""
    job["metadata"] = {"name": job["metadata"]["name"], "namespace": world.namespace, "annotations": annotations}
    job["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
    return job


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("make", "res", "pods", "ended"),
    [
        (lambda: pytorch(replicas=2, gpu=1), PYTORCHTRAININGJOBS, 2, _paused),
        (lambda: mpi_v2(replicas=1), MPIJOBS, 2, _paused),
        (notebook, NOTEBOOKS, 1, _suspended),
    ],
    ids=["PyTorchTrainingJob", "MPIJob", "Notebook"],
)
async def test_jobs_that_can_be_paused_are(
    world: World,
    start: Start,
    queue: str,
    controllers: None,
    make: Callable[[], Object],
    res: Resource,
    pods: int,
    ended: Callable[[Object], bool],
) -> None:
    await world.play(1, 8)
    job = ours(make(), world, queue, **{LIMIT: "2s"})
    name = job["metadata"]["name"]
    async with start():
        await world.create(job)
        running = await pods_of(world, pods)
        await world.until(res, name, ended)
        for pod in running.values():
            await world.gone(PODS, pod)
        await world.until(res, name, lambda item: (item.get("status") or {}).get("phase") == "Paused")
        if res is not NOTEBOOKS:
            told = _why(await world.until(res, name, lambda item: _why(item)[0] == "TimeLimitExceeded"))
            assert "time limit of 2s" in told[1]


@pytest.mark.cluster
async def test_a_job_is_told_to_stop_before_its_limit(
    world: World, start: Start, queue: str, controllers: None
) -> None:
    """An hour before, less some seconds, as it asks for; a wish that cannot be is told, and the limit itself counts."""
    await world.play(1, 8)
    asks = {LIMIT: "1h", names.SIGNAL_BEFORE_ANNOTATION: "59m58s"}
    early, vain = ours(pytorch(replicas=1, gpu=1), world, queue, **asks), ours(notebook(), world, queue)
    vain["metadata"]["annotations"] = {LIMIT: "4s", names.SIGNAL_BEFORE_ANNOTATION: "4s"}
    name = early["metadata"]["name"]
    async with start():
        await world.create(early)
        await world.until(PYTORCHTRAININGJOBS, name, _paused)
        told = _why(await world.until(PYTORCHTRAININGJOBS, name, lambda item: _why(item)[0] == "TimeLimitExceeded"))
        assert "time limit of 1h" in told[1]
        assert "told to stop 59m58s before" in told[1]
        await world.create(vain)
        await world.until(NOTEBOOKS, vain["metadata"]["name"], _suspended)
        event = await world.event(names.EVENT_TIME_LIMIT_IGNORED, vain["metadata"]["name"])
        assert "4s is not shorter than the time limit of 4s" in event["message"]


@pytest.mark.cluster
@pytest.mark.parametrize(("kind", "res"), [("Deployment", DEPLOYMENTS), ("StatefulSet", STATEFULSETS)])
async def test_the_annotation_of_an_object_that_is_scaled_counts(
    world: World, start: Start, queue: str, kind: str, res: Resource
) -> None:
    await world.play(1, 2)
    body = deployment(world, "web", queue, kind=kind)
    body["metadata"]["annotations"] = {LIMIT: "2s"}
    async with start() as service:
        await world.create(body)
        running = await pods_of(world, 2)
        limits = [acceptance.time_limit_seconds for acceptance in service.state.acceptances.values()]
        assert 2 in limits
        await world.until(res, "web", _scaled_to_none)
        for pod in running.values():
            await world.gone(PODS, pod)
        await until(lambda: not service.state.pods)
        found = await asked(service, kind, "web", world.namespace)
        assert (found["verdict"], found["job"]["phase"], found["job"]["queue"]) == ("Waiting", "Paused", queue)
        assert [reason["code"] for reason in found["reasons"]] == ["TimeLimitExceeded"]
        await world.client.patch(res, "web", world.namespace, {"spec": {"replicas": 2}})
        waiting = 2 if kind == "Deployment" else 1  # the second Pod of a StatefulSet is made once the first runs
        await until(lambda: len([gang for gang in service.state.gangs.values() if gang.reasons]) == waiting)
        found = await asked(service, kind, "web", world.namespace)
        assert [reason["code"] for reason in found["reasons"]] == ["TimeLimitExceeded"]
        command = f"t9ksched update {kind}/web -n {world.namespace} --time-limit 4s"
        assert [text.partition("such as: ")[2] for text in found["unblocks"]] == [command]


@pytest.mark.cluster
async def test_an_annotation_that_a_deployment_gets_later_does_not_count_and_is_told(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(deployment(world, "web", queue))
        await pods_of(world, 2)
        await world.client.patch(DEPLOYMENTS, "web", world.namespace, {"metadata": {"annotations": {LIMIT: "9h"}}})
        (owner,) = {gang.owner.name for gang in service.state.gangs.values() if gang.owner is not None}
        event = await world.event(names.EVENT_TIME_LIMIT_IGNORED, owner)
        assert "asks for a time limit of 9h" in event["message"]


@pytest.mark.cluster
async def test_a_job_that_max_duration_paused_says_so_in_its_own_condition(
    world: World, start: Start, store: Store, controllers: None
) -> None:
    await world.play(1, 8)
    name = f"{world.run}-short"
    await store.queues.create(name, {}, world.queue_spec | {"maxDuration": "1s"}, {"everyone": True})
    async with start():
        await world.create(ours(pytorch(replicas=2, gpu=1), world, name))
        job: Any = await world.until(PYTORCHTRAININGJOBS, "net", lambda item: _why(item)[0] == "MaxDurationExceeded")
        assert "maxDuration of 1s, counted from its start at" in _why(job)[1]
        assert job["status"]["phase"] == "Paused"
