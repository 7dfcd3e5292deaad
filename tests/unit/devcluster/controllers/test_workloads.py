"""Deployments, ReplicaSets and StatefulSets."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.errors import Conflict
from t9ksched.kube.resources import DEPLOYMENTS, PODS, PVCS, REPLICASETS, STATEFULSETS, STORAGECLASSES
from t9ksched.model.api_resource import Resource
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import World, container, world

Object = dict[str, Any]


def workload(res: Resource, replicas: int = 3, image: str = "example/image:1", **spec: Any) -> Object:
    labels = {"app": "x"}
    return {
        "apiVersion": res.api_version,
        "kind": res.kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{**container(), "image": image}]}},
            **spec,
        },
    }


async def scale(w: World, res: Resource, replicas: int) -> None:
    await w.port.patch(res, "w", "default", {"spec": {"replicas": replicas}})
    await asyncio.sleep(2)


@on_virtual_time
async def test_a_scale_is_for_the_very_object_and_nothing_else_of_it() -> None:
    async with world() as w:
        made = await w.create(DEPLOYMENTS, workload(DEPLOYMENTS))
        stranger = {"metadata": {"uid": "of-another"}, "spec": {"replicas": 0}}
        with pytest.raises(Conflict, match="Precondition failed: UID in precondition: of-another"):
            await w.port.patch(DEPLOYMENTS, "w", "default", stranger, subresource="scale")
        asked = {"metadata": {"uid": made["metadata"]["uid"]}, "spec": {"replicas": 0, "paused": True}}
        answer = await w.port.patch(DEPLOYMENTS, "w", "default", asked, subresource="scale")
        assert (answer["kind"], answer["spec"]["replicas"]) == ("Scale", 0)
        there = await w.get("w", DEPLOYMENTS)
        assert there["spec"]["replicas"] == 0
        assert "paused" not in there["spec"]


@on_virtual_time
async def test_a_replica_set_keeps_its_number() -> None:
    async with world() as w:
        await w.create(REPLICASETS, workload(REPLICASETS))
        await asyncio.sleep(2)
        assert len(await w.pods()) == 3
        status = (await w.get("w", REPLICASETS))["status"]
        assert (status["replicas"], status["readyReplicas"]) == (3, 3)
        victim = (await w.pods())[0]["metadata"]["name"]
        await w.port.delete(PODS, victim, "default")
        await asyncio.sleep(2)
        assert len(await w.pods()) == 3
        assert victim not in {obj["metadata"]["name"] for obj in await w.pods()}
        await scale(w, REPLICASETS, 1)
        assert len(await w.pods()) == 1
        await scale(w, REPLICASETS, 0)
        assert await w.pods() == []
        assert (await w.get("w", REPLICASETS))["status"]["replicas"] == 0


@on_virtual_time
async def test_a_deployment_rolls_to_a_new_template_and_scales() -> None:
    async with world() as w:
        await w.create(DEPLOYMENTS, workload(DEPLOYMENTS))
        await asyncio.sleep(2)
        found = await w.get("w", DEPLOYMENTS)
        assert (found["status"]["readyReplicas"], found["status"]["updatedReplicas"]) == (3, 3)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        before = {obj["metadata"]["name"] for obj in await w.pods()}
        patch = {"spec": {"template": workload(DEPLOYMENTS, image="example/image:2")["spec"]["template"]}}
        await w.port.patch(DEPLOYMENTS, "w", "default", patch)
        await asyncio.sleep(2)
        after = await w.pods()
        assert len(after) == 3
        assert before.isdisjoint(obj["metadata"]["name"] for obj in after)
        assert {obj["spec"]["containers"][0]["image"] for obj in after} == {"example/image:2"}
        assert len((await w.port.list(REPLICASETS, "default")).items) == 2
        await scale(w, DEPLOYMENTS, 5)
        status = (await w.get("w", DEPLOYMENTS))["status"]
        assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (5, 5, 5)
        available = {entry["type"]: entry["status"] for entry in status["conditions"]}
        assert available == {"Available": "True", "Progressing": "True"}


@on_virtual_time
async def test_deleting_a_deployment_takes_everything_along() -> None:
    async with world() as w:
        await w.create(DEPLOYMENTS, workload(DEPLOYMENTS))
        await asyncio.sleep(2)
        await w.port.delete(DEPLOYMENTS, "w", "default", propagation="Background")
        await asyncio.sleep(2)
        assert await w.pods() == []
        assert (await w.port.list(REPLICASETS, "default")).items == []


@on_virtual_time
async def test_a_stateful_set_makes_its_pods_in_order() -> None:
    async with world("nodes: [{name: 'n', allocatable: {cpu: 8, memory: 1Gi, pods: 2}}]") as w:
        await w.create(STATEFULSETS, workload(STATEFULSETS, 4, serviceName="w"))
        await asyncio.sleep(2)
        assert [obj["metadata"]["name"] for obj in await w.pods()] == ["w-0", "w-1", "w-2"], "w-2 is not ready: no w-3"
        assert (await w.get("w", STATEFULSETS))["status"]["readyReplicas"] == 2
        await scale(w, STATEFULSETS, 1)
        assert [obj["metadata"]["name"] for obj in await w.pods()] == ["w-0"]
        first = (await w.get("w-0"))["metadata"]["uid"]
        await w.port.delete(PODS, "w-0", "default")
        await asyncio.sleep(2)
        assert (await w.get("w-0"))["metadata"]["uid"] != first


@on_virtual_time
async def test_a_stateful_sets_pods_have_claims_of_their_own() -> None:
    async with world() as w:
        storage = {
            "apiVersion": STORAGECLASSES.api_version,
            "kind": STORAGECLASSES.kind,
            "metadata": {"name": "local"},
            "provisioner": "local.devcluster.tensorstack.dev",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await w.create(STORAGECLASSES, storage)
        template = {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        body = workload(STATEFULSETS, 2, podManagementPolicy="Parallel", volumeClaimTemplates=[template])
        await w.create(STATEFULSETS, body)
        await asyncio.sleep(3)
        claims = (await w.port.list(PVCS, "default")).items
        assert {claim["metadata"]["name"]: claim["status"]["phase"] for claim in claims} == {
            "data-w-0": "Bound",
            "data-w-1": "Bound",
        }
        assert {obj["status"]["phase"] for obj in await w.pods()} == {"Running"}
