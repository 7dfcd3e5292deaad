"""The policies of deploy/admission.yaml in force: what the roles allow, and the server still denies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.kube.client import Client
from t9ksched.kube.errors import ApiError, Forbidden
from t9ksched.kube.resources import CONFIGMAPS, DEPLOYMENTS, PODS, SECRETS
from t9ksched.kube.rights import API, CONTROLLER, SCHEDULER
from tests.integration.world import World

pytestmark = pytest.mark.cluster
PATIENCE = 30.0
SYSTEM = "kube-system"
SPEC = {"containers": [{"name": "c", "image": "busybox"}]}

Object = dict[str, Any]


async def account(world: World, role: str) -> Client:
    """A service account, about which policies are."""
    if await world.account_file(role) == world.kubeconfig:
        pytest.skip("this user may not ask for tokens of the accounts")
    return await world.account(role)


async def denied(ask: Callable[[], Awaitable[object]]) -> str:
    """The sentence with which a policy denies a request; a server takes a moment to know a policy."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await ask()
            except Forbidden as error:
                return error.message
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("role", [CONTROLLER, API])
async def test_no_pod_is_made_in_a_system_namespace(world: World, role: str) -> None:
    client = await account(world, role)
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{world.run}-p"}, "spec": SPEC}
    message = await denied(lambda: client.create(PODS, pod, SYSTEM, dry_run=True))
    assert "t9ksched writes nothing into system namespaces" in message
    await world.client.create(PODS, pod, SYSTEM, dry_run=True)


async def test_the_controllers_make_no_other_objects(world: World) -> None:
    client = await account(world, CONTROLLER)
    for res, more in ((CONFIGMAPS, {"data": {}}), (SECRETS, {"type": "Opaque"})):
        body: Object = {"apiVersion": "v1", "kind": res.kind, "metadata": {"name": f"{world.run}-x"}, **more}
        assert "the controllers make" in await denied(
            lambda res=res, body=body: client.create(res, body, world.namespace, dry_run=True)
        )


async def test_the_scheduler_scales_to_nothing_only(world: World) -> None:
    client = await account(world, SCHEDULER)
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": SPEC}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    body: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await world.client.create(DEPLOYMENTS, body, world.namespace)

    def scale(replicas: int) -> Awaitable[object]:
        return client.patch(DEPLOYMENTS, "d", world.namespace, {"spec": {"replicas": replicas}}, subresource="scale")

    assert "the scheduler scales to nothing only" in await denied(lambda: scale(1))
    await scale(0)
    with pytest.raises(Forbidden, match="cannot patch resource"):
        await client.patch(DEPLOYMENTS, "d", world.namespace, {"spec": {"replicas": 0}})
    with suppress(ApiError):
        await world.client.delete(DEPLOYMENTS, "d", world.namespace)
