"""The trivial default scheduler."""

import asyncio
from collections import Counter

import pytest

from t9ksched.kube.resources import NODES, PODS
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import World, container, pod, world

DEFAULT = "default-scheduler"
NODES_FILE = """
nodes:
- {name: big, labels: {size: big}, allocatable: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}
- {name: small, labels: {size: small}, allocatable: {cpu: 4, memory: 16Gi}}
- {name: tainted, taints: [{key: gpu, effect: NoSchedule}], allocatable: {cpu: 64, memory: 64Gi}}
"""


async def where(w: World, name: str) -> str:
    return str((await w.get(name))["spec"].get("nodeName", ""))


def unschedulable(obj: dict) -> str:
    for entry in obj["status"].get("conditions") or []:
        if (entry["type"], entry["status"], entry.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
            return str(entry["message"])
    return ""


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "size", "operator": "NotIn", "values": ["big"]}]}]
        }
    }
}


@pytest.mark.parametrize(
    ("obj", "node"),
    [
        (pod("a", scheduler=DEFAULT), "big"),
        (pod("a", scheduler=DEFAULT, nodeSelector={"size": "small"}), "small"),
        (pod("a", scheduler=DEFAULT, affinity=AFFINITY), "small"),
        (pod("a", scheduler=DEFAULT, tolerations=[{"key": "gpu", "operator": "Exists"}]), "tainted"),
        (pod("a", scheduler=DEFAULT, cpu="20"), ""),
        (pod("a", gpu=5, scheduler=DEFAULT), ""),
        (pod("a", gpu=4, scheduler=DEFAULT), "big"),
        (pod("a", scheduler="t9k-scheduler"), ""),
    ],
)
def test_where_a_pod_goes(obj: dict, node: str) -> None:
    @on_virtual_time
    async def scenario() -> None:
        async with world(NODES_FILE) as w:
            await w.run(obj)
            assert await where(w, "a") == node
            found = await w.get("a")
            assert bool(unschedulable(found)) == (not node and obj["spec"]["schedulerName"] == DEFAULT)
            assert w.agents.refusals == []

    scenario()


@on_virtual_time
async def test_pods_spread_over_the_emptier_nodes_and_all_run() -> None:
    async with world(NODES_FILE) as w:
        for number in range(12):
            await w.create(PODS, pod(f"p{number}", scheduler=DEFAULT))
        await asyncio.sleep(1)
        placed = Counter(obj["spec"]["nodeName"] for obj in await w.pods())
        assert placed == {"big": 8, "small": 4}
        assert {obj["status"]["phase"] for obj in await w.pods()} == {"Running"}
        assert w.agents.audit().ok


@on_virtual_time
async def test_others_pods_are_charged() -> None:
    async with world(NODES_FILE) as w:
        await w.run(pod("ours", gpu=3), "big", main="0,1,2")
        await w.run(pod("a", gpu=2, scheduler=DEFAULT))
        assert await where(w, "a") == ""
        await w.run(pod("b", gpu=1, scheduler=DEFAULT))
        assert await where(w, "b") == "big"
        assert w.agents.audit().ok


@on_virtual_time
async def test_what_waits_goes_on_when_room_appears_and_the_condition_follows() -> None:
    async with world(NODES_FILE) as w:
        await w.run(pod("first", gpu=4), "big", main="0,1,2,3")
        for number in range(4):
            await w.run(pod(f"p{number}", gpu=1, scheduler=DEFAULT))
        assert "3 nodes" in unschedulable(await w.get("p0"))
        await w.port.delete(PODS, "first", "default")
        await asyncio.sleep(1)
        assert [await where(w, f"p{number}") for number in range(4)] == ["big"] * 4
        assert not unschedulable(await w.get("p0"))
        assert w.agents.refusals == []


@on_virtual_time
async def test_a_cordoned_node_takes_nothing_until_it_is_open() -> None:
    async with world("nodes: [{name: 'n', allocatable: {cpu: 8, memory: 1Gi}}]") as w:
        await w.port.patch(NODES, "n", None, {"spec": {"unschedulable": True}})
        await w.run(pod("a", scheduler=DEFAULT))
        assert await where(w, "a") == ""
        await w.port.patch(NODES, "n", None, {"spec": {"unschedulable": None}})
        await asyncio.sleep(1)
        assert await where(w, "a") == "n"


@on_virtual_time
async def test_host_ports() -> None:
    async with world("nodes: [{name: 'n', allocatable: {cpu: 8, memory: 1Gi}}]") as w:
        web = [{**container(), "ports": [{"containerPort": 80, "hostPort": 80}]}]
        await w.run(pod("a", scheduler=DEFAULT, containers=web))
        await w.run(pod("b", scheduler=DEFAULT, containers=web))
        assert [await where(w, name) for name in "ab"] == ["n", ""]
        await w.port.delete(PODS, "a", "default")
        await asyncio.sleep(1)
        assert await where(w, "b") == "n"


@on_virtual_time
async def test_gated_pods_wait() -> None:
    async with world(NODES_FILE) as w:
        await w.run(pod("a", scheduler=DEFAULT, schedulingGates=[{"name": "example.com/wait"}]))
        assert await where(w, "a") == ""
        await w.port.patch(PODS, "a", "default", {"spec": {"schedulingGates": None}})
        await asyncio.sleep(1)
        assert await where(w, "a") == "big"
