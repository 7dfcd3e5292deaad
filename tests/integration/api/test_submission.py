"""Submission to a cluster: what the API server itself checks arrives at the user with code and field."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
import yaml

from t9ksched.api import Services, create_app
from t9ksched.api.http.server import Server, listen
from t9ksched.kube.errors import AlreadyExists, NotFound
from t9ksched.kube.resources import JOBS, PODGROUPS, PODS, SERVICEACCOUNTS
from t9ksched.kube.setup.rbac import API
from t9ksched.kube.transport.client import Client as Kube
from t9ksched.model.api_resource import Resource
from t9ksched.packaged import folder
from t9ksched.store import Store
from tests.integration.world import new_world
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS
from tests.unit.api.world import Client, ScriptedLeader, World, documents, pod, pod_group, pytorch

pytestmark = pytest.mark.cluster
WORKLOADS = "/apis/v1/workloads"


async def submitted(client: Kube) -> Counter[tuple[Resource, str]]:
    """What is in the namespace that tests submit to."""
    found = Counter[tuple[Resource, str]]()
    for res in (PODS, PODGROUPS, PYTORCHTRAININGJOBS, MPIJOBS, NOTEBOOKS, JOBS):
        found.update((res, item["metadata"]["name"]) for item in (await client.list(res, "default")).items)
    return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The service with the rights of its service account."""
    leader = ScriptedLeader()
    async with (
        new_world(tmp_path) as cluster,
        await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store,
        aiohttp.ClientSession() as session,
    ):
        with suppress(AlreadyExists):  # pods need it; controllers make it
            await cluster.client.create(SERVICEACCOUNTS, {"metadata": {"name": "default"}}, "default")
        before = await submitted(cluster.client)
        await store.queues.create("a100", {}, {}, {"everyone": True})
        await store.queues.create("a40", {}, {}, {"everyone": True})
        app = create_app(Services(store, await cluster.account(API), leader))
        async with Server(app, listen("127.0.0.1", 0)) as server:
            admin = Client(server.url, session, await store.tokens.ensure_admin())
            yield World(store, cluster.client, leader, admin, admin, admin, app)  # type: ignore[arg-type]
        for (res, name), _ in (await submitted(cluster.client) - before).items():
            with suppress(NotFound):  # it went with its owner
                await cluster.client.delete(res, name, "default", grace=0)


EXAMPLES = {
    path.name: path.read_text()
    for path in sorted(folder("examples").glob("*.yaml"))
    if path.stem not in ("queue", "reservation")
}


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
async def test_examples_are_accepted_shown_and_cancelled(world: World, text: str) -> None:
    made = await world.admin("POST", WORKLOADS, text)
    assert made.status == 201, made.body
    for job in made.body["items"]:
        address = f"{WORKLOADS}/{job['namespace']}/{job['kind']}/{job['name']}"
        assert (await world.admin("GET", address)).body["uid"] == job["uid"]
        assert (await world.admin("DELETE", address)).status == 200
    again = await world.admin("POST", f"{WORKLOADS}?dryRun=true", text)
    assert again.status == 200, again.body


async def test_name_taken_and_namespace_missing(world: World) -> None:
    assert (await world.admin("POST", WORKLOADS, pytorch())).status == 201
    taken = await world.admin("POST", WORKLOADS, pytorch())
    assert (taken.status, taken.body["code"]) == (409, "AlreadyExists")
    missing = await world.admin("POST", f"{WORKLOADS}?namespace=nowhere", pytorch())
    assert (missing.body["code"], missing.paths) == ("NotFound", ["metadata.namespace"])


async def test_what_only_the_api_server_checks_has_its_path(world: World) -> None:
    faulty = pod("p")
    faulty["spec"]["restartPolicy"] = "Sometimes"
    refused = await world.admin("POST", WORKLOADS, documents(pod("a"), faulty))
    assert (refused.status, refused.body["code"], refused.paths) == (422, "InvalidField", ["[1].spec.restartPolicy"])
    assert (await world.kube.list(PODS, "default")).items == []


async def test_dry_run_leaves_the_cluster_as_it_is(world: World) -> None:
    tried = await world.admin("POST", f"{WORKLOADS}?dryRun=true", documents(pod_group("g"), pod("p", group="g")))
    assert (tried.status, tried.job["kind"]) == (200, "PodGroup")
    for resource in (PODS, PODGROUPS, PYTORCHTRAININGJOBS):
        assert (await world.kube.list(resource, "default")).items == []


async def test_a_yaml_file_of_a_user_with_comments(world: World) -> None:
    text = "# my job\n" + yaml.safe_dump(pytorch("mine")) + "---\n# nothing more\n"
    assert (await world.admin("POST", WORKLOADS, text)).job["name"] == "mine"
