"""VirtualServers on a cluster that has KubeVirt's kinds; its controller is played by the tests."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from t9ksched.kube.resources import ADMISSIONPOLICIES, ADMISSIONPOLICYBINDINGS, CRDS, PODGROUPS, PODS, of
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.model import names
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.store import Store
from t9ksched.workloads.addons import KUBEVIRT, VIRTUAL_MACHINE
from t9ksched.workloads.registry import KINDS
from tests.integration.controller.conftest import running
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.foreign import allow, define, owned_by, played
from tests.integration.scheduler.test_directions import until
from tests.integration.world import TIMEOUT, World
from tests.unit.workloads.builders import launcher, virtual_server

Object = dict[str, Any]
NAME = "managed-virtualserver-vm"
POD = f"virt-launcher-{NAME}"
INSTANCE = KUBEVIRT.between[1]
SERVERS = KINDS["VirtualServer"].resource


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.kube.watch.reflector._UNSERVED", 0.2)
    monkeypatch.setattr("t9ksched.controller.addons._LOOK_SECONDS", 0.05)
    monkeypatch.setattr("t9ksched.controller.addons._WATCH_SECONDS", 0.5)


class KubeVirt:
    """The controller of KubeVirt, as far as objects show of it: a machine that is to run has an instance, and that a
    pod; the status says how it goes.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def step(self) -> None:
        client, space = self._world.client, self._world.namespace
        for machine in (await client.list(VIRTUAL_MACHINE, space)).items:
            name = machine["metadata"]["name"]
            machine |= {"apiVersion": VIRTUAL_MACHINE.api_version, "kind": VIRTUAL_MACHINE.kind}
            pod = None
            if machine["spec"]["runStrategy"] == "Always":
                pod = await self._run(machine)
            else:
                with suppress(NotFound):
                    await client.delete(INSTANCE, name, space)
                found = (await client.list(PODS, space, label_selector=f"kubevirt.io/domain={name}")).items
                pod = found[0] if found else None
            ready = pod is not None and (pod.get("status") or {}).get("phase") == "Running"
            status = {"created": pod is not None, "ready": ready, "printableStatus": "Running" if ready else "Stopped"}
            if machine.get("status") != status:
                await client.patch(VIRTUAL_MACHINE, name, space, {"status": status}, subresource="status")

    async def _run(self, machine: Object) -> Object:
        client, name, space = self._world.client, machine["metadata"]["name"], self._world.namespace
        with suppress(AlreadyExists):
            meta = {"name": name, "namespace": space, "ownerReferences": owned_by(machine)}
            body = {"apiVersion": INSTANCE.api_version, "kind": INSTANCE.kind, "metadata": meta}
            await client.create(INSTANCE, body | {"spec": machine["spec"]["template"]["spec"]})
        instance = await client.get(INSTANCE, name, space)
        instance |= {"apiVersion": INSTANCE.api_version, "kind": INSTANCE.kind}
        pod = launcher(machine, f"virt-launcher-{name}")
        pod["metadata"]["labels"]["kubevirt.io/domain"] = name
        pod["metadata"]["ownerReferences"] = owned_by(instance)
        with suppress(AlreadyExists):
            await client.create(PODS, pod)
        return await client.get(PODS, pod["metadata"]["name"], space)


async def submitted(world: World, store: Store, queue: str, **spec: Any) -> Object:
    """A VirtualServer that ann submitted."""
    block = {"t9kScheduler": {"queue": queue, "priority": 7}}
    vm = virtual_server(scheduler=block, **spec)
    vm["metadata"] = {"name": "vm", "namespace": world.namespace}
    made = await world.client.create(of(vm), vm)
    about = {"uid": made["metadata"]["uid"], "kind": "VirtualServer", "namespace": world.namespace, "name": "vm"}
    await store.acceptances.put_many([Acceptance(**about, submitter="ann", queue=queue)])
    return {**vm, **made}


def says(phase: str, **reasons: str) -> Any:
    """Whether the status has that phase, and conditions their reasons."""

    def holds(obj: Object) -> bool:
        status = obj.get("status") or {}
        told = {each["type"]: each["reason"] for each in status.get("conditions") or ()}
        return status.get("phase") == phase and all(told.get(kind) == reason for kind, reason in reasons.items())

    return holds


async def edit(world: World, **spec: Any) -> None:
    await world.client.patch(SERVERS, "vm", world.namespace, {"spec": spec})


async def refuse(world: World, text: str) -> None:
    """A policy that stands for KubeVirt's webhook, and lets no machine of the namespace have that cloud-init."""
    rule = {"apiGroups": ["kubevirt.io"], "apiVersions": ["*"], "operations": ["UPDATE"]}
    has_it = f"has(v.cloudInitNoCloud) && v.cloudInitNoCloud.userData == '{text}'"
    spec = f"!object.spec.template.spec.volumes.exists(v, {has_it})"
    policy = {
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["virtualmachines"]}]},
        "matchConditions": [{"name": "here", "expression": f"object.metadata.namespace == '{world.namespace}'"}],
        "validations": [{"expression": spec, "message": "no such document"}],
    }
    name = f"{world.run}-no"
    bound = {"policyName": name, "validationActions": ["Deny"]}
    for res, body in ((ADMISSIONPOLICIES, policy), (ADMISSIONPOLICYBINDINGS, bound)):
        head = {"apiVersion": res.api_version, "kind": res.kind, "metadata": {"name": name}}
        await world.create_shared(res, {**head, "spec": body})
    async with asyncio.timeout(TIMEOUT):
        while not await refused(world, text):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # a server takes a moment to follow a policy


