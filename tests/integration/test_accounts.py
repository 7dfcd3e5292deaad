"""Tokens of service accounts, as the dev cluster and a real server issue and honour them."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from t9ksched.kube.errors import Forbidden, NotFound, Unauthorized, Unprocessable
from t9ksched.kube.resources import NODES, PODS, QUEUES, ROLEBINDINGS, ROLES, SERVICEACCOUNTS
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect, credentials
from t9ksched.model.names import SYSTEM_NAMESPACE
from tests.integration.accounts import write_kubeconfig
from tests.integration.world import TIMEOUT, World

pytestmark = pytest.mark.cluster
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def token(world: World, name: str, **spec: Any) -> dict[str, Any]:
    path = SERVICEACCOUNTS.path(world.namespace, name, "token")
    return msgspec.json.decode(await world.client.request("POST", path, body=msgspec.json.encode({"spec": spec})))


async def tried_until_it_is_unknown(client: Client) -> None:
    """A real server knows a token by heart for ten seconds."""
    async with asyncio.timeout(TIMEOUT):
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


async def get(kubeconfig: Path, path: str, **headers: str) -> tuple[int, str]:
    """Status and message of a request with further headers."""
    user = credentials(kubeconfig)
    await user.open()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent |= {"Authorization": value} if (value := await user.authorization()) else {}
    connector = aiohttp.TCPConnector(ssl=user.tls or True)
    async with (
        aiohttp.ClientSession(headers=sent, connector=connector) as session,
        session.get(user.access.host + path) as answer,
    ):
        return answer.status, str((await answer.json()).get("message", ""))


async def test_who_acts_for_another_has_that_ones_rights(world: World, tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    await world.client.create(ROLES, {"metadata": {"name": "reader"}, "rules": [rule]}, world.namespace)
    rbac = ROLES.group
    subjects = [{"apiGroup": rbac, "kind": kind, "name": name} for kind, name in (("User", "joe"), ("Group", "devs"))]
    ref = {"apiGroup": rbac, "kind": "Role", "name": "reader"}
    binding = {"metadata": {"name": "readers"}, "roleRef": ref, "subjects": subjects}
    await world.client.create(ROLEBINDINGS, binding, world.namespace)
    pods = PODS.path(world.namespace)
    async with asyncio.timeout(TIMEOUT):
        # A grant is known a moment later.
        while (await get(world.kubeconfig, pods, Impersonate_User="joe"))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await get(world.kubeconfig, pods, Impersonate_User="sam", Impersonate_Group="devs"))[0] == 200
    status, message = await get(world.kubeconfig, pods, Impersonate_User="sam")
    assert (status, 'User "sam" cannot list resource "pods"' in message) == (403, True)
    status, message = await get(await world.account_file(SCHEDULER), pods, Impersonate_User="joe")
    assert (status, "cannot impersonate" in message) == (403, True), message


async def test_what_is_tested_has_the_rights_of_the_manifest_and_no_more(world: World) -> None:
    scheduler = await world.account(SCHEDULER)
    await scheduler.list(QUEUES, SYSTEM_NAMESPACE)
    with pytest.raises(Forbidden):
        await scheduler.create(NODES, {"metadata": {"name": "mine"}})
    with pytest.raises(Forbidden):
        await scheduler.create(PODS, world.pod("p"))
