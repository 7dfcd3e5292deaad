"""Whatever belongs to a job can be asked for by its own name, and answers for the job."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.api.leader import HttpLeader
from t9ksched.kube.resources import PODGROUPS, PODS
from t9ksched.kube.setup.rbac import API
from t9ksched.store.store import Store
from tests.integration.api.test_cancelling import shown
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import controllers, failing
from tests.integration.scheduler.test_owners import deployment, pods_of
from tests.integration.world import TIMEOUT, World
from tests.unit.api.world import Client
from tests.unit.workloads.builders import mpi_v2, pytorch

__all__ = ["controllers"]
pytestmark = pytest.mark.cluster
JOBS = "/apis/v1/workloads"
Object = dict[str, Any]


@pytest.fixture
async def rest(world: World, store: Store) -> AsyncIterator[Client]:
    """The service beside the scheduler that `start` starts."""
    async with HttpLeader(store.instances, "s" * 20) as leader, aiohttp.ClientSession() as session:
        app = create_app(Services(store, await world.account(API), leader))
        async with Server(app, listen("127.0.0.1", 0)) as server:
            yield Client(server.url, session, await store.tokens.ensure_admin())


def training(kind: str, world: World, queue: str, gpus: int = 1) -> Object:
    """A job whose pods run on."""
    job = failing(pytorch(replicas=2, gpu=gpus), world, queue, 0)
    job["metadata"]["name"] = "net"
    if kind == "MPIJob":
        job = failing(mpi_v2(), world, queue, 0)
        job["metadata"]["name"] = "net"
    for replica in job["spec"]["replicaSpecs"]:
        replica["template"].pop("metadata", None)
    return job


async def group_of(world: World) -> str:
    """The name of the PodGroup, once there is one."""
    async with asyncio.timeout(TIMEOUT):
        while not (found := (await world.client.list(PODGROUPS, world.namespace)).items):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return str(found[0]["metadata"]["name"])


def events(history: Object) -> list[str]:
    """What happened, the newest first."""
    return [one["event"] for one in history["items"]]


@pytest.mark.parametrize("kind", ["PyTorchTrainingJob", "MPIJob"])
async def test_the_group_of_a_job_answers_for_the_job(
    world: World, start: Start, queue: str, controllers: None, rest: Client, kind: str
) -> None:
    await world.play(1, 8)
    async with start():
        await world.create(training(kind, world, queue))
        address = f"{JOBS}/{world.namespace}/{kind}/net"
        job = await shown(rest, address, lambda job: job["phase"] == "Running")
        group = f"{JOBS}/{world.namespace}/PodGroup/{await group_of(world)}"
        told = await shown(rest, group, lambda _: True)
        assert (told["uid"], told["phase"], told["members"]) == (job["uid"], "Running", job["members"])
        explained = (await rest("GET", f"{group}/explanation")).body
        assert (explained["verdict"], explained["reasons"]) == ("Placed", [])
    # While no scheduler leads, the objects of the cluster say the same.
    away = (await rest("GET", group)).body
    assert (away["kind"], away["uid"], away["phase"]) == (kind, job["uid"], "Running")


async def test_the_group_of_a_waiting_job_tells_its_reasons(
    world: World, start: Start, queue: str, controllers: None, rest: Client
) -> None:
    await world.play(1, 1)
    async with start():
        await world.create(training("PyTorchTrainingJob", world, queue, gpus=4))
        job = f"{JOBS}/{world.namespace}/PyTorchTrainingJob/net"
        group = f"{JOBS}/{world.namespace}/PodGroup/{await group_of(world)}"
        codes = {"NeverFits"}
        told = await shown(rest, f"{group}/explanation", lambda one: codes & {each["code"] for each in one["reasons"]})
        assert told["verdict"] == "Waiting"
        held = await rest("POST", f"{group}/actions/hold")
        assert held.status == 200
        assert (await rest("GET", job)).body["held"]
        refused = await rest("DELETE", group)
        assert (refused.status, refused.body["code"]) == (409, "Conflict")
        assert "cancel PyTorchTrainingJob/net" in refused.body["remedy"]
        await shown(rest, f"{job}/history", lambda one: {"job-held", "accepted"} <= set(events(one)))
        of_job, of_group, later = [events((await rest("GET", f"{one}/history")).body) for one in (job, group, job)]
        assert of_group in (of_job, later), "what it waits for may be written between two of these"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_what_kubernetes_makes_pods_of_is_addressed(
    world: World, start: Start, queue: str, rest: Client, kind: str
) -> None:
    await world.play(1, 8)
    async with start():
        made = await world.create(deployment(world, "web", queue, kind=kind))
        running = await pods_of(world, 2)
        address = f"{JOBS}/{world.namespace}/{kind}/web"
        job = await shown(rest, address, lambda job: job["phase"] == "Running")
        (listed,) = (await rest("GET", f"{JOBS}?namespace={world.namespace}")).body["items"]
        assert listed["uid"] == job["uid"]
        own = f"{JOBS}/{world.namespace}/{listed['kind']}/{listed['name']}"
        for door in (address, address.lower(), own):
            assert (await rest("GET", door)).body["uid"] == job["uid"]
            assert (await rest("GET", f"{door}/explanation")).body["verdict"] == "Placed"
            assert (await rest("GET", f"{door}/history")).status == 200
            assert (await rest("POST", f"{door}/actions/hold")).body["code"] == "Conflict"
            refused = await rest("DELETE", door)
            assert (refused.status, f"kubectl delete {kind}/web" in refused.body["remedy"]) == (409, True)
        assert (await rest("GET", f"{JOBS}/{world.namespace}/{kind}/nope")).status == 404
        for name in running.values():
            await world.client.delete(PODS, name, world.namespace, grace=0)
        async with asyncio.timeout(TIMEOUT):
            while running.keys() & (await pods_of(world, 2)).keys():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert job["submittedAt"] >= made["metadata"]["creationTimestamp"]
        later = await shown(rest, address, lambda job: job["phase"] == "Running")
        assert later["submittedAt"] == job["submittedAt"]
        assert (await rest("DELETE", f"/apis/v1/admin/queues/{queue}?jobs=cancel")).status == 409


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_what_kubernetes_makes_pods_of_is_held_and_released(
    world: World, start: Start, queue: str, rest: Client, kind: str
) -> None:
    await world.play(1, 1)
    async with start():
        made = deployment(world, "web", queue, replicas=1, kind=kind)
        made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
        await world.create(made)
        address = f"{JOBS}/{world.namespace}/{kind}/web"
        for action, code in (("hold", "SchedulingGated"), ("release", "NeverFits")):
            await shown(rest, address, lambda job: job["reason"])
            assert (await rest("POST", f"{address}/actions/{action}")).status == 200
            told = await shown(rest, address, lambda job, code=code: (job["reason"] or {}).get("code") == code)
            assert told.get("held", False) is (action == "hold")