async def refused(world: World, text: str) -> bool:
    """Whether the server lets the machine have no such cloud-init."""
    machine = await world.client.get(VIRTUAL_MACHINE, NAME, world.namespace)
    machine["spec"]["template"]["spec"]["volumes"] = [{"name": "a", "cloudInitNoCloud": {"userData": text}}]
    try:
        await world.client.replace(VIRTUAL_MACHINE, machine, dry_run=True)
    except Conflict:
        return False
    except ApiError as error:
        return "no such document" in error.message
    return False


async def test_a_machine_waits_for_kubevirt_and_runs_in_the_queue_of_its_server(
    world: World, start: Start, store: Store
) -> None:
    await world.play(1, 2)
    for name, members in (("anns", {"users": ["ann"]}), ("others", {"users": ["ann"]})):
        await store.queues.create(f"{world.run}-{name}", {}, world.queue_spec, members)
    queue = f"{world.run}-anns"
    async with start() as service, running(Controllers(await world.account(CONTROLLER))), played(KubeVirt(world).step):
        gpus = {"cpu": {"cores": 2}, "memory": "4Gi", "gpu": {"type": "nvidia.com/gpu"}}
        made = await submitted(world, store, queue, resources=gpus)
        uid = made["metadata"]["uid"]
        shown = await world.until(SERVERS, "vm", says("Pending", Initialized="NotInstalled"))
        told = {each["type"]: each["message"] for each in shown["status"]["conditions"]}
        assert told["Ready"] == "this cluster does not serve kubevirt.io/v1: install KubeVirt"
        await until(lambda: service.state.jobs[uid].lacking)
        await define(world, *KUBEVIRT.between)
        shown = await world.until(
            SERVERS, "vm", lambda each: "deploy/foreign/kubevirt.yaml" in str(each.get("status") or {})
        )
        await allow(world, "kubevirt")

        # It runs: the pod is a member of the server's group, on a card, although ann's queue is hers alone.
        await world.until(SERVERS, "vm", says("Running", Ready="-"))
        machine = await world.client.get(VIRTUAL_MACHINE, NAME, world.namespace)
        assert machine["spec"]["template"]["spec"]["domain"]["devices"]["gpus"] == [
            {"name": "gpu-0", "deviceName": "nvidia.com/gpu"}
        ]
        (gang,) = service.state.groups_of(uid)
        assert (gang.name, gang.queue, gang.spec.priority, len(gang.members)) == ("vm", queue, 7, 1)
        assert service.state.permissions.submitter(gang) == "ann"
        (first,) = [pod.uid for pod in gang.members.values()]

        # An edit that a policy refuses: it runs on, and the server's words are told until the edit is taken back.
        await refuse(world, "#refused")
        await edit(world, cloudInit="#refused")
        shown = await world.until(SERVERS, "vm", says("Running", Initialized="FailedUpdate"))
        told = {each["type"]: each["message"] for each in shown["status"]["conditions"]}
        assert "no such document" in told["Initialized"]
        await until(lambda: "no such document" in service.state.jobs[uid].refused)
        machine = await world.client.get(VIRTUAL_MACHINE, NAME, world.namespace)
        assert machine["spec"]["runStrategy"] == "Always"
        assert [pod.uid for pod in gang.members.values()] == [first]
        await edit(world, cloudInit=None)
        await world.until(SERVERS, "vm", lambda each: "FailedUpdate" not in str(each["status"]))

        # Another queue, another image: it is stopped first, and started anew.
        await edit(world, scheduler={"t9kScheduler": {"queue": f"{world.run}-others"}}, cloudInit="#other")
        await world.until(PODGROUPS, "vm", lambda each: each["spec"]["queue"] == f"{world.run}-others")
        again = await world.until(
            PODS, POD, lambda pod: pod["metadata"]["uid"] != first and pod["spec"].get("nodeName")
        )
        assert again["metadata"]["labels"][names.QUEUE_LABEL] == f"{world.run}-others"
        await world.until(SERVERS, "vm", says("Running", Ready="-"))

        await edit(world, suspend=True)
        await world.until(SERVERS, "vm", says("Paused", Suspended="SuspendedByUser"))
        await world.gone(PODS, POD)
        await edit(world, suspend=False)
        await world.until(SERVERS, "vm", says("Running", Ready="-"))

        # KubeVirt goes, with all that it had, and comes back.
        await world.client.delete(CRDS, str(VIRTUAL_MACHINE))
        await world.until(SERVERS, "vm", says("Pending", Initialized="NotInstalled"))
        await world.gone(PODS, POD)
        await define(world, VIRTUAL_MACHINE)
        await world.until(SERVERS, "vm", says("Running", Ready="-"))
        assert not service.state.jobs[uid].lacking

        await world.client.delete(SERVERS, "vm", world.namespace)
        await world.gone(VIRTUAL_MACHINE, NAME)
        await world.gone(PODS, POD)
