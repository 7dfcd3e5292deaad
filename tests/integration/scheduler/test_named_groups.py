"""Pods that name a group in the way of another scheduler start whole, over HTTP and over a restart."""

import asyncio
from typing import Any

import pytest

from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import PODS
from t9ksched.model.api_resource import Resource
from t9ksched.workloads.podgroups import SYSTEMS
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.foreign import allow, definition, pods
from tests.integration.scheduler.test_directions import until
from tests.integration.scheduler.test_foreign_gangs import bound, settled
from tests.integration.world import World

Object = dict[str, Any]
BY_NAME = {system.name: system for system in SYSTEMS}


def group(world: World, system: str, spec: Object) -> Object:
    resource = BY_NAME[system].resource
    assert resource is not None
    metadata = {"name": "train", "namespace": world.namespace}
    return {"apiVersion": resource.api_version, "kind": resource.api_kind, "metadata": metadata, "spec": spec}


def labelled(world: World, name: str, queue: str, labels: dict[str, str], **more: Any) -> Object:
    made = world.pod(name, 1, queue=queue, **more)
    made["metadata"]["labels"] |= labels
    return made


async def served(world: World, resource: Resource, crd: Object) -> None:
    """Have the server know these objects; those of Kubernetes itself a real one serves or not, with the field of pods
    that names them.
    """
    if not (world.real and resource.group == "scheduling.k8s.io"):
        await world.define(crd)
        return
    try:
        await world.client.list(resource)
    except NotFound:
        pytest.skip(f"this server does not serve {resource.plural} of {resource.api_version}")


@pytest.mark.parametrize(
    ("system", "labels", "fields", "spec"),
    [
        ("scheduling.x-k8s.io", {"scheduling.x-k8s.io/pod-group": "train"}, {}, {"minMember": 3}),
        (
            "volcano.sh",
            {},
            {"annotations": {"scheduling.k8s.io/group-name": "train"}},
            {"minMember": 3, "queue": "default"},
        ),
        (
            "scheduling.k8s.io",
            {},
            {"schedulingGroup": {"podGroupName": "train"}},
            {"schedulingPolicy": {"gang": {"minCount": 3}}},
        ),
        (
            "workload.scheduling.k8s.io",
            {},
            {"workloadRef": {"name": "train", "podGroup": "workers", "podGroupReplicaKey": "a"}},
            {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}]},
        ),
    ],
    ids=["coscheduling", "volcano", "kubernetes", "kubernetes-1.35"],
)
async def test_an_object_says_how_many(
    world: World, start: Start, queue: str, system: str, labels: dict[str, str], fields: Object, spec: Object
) -> None:
    resource = BY_NAME[system].resource
    assert resource is not None
    await served(world, resource, definition(resource))
    await allow(world, BY_NAME[system].project.name)
    await world.play(1, 8)
    async with start() as service:
        for name in ("a", "b"):
            await world.create(labelled(world, name, queue, labels, **fields))
        await until(lambda: any(not one.virtual and one.reasons for one in service.state.pending))
        (gang,) = service.state.pending
        assert "train" in gang.reasons[0].message
        assert "is not there" in gang.reasons[0].message
        await world.client.create(resource, group(world, system, spec))
        await settled(lambda: any(one.uid and one.reasons for one in service.state.pending))
        assert not any((await pods(world)).values())
    async with start() as service:
        await until(lambda: any(one.reasons for one in service.state.pending))
        assert not any((await pods(world)).values())
        await world.create(labelled(world, "c", queue, labels, **fields))
        await bound(world, 3)
        await until(lambda: all(one.ran for one in service.state.gangs.values()))
        await service.sql_writer.flushed()
    async with start() as service:
        await until(lambda: all(one.ran for one in service.state.gangs.values()))
        (gang,) = service.state.gangs.values()
        assert (len(gang.members), gang.queue, gang.minimum.members) == (3, queue, 3)


async def test_the_newest_version_of_an_object_that_is_served_counts(world: World, start: Start, queue: str) -> None:
    """Kubernetes 1.37 serves PodGroups in other versions than 1.36."""
    system = BY_NAME["scheduling.k8s.io"]
    newest, other, first = system.resources
    crd = definition(newest)
    crd["spec"]["versions"] += [{**definition(other)["spec"]["versions"][0], "storage": False}]
    await served(world, newest, crd)
    await allow(world, system.project.name)
    await world.play(1, 8)
    async with start() as service:
        made = group(world, system.name, {"schedulingPolicy": {"gang": {"minCount": 2}}})
        await world.client.create(newest, {**made, "apiVersion": newest.api_version})
        for name in ("a", "b"):
            await world.create(labelled(world, name, queue, {}, schedulingGroup={"podGroupName": "train"}))
            await until(lambda: any(one.minimum.members == 2 for one in service.state.gangs.values()))
        await bound(world, 2)
        assert [len(gang.members) for gang in service.state.gangs.values()] == [2]
        assert first.version == "v1alpha2"


async def test_a_group_that_kueue_holds_is_left_to_it(world: World, start: Start, queue: str) -> None:
    """Its pods have gates until Kueue admits the group."""
    labels = {"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/managed": "true"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    counted = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    await world.play(1, 8)
    async with start() as service:
        for name in ("a", "b"):
            made = labelled(world, name, queue, labels, annotations=counted, schedulingGates=gates)
            await world.create(made)
        await settled(lambda: any(one.reasons and len(one.members) == 2 for one in service.state.pending))
        (gang,) = service.state.pending
        assert "SchedulingGated" in {str(one.code) for one in gang.reasons}
        await world.client.patch(PODS, "a", world.namespace, {"spec": {"schedulingGates": None}})
        await asyncio.sleep(0.5)
        assert not any((await pods(world)).values())
        await world.client.patch(PODS, "b", world.namespace, {"spec": {"schedulingGates": None}})
        await bound(world, 2)
