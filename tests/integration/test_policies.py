"""The policies of deploy/admission.yaml in force: what the roles allow, and the server still denies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from t9ksched.kube.errors import ApiError, Forbidden
from t9ksched.kube.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODGROUPS,
    PODS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
)
from t9ksched.kube.setup.rbac import API, CONTROLLER, SCHEDULER
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect
from t9ksched.model.names import CARD_MODE_ANNOTATION, CORDONED_CARDS_ANNOTATION, RECORDED_CORDONS_ANNOTATION
from tests.integration.accounts import owning, write_kubeconfig
from tests.integration.test_accounts import token
from tests.integration.world import World

pytestmark = pytest.mark.cluster
TIMEOUT = 90.0
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
    async with asyncio.timeout(TIMEOUT):
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


async def test_of_a_node_the_scheduler_writes_cordoned_cards_only(world: World) -> None:
    client = await account(world, SCHEDULER)
    await world.play(1, 2, annotations={"team": "red"})

    def write(**body: Object) -> Awaitable[Object]:
        return client.patch(NODES, world.nodes[0], None, body)

    notes = "of a node the scheduler writes the annotations of cordoned cards and the lock of HAMi only"
    for body, says in (
        ({"metadata": {"annotations": {"team": "blue"}}}, notes),
        ({"metadata": {"annotations": {"team": None}}}, notes),
        ({"metadata": {"annotations": {CARD_MODE_ANNOTATION: "other"}}}, notes),
        ({"metadata": {"labels": {"team": "blue"}}}, "the scheduler changes no node's labels"),
        ({"metadata": {"finalizers": ["a.b/c"]}}, "the scheduler changes no node's labels"),
        ({"spec": {"unschedulable": True}}, "the scheduler changes no node's spec"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "the scheduler changes no node's spec"),
    ):
        assert says in await denied(partial(write, **body)), body
    made = await write(metadata={"annotations": {CORDONED_CARDS_ANNOTATION: "1", RECORDED_CORDONS_ANNOTATION: "7:1"}})
    assert made["metadata"]["annotations"][CORDONED_CARDS_ANNOTATION] == "1"
    made = await write(metadata={"annotations": {CORDONED_CARDS_ANNOTATION: None, RECORDED_CORDONS_ANNOTATION: None}})
    assert CORDONED_CARDS_ANNOTATION not in made["metadata"]["annotations"]
    for lock in ("2026-01-01T00:00:00Z,ns,p", None):
        await write(metadata={"annotations": {"hami.io/mutex.lock": lock}})
    assert notes in await denied(partial(write, metadata={"annotations": {"hami.io/device-cordon": "GPU-0"}}))
    with pytest.raises(Forbidden, match="cannot patch resource"):
        await client.patch(NODES, world.nodes[0], None, {"status": {"allocatable": {}}}, subresource="status")


async def test_a_user_names_no_controller_as_owner(world: World, tmp_path: Path) -> None:
    """Else any user's pod would count as one of another's job."""
    rules = [{"apiGroups": ["", PODGROUPS.group], "resources": ["pods", "podgroups"], "verbs": ["create", "patch"]}]
    robot = [{"kind": "ServiceAccount", "name": "robot", "namespace": world.namespace}]
    ref = {"apiGroup": ROLES.group, "kind": "Role", "name": "users"}
    await world.client.create(SERVICEACCOUNTS, {"metadata": {"name": "robot"}}, world.namespace)
    await world.client.create(ROLES, {"metadata": {"name": "users"}, "rules": rules}, world.namespace)
    binding: Object = {"metadata": {"name": "users"}, "roleRef": ref, "subjects": robot}
    await world.client.create(ROLEBINDINGS, binding, world.namespace)
    template = {"spec": SPEC | {"restartPolicy": "Never"}}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "victim"},
        "spec": {"template": template},
    }
    made = await world.client.create(JOBS, job | {"spec": job["spec"] | {"suspend": True}}, world.namespace)
    victim = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "victim",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    pod, group = world.pod("p", queue="q"), world.group("g", 1, "q")
    forged: list[tuple[Any, Object]] = [(PODS, pod), (PODGROUPS, group)]
    file = tmp_path / "robot.kubeconfig"
    write_kubeconfig(file, world.kubeconfig, "robot", (await token(world, "robot"))["status"]["token"])
    async with AsyncExitStack() as stack:
        user = await stack.enter_async_context(connect(file))
        for res, body in forged:
            owned = {**body, "metadata": {**body["metadata"], "ownerReferences": [victim]}}
            message = await denied(partial(user.create, res, owned, world.namespace, dry_run=True))
            assert "by the account of a controller only" in message
        await user.create(PODS, pod, world.namespace)
        mine: Object = {"metadata": {"ownerReferences": [victim]}}
        assert "by the account" in await denied(lambda: user.patch(PODS, "p", world.namespace, mine))
        # Who plays an operator is let pass, and so is a write that leaves the owner as it is.
        role, bound = owning(f"{world.run}-robot", robot)
        await world.create_shared(CLUSTERROLES, role)
        await world.create_shared(CLUSTERROLEBINDINGS, bound)
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    await user.patch(PODS, "p", world.namespace, mine)
                    break
                except Forbidden:
                    await asyncio.sleep(0.2)
        await world.client.delete(CLUSTERROLEBINDINGS, bound["metadata"]["name"])
        await user.patch(PODS, "p", world.namespace, {"metadata": {"labels": {"a": "b"}}})
