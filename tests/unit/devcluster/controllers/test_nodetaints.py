"""Cordoned nodes have the taint of a cordoned node, as a node lifecycle controller keeps it."""

import asyncio
from typing import Any

from t9ksched.kube.resources import NODES
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import World, pod, world

TEAM = {"key": "team", "value": "red", "effect": "NoSchedule"}
KEY = "node.kubernetes.io/unschedulable"
BY_HAND = {"key": KEY, "effect": "NoExecute"}


async def change(w: World, **spec: Any) -> None:
    await w.port.patch(NODES, "gpu-a", None, {"spec": spec})
    await asyncio.sleep(1)


async def taints(w: World) -> list[tuple[str, str]]:
    spec = (await w.get("gpu-a", NODES))["spec"]
    return [(taint["key"], taint["effect"]) for taint in spec.get("taints") or ()]


@on_virtual_time
async def test_a_node_has_the_taint_while_it_is_cordoned() -> None:
    async with world() as w:
        assert await taints(w) == []
        await change(w, taints=[TEAM])
        await change(w, unschedulable=True)
        assert await taints(w) == [("team", "NoSchedule"), (KEY, "NoSchedule")]
        await change(w, taints=[TEAM])
        assert await taints(w) == [("team", "NoSchedule"), (KEY, "NoSchedule")], "it is put back"
        await change(w, unschedulable=False)
        assert await taints(w) == [("team", "NoSchedule")]
        await change(w, taints=None, unschedulable=True)
        await change(w, unschedulable=None)
        assert await taints(w) == []


@on_virtual_time
async def test_a_taint_with_another_effect_is_an_administrators() -> None:
    async with world() as w:
        await change(w, taints=[BY_HAND])
        assert await taints(w) == [(KEY, "NoExecute")]
        await change(w, unschedulable=True)
        assert await taints(w) == [(KEY, "NoExecute"), (KEY, "NoSchedule")]
        await change(w, unschedulable=False)
        assert await taints(w) == [(KEY, "NoExecute")]


@on_virtual_time
async def test_what_was_cordoned_while_nobody_looked_is_tainted_at_the_start() -> None:
    async with world() as w:
        await w.stop()
        await w.port.patch(NODES, "gpu-a", None, {"spec": {"unschedulable": True}})
        await w.start()
        await asyncio.sleep(1)
        assert await taints(w) == [(KEY, "NoSchedule")]


@on_virtual_time
async def test_it_is_another_controllers_where_there_is_one() -> None:
    async with world(controllers=False) as w:
        await change(w, unschedulable=True)
        assert await taints(w) == []


@on_virtual_time
async def test_a_pod_stays_on_a_node_that_is_cordoned() -> None:
    async with world() as w:
        await w.run(pod("there"), "gpu-a")
        await change(w, unschedulable=True)
        await asyncio.sleep(600)
        assert await w.phase("there") == "Running"
        assert w.agents is not None
        assert w.agents.audit().ok
