"""MLServices on a cluster that has Knative's kinds; its controllers are played by the test."""

from contextlib import suppress
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import AlreadyExists
from t9ksched.kube.resources import CRDS, DEPLOYMENTS, PODS, of
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.model.api_resource import Resource
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.store import Store
from t9ksched.workloads.addons import KNATIVE
from t9ksched.workloads.registry import KINDS
from tests.integration.controller.conftest import running
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.foreign import allow, define, owned_by, played
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_virtual_servers import says, soon
from tests.integration.world import World
from tests.unit.workloads.builders import ml_service, release

Object = dict[str, Any]
SERVICES, ROUTES = KNATIVE.made
_, CONFIGURATIONS, REVISIONS = KNATIVE.between
ML_SERVICES = KINDS["MLService"].resource
READY = [{"type": "Ready", "status": "True"}]
LEAST = "autoscaling.knative.dev/min-scale"

__all__ = ["soon"]


class Knative:
    """The controllers of Knative, as far as objects show of them: a Service has a configuration, that a revision, and
    that a Deployment.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def step(self) -> None:
        client, space = self._world.client, self._world.namespace
        for one in (await client.list(SERVICES, space)).items:
            one |= {"apiVersion": SERVICES.api_version, "kind": SERVICES.api_kind}
            name, template = one["metadata"]["name"], one["spec"]["template"]
            configuration = await self._made(CONFIGURATIONS, one, name, {"template": template})
            revision = await self._made(REVISIONS, configuration, f"{name}-00001", template["spec"])
            labels = {**template["metadata"]["labels"], "serving.knative.dev/revision": f"{name}-00001"}
            pods = {key: each for key, each in template["spec"].items() if key != "containerConcurrency"}
            least = int(template["metadata"]["annotations"][LEAST])
            spec = {
                "replicas": least,
                "selector": {"matchLabels": {"serving.knative.dev/revision": f"{name}-00001"}},
                "template": {"metadata": {"labels": labels}, "spec": pods},
            }
            made = await self._made(DEPLOYMENTS, revision, f"{name}-00001-deployment", spec)
            if (made.get("status") or {}).get("readyReplicas", 0) >= least:
                await self._ready(SERVICES, one)
        for one in (await client.list(ROUTES, space)).items:
            await self._ready(ROUTES, one)

    async def _made(self, res: Resource, owner: Object, name: str, spec: Object) -> Object:
        client, space = self._world.client, self._world.namespace
        meta = {"name": name, "namespace": space, "ownerReferences": owned_by(owner)}
        body = {"apiVersion": res.api_version, "kind": res.api_kind, "metadata": meta, "spec": spec}
        with suppress(AlreadyExists):
            await client.create(res, body)
        return {**body, **await client.get(res, name, space)}

    async def _ready(self, res: Resource, one: Object) -> None:
        name = one["metadata"]["name"]
        status = {"conditions": READY, "url": f"http://{name}.example"}
        if one.get("status") != status:
            await self._world.client.patch(res, name, self._world.namespace, {"status": status}, subresource="status")


async def edit(world: World, **spec: Any) -> None:
    await world.client.patch(ML_SERVICES, "net", world.namespace, {"spec": spec})


async def revised(world: World) -> set[bool]:
    """Whether pods are those of Knative."""
    listed = (await world.client.list(PODS, world.namespace)).items
    return {"serving.knative.dev/revision" in pod["metadata"]["labels"] for pod in listed}


@pytest.mark.usefixtures("soon")
async def test_a_service_moves_between_deployments_and_knative(world: World, start: Start, store: Store) -> None:
    await world.play(1, 0)
    queue = f"{world.run}-anns"
    await store.queues.create(queue, {}, world.queue_spec, {"users": ["ann"]})
    async with start() as service, running(Controllers(await world.account(CONTROLLER))), played(Knative(world).step):
        net = ml_service(release("one", 2), release("two", 1), canary="two", canaryTrafficPercent=20)
        net["spec"]["scheduler"]["t9kScheduler"]["queue"] = queue
        net["metadata"] = {"name": "net", "namespace": world.namespace}
        made = await world.client.create(of(net), net)
        uid = made["metadata"]["uid"]
        about = {"uid": uid, "kind": "MLService", "namespace": world.namespace, "name": "net"}
        await store.acceptances.put_many([Acceptance(**about, submitter="ann", queue=queue)])
        await world.until(ML_SERVICES, "net", says("Running", Autoscaled="NotAutoscaled"))
        assert await revised(world) == {False}

        # Knative comes: the service goes on as it is until it is paused and resumed.
        await define(world, *KNATIVE.made, CONFIGURATIONS, REVISIONS)
        await world.until(ML_SERVICES, "net", says("Running", Autoscaled="KnativeForbidden"))
        await allow(world, "knative")
        await world.until(ML_SERVICES, "net", says("Running", Autoscaled="MadeBeforeKnative"))
        await edit(world, runMode={"pause": {"enabled": True}})
        await world.gone(DEPLOYMENTS, "net-predict-one")
        await edit(world, runMode={"pause": {"enabled": False}})
        shown = await world.until(ML_SERVICES, "net", says("Running", Autoscaled="Knative"))
        assert [each["trafficPercent"] for each in shown["status"]["releases"]] == [80, 20]
        assert shown["status"]["address"]["url"] == "http://net.example"
        (gang,) = service.state.groups_of(uid)
        assert (gang.name, gang.queue, service.state.permissions.submitter(gang)) == ("net", queue, "ann")
        await until(lambda: sum(bool(pod.node) for pod in gang.members.values()) == 3)  # those before leave

        # Knative goes, with all that it had.
        for res in (*KNATIVE.made, CONFIGURATIONS, REVISIONS):
            await world.client.delete(CRDS, str(res))
        await world.until(ML_SERVICES, "net", says("Running", Autoscaled="NotAutoscaled"))
        assert await revised(world) == {False}
