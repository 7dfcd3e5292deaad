"""Nodes whose cards are handed out by DRA: pods that ask for the resource by name wait, and are told why."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.kube.resources import DEVICECLASSES, NODES, PODS, RESOURCESLICES
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import asks, indices, told
from tests.integration.world import GPU, RUN_LABEL, World

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"
TYPE = f"device.attributes['{DRIVER}'].type == 'gpu'"


def device_class(name: str, driver: str = DRIVER) -> Object:
    """A class as the driver's installation makes it."""
    selectors = [{"cel": {"expression": f"device.driver == '{driver}' && {TYPE}"}}]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, "extendedResourceName": GPU}}


def devices(node: str, count: int = 2, **pool: Any) -> Object:
    """A node's slice as its driver writes it."""
    found = [
        {
            "name": f"gpu-{at}",
            "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{node}-{at}"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for at in range(count)
    ]
    of = {"name": node, "generation": 1, "resourceSliceCount": 1, **pool}
    return {
        "metadata": {"name": f"{node}-slice"},
        "spec": {"driver": DRIVER, "pool": of, "nodeName": node, "devices": found},
    }


async def reason(service: SchedulerService, holds: Callable[[str], bool]) -> str:
    """Why the only group that waits does, once it is so."""
    async with asyncio.timeout(90):
        while True:
            for gang in service.state.pending:
                words = " ".join(one.message for one in gang.reasons)
                if holds(words):
                    return words
            await asyncio.sleep(0.05)


async def not_ready(service: SchedulerService, node: str, *, is_so: bool) -> str:
    """What a node says of its GPUs, once it says something, or nothing."""
    async with asyncio.timeout(90):
        while True:
            words = (await told(service, node))["notReady"] or ""
            if bool(words) is is_so:
                return str(words)
            await asyncio.sleep(0.05)


async def test_classes_and_slices_come_and_go_while_pods_wait(world: World, start: Start, queue: str) -> None:
    await world.play(2, 0)
    dra, plugin = world.nodes
    offered = {"status": {"allocatable": {GPU: "1"}, "capacity": {GPU: "1"}}}
    await world.client.patch(NODES, plugin, None, offered, subresource="status")
    await world.create_shared(DEVICECLASSES, device_class(f"{world.run}-gpus"))
    await world.create_shared(RESOURCESLICES, devices(dra))
    words = f"nvidia.com/gpu stands for devices of {DRIVER} there (DeviceClass {world.run}-gpus)"
    async with start() as service:
        await world.create(world.pod("first", 1, queue=queue))
        (first,) = await world.running("first")
        assert first["spec"]["nodeName"] == plugin
        await world.create(world.pod("waits", 1, queue=queue), world.pod("without", 0, queue=queue))
        waits = await world.event(names.EVENT_WAITING, "waits")
        assert f"1/2 DRA, not supported yet: {dra} ({words})" in waits["message"]
        assert await not_ready(service, dra, is_so=True) == f"DRA, not supported yet: {words}"
        assert (await told(service, dra))["mode"] == "NotReady"
        await world.running("without")
        # Where a device plugin offers cards it is the one that hands them out.
        await world.create_shared(RESOURCESLICES, devices(plugin))
        await world.client.delete(PODS, "first", world.namespace, grace=0)
        (after,) = await world.running("waits")
        assert after["spec"]["nodeName"] == plugin
        assert await not_ready(service, plugin, is_so=False) == ""
        # Devices of another driver than the class selects are of no concern, and so is a name that no class claims.
        await world.create(world.pod("more", 1, queue=queue))
        await reason(service, lambda text: "DRA" in text)
        other = device_class("x", "other.example.com")["spec"]
        await world.client.patch(DEVICECLASSES, f"{world.run}-gpus", None, {"spec": other})
        await reason(service, lambda text: "DRA" not in text)
        await not_ready(service, dra, is_so=False)
        await world.client.patch(DEVICECLASSES, f"{world.run}-gpus", None, {"spec": device_class("x")["spec"]})
        await reason(service, lambda text: "DRA" in text)
    async with start() as service:
        assert "1/2 DRA, not supported yet" in await reason(service, lambda text: "DRA" in text)
        await world.client.delete(RESOURCESLICES, f"{dra}-slice")
        await reason(service, lambda text: "DRA" not in text)
        await world.client.create(RESOURCESLICES, devices(dra, generation=3, resourceSliceCount=2))
        await reason(service, lambda text: "DRA" in text)
        await world.client.delete(DEVICECLASSES, f"{world.run}-gpus")
        await reason(service, lambda text: "DRA" not in text)
        await world.client.patch(NODES, dra, None, offered, subresource="status")
        (more,) = await world.running("more")
        assert more["spec"]["nodeName"] == dra


async def test_devices_for_many_nodes_and_what_a_plugin_offers_beside_them(
    world: World, start: Start, queue: str
) -> None:
    await world.play(2, 0, allocatable={"cpu": "64", "memory": "256Gi", "amd.com/gpu": "2"})
    of_run = [{"key": RUN_LABEL, "operator": "In", "values": [world.run]}]
    slices = devices(f"{world.run}-any")
    del slices["spec"]["nodeName"]
    slices["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": of_run}]}
    await world.create_shared(RESOURCESLICES, slices)
    async with start() as service:
        await world.create(world.pod("by-dra", 1, queue=queue))
        waits = await world.event(names.EVENT_WAITING, "by-dra")
        assert "DRA" not in waits["message"], "no class claims the name"
        await world.create_shared(DEVICECLASSES, device_class(f"{world.run}-gpus"))
        assert "2/2 DRA, not supported yet" in await reason(service, lambda text: "DRA" in text)
        assert "nvidia.com/gpu stands for devices" in await not_ready(service, world.nodes[0], is_so=True)
        assert (await told(service, world.nodes[0]))["mode"] == "Whole"
        await world.create(asks(world.pod("by-plugin", 0, queue=queue), **{"amd.com__gpu": "2"}))
        await world.running("by-plugin")


