"""Tokens of service accounts, as the dev cluster and a real server issue and honour them."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from t9ksched.kube.client import Client
from t9ksched.kube.config import connect
from t9ksched.kube.errors import Forbidden, NotFound, Unauthorized, Unprocessable
from t9ksched.kube.resources import NODES, PODS, QUEUES, SERVICEACCOUNTS
from t9ksched.kube.rights import SCHEDULER
from t9ksched.model.names import SYSTEM_NAMESPACE
from tests.integration.accounts import write_kubeconfig
from tests.integration.world import PATIENCE, World

pytestmark = pytest.mark.cluster
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def token(world: World, name: str, **spec: Any) -> dict[str, Any]:
    path = SERVICEACCOUNTS.path(world.namespace, name, "token")
    return msgspec.json.decode(await world.client.request("POST", path, body=msgspec.json.encode({"spec": spec})))


async def tried_until_it_is_unknown(client: Client) -> None:
    """A real server knows a token by heart for ten seconds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(Forbidden):
                await client.list(NODES)
            await asyncio.sleep(0.1)


async def test_a_token_is_its_account_until_that_is_gone(world: World, tmp_path: Path) -> None:
    await world.client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, world.namespace)
    made = await token(world, "robot")
    assert made["kind"] == "TokenRequest"
    assert made["metadata"]["name"] == "robot"
    assert made["spec"]["expirationSeconds"] == 3600
    assert made["spec"]["audiences"] == ["https://kubernetes.default.svc"]
    write_kubeconfig(tmp_path / "robot", world.kubeconfig, "robot", made["status"]["token"])
    async with connect(tmp_path / "robot") as robot:
        review = msgspec.json.decode(await robot.request("POST", REVIEWS, body=b"{}"))
        user = review["status"]["userInfo"]
        assert user["username"] == f"system:serviceaccount:{world.namespace}:robot"
        places = ["system:serviceaccounts", f"system:serviceaccounts:{world.namespace}"]
        assert user["groups"] == [*places, "system:authenticated"]
        with pytest.raises(Forbidden, match=f'User "{user["username"]}" cannot list resource "pods"'):
            await robot.list(PODS, world.namespace)
        await world.client.delete(SERVICEACCOUNTS, "robot", world.namespace)
        await world.client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, world.namespace)
        with pytest.raises(Unauthorized):
            await tried_until_it_is_unknown(robot)


async def test_a_token_that_cannot_be(world: World) -> None:
    with pytest.raises(NotFound, match='serviceaccounts "nobody" not found'):
        await token(world, "nobody")
    await world.client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, world.namespace)
    with pytest.raises(Unprocessable, match="may not specify a duration less than 10 minutes") as caught:
        await token(world, "robot", expirationSeconds=599)
    assert [cause["field"] for cause in caught.value.causes] == ["spec.expirationSeconds"]


async def test_what_is_tested_has_the_rights_of_the_manifest_and_no_more(world: World) -> None:
    scheduler = await world.account(SCHEDULER)
    await scheduler.list(QUEUES, SYSTEM_NAMESPACE)
    with pytest.raises(Forbidden):
        await scheduler.create(NODES, {"metadata": {"name": "mine"}})
    with pytest.raises(Forbidden):
        await scheduler.create(PODS, world.pod("p"))
