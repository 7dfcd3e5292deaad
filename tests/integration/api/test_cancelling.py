"""A job that is cancelled is `Terminating` from the answer of DELETE on, until its last pod is gone; by every door."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.api.leader import HttpLeader
from t9ksched.kube.resources import DEPLOYMENTS, PODGROUPS, PODS, ROLEBINDINGS, ROLES
from t9ksched.kube.setup.rbac import API
from t9ksched.store import history
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import controllers, failing
from tests.integration.world import TIMEOUT, World
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.api.world import Client
from tests.unit.workloads.builders import notebook, pytorch

__all__ = ["controllers"]
pytestmark = pytest.mark.cluster
JOBS = "/apis/v1/workloads"
HOLD = "test.tensorstack.dev/hold"
Object = dict[str, Any]


@pytest.fixture
async def rest(world: World, store: Store) -> AsyncIterator[Client]:
    """The service beside the scheduler that `start` starts."""
    async with HttpLeader(store.instances, "s" * 20) as leader, aiohttp.ClientSession() as session:
        app = create_app(Services(store, await world.account(API), leader))
        async with Server(app, listen("127.0.0.1", 0)) as server:
            yield Client(server.url, session, await store.tokens.ensure_admin())


def of(kind: str, world: World, queue: str) -> list[Object]:
    """The objects of a job of that kind with the name `net`."""
    if kind == "Pod":
        return [world.pod("net", 1, queue=queue)]
    if kind == "PodGroup":
        return [world.group("net", 2, queue), *(world.pod(f"net-{at}", 1, group="net") for at in (0, 1))]
    if kind == "PyTorchTrainingJob":
        job = failing(pytorch(replicas=2, gpu=1), world, queue, 0)
        job["spec"]["replicaSpecs"][0]["template"]["metadata"] = {}
        return [job]
    if kind == "Notebook":
        book = notebook()
        book["metadata"] = {"name": "net", "namespace": world.namespace}
        book["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
        return [book]
    pod = world.pod("x", 1, queue=queue, restartPolicy="Always" if kind == "Deployment" else "Never")
    template = {"metadata": {"labels": pod["metadata"]["labels"] | {"app": "net"}}, "spec": pod["spec"]}
    meta = {"name": "net", "namespace": world.namespace}
    if kind == "Deployment":
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "net"}}, "template": template}
        return [{"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}]
    return [{"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": {"template": template}}]


async def pods_of(world: World) -> list[Object]:
    return (await world.client.list(PODS, world.namespace)).items


async def shown(rest: Client, address: str, holds: Callable[[Object], Any]) -> Object:
    answer = None
    try:
        async with asyncio.timeout(TIMEOUT):
            while (answer := await rest("GET", address)).status != 200 or not holds(answer.body):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{address} did not get there; last seen: {answer}") from None
    return answer.body


@asynccontextmanager
async def held(world: World) -> AsyncIterator[None]:
    """The pods that are there now outlast their deletion."""
    names = [pod["metadata"]["name"] for pod in await pods_of(world)]
    for name in names:
        await world.client.patch(PODS, name, world.namespace, {"metadata": {"finalizers": [HOLD]}})
    yield
    for name in names:
        await world.client.patch(PODS, name, world.namespace, {"metadata": {"finalizers": None}})


async def submit(world: World, store: Store, kind: str, queue: str) -> None:
    for obj in of(kind, world, queue):
        await world.create(obj)


async def phase_in_list(rest: Client, world: World, kind: str) -> str | None:
    listed = (await rest("GET", f"{JOBS}?namespace={world.namespace}")).body["items"]
    return next((job["phase"] for job in listed if (job["kind"], job["name"]) == (kind, "net")), None)


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "PyTorchTrainingJob", "Notebook", "Job"])
async def test_cancelled_is_terminating_at_once(
    world: World, start: Start, queue: str, store: Store, controllers: None, rest: Client, kind: str
) -> None:
    await world.play(1, 8)
    address = f"{JOBS}/{world.namespace}/{kind}/net"
    async with start():
        await submit(world, store, kind, queue)
        await shown(rest, address, lambda job: job["members"]["running"])
        async with held(world):
            assert (await rest("DELETE", address)).body["phase"] == "Terminating"
            assert (await rest("GET", address)).body["phase"] == "Terminating"
            assert await phase_in_list(rest, world, kind) == "Terminating"
            explained = (await rest("GET", f"{address}/explanation")).body
            assert explained["job"]["phase"] == "Terminating"
            assert [reason["code"] for reason in explained["reasons"]] == ["Terminating"]
        # The next scheduler finds the pods without the object, and says the same; until they are gone, too.
    async with start():
        for obj in await pods_of(world):
            await world.gone(PODS, obj["metadata"]["name"])
        async with asyncio.timeout(TIMEOUT):
            while (await rest("GET", address)).status != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            # By whom it was cancelled and that it is gone is written by different hands, in any order.
            for event in (history.DELETED, "job-cancelled"):
                while not await store.history.list(event=event, name="net", kind=kind):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
    assert not await store.history.list(event=history.FINISHED), "it was cancelled, and did not end"
    told = [event.event for event in await store.history.list(name="net", kind=kind)]
    assert (told.count("job-cancelled"), told.count("deleted")) == (1, 1)
    (row,) = [job for job in await store.jobs.list(deleted=True) if (job.kind, job.name) == (kind, "net")]
    assert row.phase in ("Pending", "Running"), "it does not terminate any more"
    assert row.deleted_at is not None


async def test_what_is_gone_has_the_phase_that_it_had_and_one_end_however_soon_it_went(
    world: World, start: Start, queue: str, store: Store, rest: Client
) -> None:
    await world.play(1, 2)
    address = f"{JOBS}/{world.namespace}/Pod"

    async def told(name: str) -> list[str]:
        return [event.event for event in await store.history.list(name=name)]

    async def until_told(name: str, event: str) -> None:
        async with asyncio.timeout(TIMEOUT):
            while event not in await told(name):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async with start():
        await submit(world, store, "Pod", queue)
        await until_recorded(store)
        async with held(world):
            await rest("DELETE", f"{address}/net")
            assert (await shown(rest, f"{address}/net", lambda job: job["phase"] == "Terminating"))["name"] == "net"
        await until_told("net", "deleted")
        for name, cards in (("bound", 2), ("waits", 2), ("rest", 1)):
            if name == "rest":
                assert (await rest("POST", JOBS, world.pod(name, cards, queue=queue))).status == 201
                await rest("DELETE", f"{address}/{name}")
                continue
            await world.create(world.pod(name, cards, queue=queue))
            await shown(rest, f"{address}/{name}", lambda job: job["members"]["bound"] or job["reason"])
        for name in ("waits", "bound"):
            await world.client.delete(PODS, name, world.namespace, grace=0)
        for name in ("waits", "bound", "rest"):
            await until_told(name, "deleted")
        for name in ("net", "waits", "bound", "rest"):
            assert (await told(name)).count("deleted") == 1
        assert (await told("bound"))[-1] == "deleted"
        assert (await told("bound")).count("released") == 1
        listed = (await rest("GET", f"{JOBS}?deleted=true&namespace={world.namespace}")).body["items"]
        phases = {job["name"]: job["phase"] for job in listed if job.get("deletedAt")}
        assert phases.keys() == {"net", "waits", "bound", "rest"}
        assert (phases["net"], phases["waits"]) == ("Running", "Pending")
        assert "Terminating" not in phases.values()


async def test_while_no_scheduler_leads(
    world: World, start: Start, queue: str, store: Store, controllers: None, rest: Client
) -> None:
    """The list, from what was written last, says so too; so does the object, while a finalizer keeps it."""
    await world.play(1, 8)
    address = f"{JOBS}/{world.namespace}/PyTorchTrainingJob/net"
    async with start():
        await submit(world, store, "PyTorchTrainingJob", queue)
        await shown(rest, address, lambda job: job["phase"] == "Running")
        await until_recorded(store)
    await world.client.patch(PYTORCHTRAININGJOBS, "net", world.namespace, {"metadata": {"finalizers": [HOLD]}})
    async with held(world):
        assert (await rest("DELETE", address)).body["phase"] == "Terminating"
        assert await phase_in_list(rest, world, "PyTorchTrainingJob") == "Terminating"
        assert (await rest("GET", address)).body["phase"] == "Terminating"
        explained = (await rest("GET", f"{address}/explanation")).body
        assert explained.get("code") in ("NotLeader", "Unavailable")
        async with start():
            told = await shown(rest, address, lambda job: job["members"]["running"])
            assert told["phase"] == "Terminating"
    await world.client.patch(PYTORCHTRAININGJOBS, "net", world.namespace, {"metadata": {"finalizers": None}})


async def until_recorded(store: Store) -> None:
    async with asyncio.timeout(TIMEOUT):
        while "Running" not in [job.phase for job in await store.jobs.list()]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_deployment_deleted_by_kubectl(
    world: World, start: Start, queue: str, controllers: None, rest: Client
) -> None:
    """Also a kind whose jobs are shown and not cancelled here."""
    await world.play(1, 8)

    async def phase() -> str | None:
        listed = (await rest("GET", f"{JOBS}?namespace={world.namespace}")).body["items"]
        return next((job["phase"] for job in listed), None)

    async def until(wanted: str) -> None:
        async with asyncio.timeout(TIMEOUT):
            while await phase() != wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async with start():
        await world.create(*of("Deployment", world, queue))
        await until("Running")
        async with held(world):
            await world.client.delete(DEPLOYMENTS, "net", world.namespace, propagation="Background")
            await until("Terminating")


async def test_each_object_is_deleted_as_the_user(
    world: World, start: Start, queue: str, store: Store, rest: Client
) -> None:
    """Pods of others and of other schedulers stay when a user cancels the group that they name."""
    await world.play(1, 8)
    rules = [
        {"apiGroups": ["", PODGROUPS.group], "resources": ["pods", "podgroups"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "resourceNames": ["net-mine"]},
    ]
    await world.client.create(ROLES, {"metadata": {"name": "users"}, "rules": rules}, world.namespace)
    reference = {"apiGroup": ROLES.group, "kind": "Role", "name": "users"}
    subjects = [{"apiGroup": ROLES.group, "kind": "User", "name": name} for name in ("ann", "bob")]
    binding = {"metadata": {"name": "users"}, "roleRef": reference, "subjects": subjects}
    await world.client.create(ROLEBINDINGS, binding, world.namespace)
    ann = Client(rest.url, rest.session, await store.tokens.create("ann", "user"))
    bob = Client(rest.url, rest.session, await store.tokens.create("bob", "user"))
    address = f"{JOBS}/{world.namespace}/PodGroup/net"
    async with start():
        for obj in of("PodGroup", world, queue):
            assert (await ann("POST", JOBS, obj)).status == 201
        assert (await bob("POST", JOBS, world.pod("net-bobs", 1, group="net"))).status == 201
        for name in ("net-mine", "net-unknown"):
            await world.create(world.pod(name, 1, group="net"))
        foreign = world.pod("net-foreign", 0, group="net")
        foreign["spec"]["schedulerName"] = "default-scheduler"
        await world.create(foreign)
        await shown(rest, address, lambda job: job["members"]["running"] == 5)
        told = (await ann("DELETE", address)).body["warnings"]
        assert sorted(warning["message"].split()[0] for warning in told) == [
            "Pod/net-bobs",
            "Pod/net-foreign",
            "Pod/net-unknown",
        ]
        for name in ("net-0", "net-1", "net-mine"):
            await world.gone(PODS, name)
    left = await pods_of(world)
    assert {pod["metadata"]["name"] for pod in left} == {"net-bobs", "net-foreign", "net-unknown"}
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in left)