async def test_a_pod_that_another_binds_to_such_a_node_runs_without_a_card(
    world: World, start: Start, queue: str
) -> None:
    """Why no pod may be bound there: the kubelet says nothing."""
    await world.play(1, 0, allocatable={"cpu": "64", "memory": "256Gi"})
    await world.create_shared(DEVICECLASSES, device_class(f"{world.run}-gpus"))
    await world.create_shared(RESOURCESLICES, devices(world.nodes[0]))
    foreign = world.pod("foreign", 1)
    foreign["spec"]["schedulerName"] = "another"
    async with start() as service:
        await world.create(foreign)
        await world.bind("foreign", world.nodes[0])
        (pod,) = await world.running("foreign")
        assert indices(pod) == []
        await world.create(world.pod("ours", 1, queue=queue))
        assert "1/1 DRA, not supported yet" in await reason(service, lambda text: "DRA" in text)
        await world.client.delete(PODS, "foreign", world.namespace, grace=0)
        await world.gone(PODS, "foreign")


@pytest.mark.parametrize("how", ["claim", "class"])
async def test_pods_that_ask_for_devices_of_dra_wait(world: World, start: Start, queue: str, how: str) -> None:
    await world.play(1, 8)
    pod = world.pod("claims", 0, queue=queue)
    if how == "claim":
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    else:
        for amounts in pod["spec"]["containers"][0]["resources"].values():
            amounts["deviceclass.resource.kubernetes.io/gpu.nvidia.com"] = "1"
    async with start() as service:
        await world.create(pod, world.pod("plain", 1, queue=queue))
        await world.running("plain")
        waits = await world.event(names.EVENT_WAITING, "claims")
        assert "not supported" in waits["message"]
        (gang,) = service.state.pending
        assert [str(one.code) for one in gang.reasons] == ["UnsupportedClaim"]
