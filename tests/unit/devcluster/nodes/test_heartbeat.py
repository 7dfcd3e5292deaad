"""Leases of played nodes, as a node lifecycle controller of a real cluster wants them."""

import asyncio
from typing import Any

from t9ksched.devcluster.nodes.heartbeat import NAMESPACE, SECONDS
from t9ksched.kube.resources import LEASES, NAMESPACES, NODES
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import World, world

UNKNOWN = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}


async def leases(w: World) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in (await w.port.list(LEASES, NAMESPACE)).items}


async def ready(w: World, name: str) -> str:
    conditions = (await w.port.get(NODES, name))["status"]["conditions"]
    return str(next(c["status"] for c in conditions if c["type"] == "Ready"))


@on_virtual_time
async def test_played_nodes_keep_their_leases_where_others_watch_them() -> None:
    async with world() as w:
        await w.stop()
        await w.port.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await w.start(["gpu-a"], controllers=False)
        await asyncio.sleep(1)
        first = await leases(w)
        assert set(first) == {"gpu-a"}, "the other node is another's"
        owner = first["gpu-a"]["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("Node", (await w.port.get(NODES, "gpu-a"))["metadata"]["uid"])
        await asyncio.sleep(SECONDS)
        assert (await leases(w))["gpu-a"]["spec"]["renewTime"] > first["gpu-a"]["spec"]["renewTime"]


@on_virtual_time
async def test_a_silent_node_lets_it_lapse_and_says_so_when_it_is_back() -> None:
    async with world() as w:
        await w.stop()
        await w.port.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        agents = await w.start(controllers=False)
        silent = agents.kubelet._silent
        assert isinstance(silent, set)
        await asyncio.sleep(1)
        silent.add("gpu-a")
        before = await leases(w)
        await w.port.patch(NODES, "gpu-a", None, {"status": {"conditions": [UNKNOWN]}}, subresource="status")
        await asyncio.sleep(2 * SECONDS)
        after = await leases(w)
        assert after["gpu-a"] == before["gpu-a"]
        assert after["gpu-b"] != before["gpu-b"]
        assert await ready(w, "gpu-a") == "Unknown"
        silent.discard("gpu-a")
        await asyncio.sleep(2 * SECONDS)
        assert await ready(w, "gpu-a") == "True"


@on_virtual_time
async def test_with_controllers_of_our_own_no_leases_are_kept() -> None:
    async with world() as w:
        await w.port.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await asyncio.sleep(2 * SECONDS)
        assert await leases(w) == {}
