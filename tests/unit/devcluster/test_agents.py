"""All agents together."""

import asyncio
import time

import pytest

from t9ksched.devcluster import agents
from t9ksched.devcluster.nodes.presets import load_nodes
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODS
from tests.unit.devcluster.inprocess import new_port
from tests.unit.devcluster.virtualtime import on_virtual_time
from tests.unit.devcluster.world import RUN, World, pod, world


class Counting:
    """A port that counts the requests that reach the server."""

    def __init__(self, port: ClusterPort) -> None:
        self._port = port
        self.calls: list[str] = []

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        self.calls.append(name)
        return getattr(self._port, name)


@on_virtual_time
async def test_start_creates_missing_nodes_and_leaves_the_others() -> None:
    async with new_port() as port:
        nodes = load_nodes("demo")
        running = await agents.start(port, nodes)
        await port.patch(NODES, "a100-0", None, {"spec": {"unschedulable": True}})
        await running.stop()
        running = await agents.start(port, nodes)
        assert (await port.get(NODES, "a100-0"))["spec"]["unschedulable"] is True
        assert len((await port.list(NODES)).items) == 10
        await running.stop()


@on_virtual_time
async def test_idle_costs_nothing() -> None:
    async with new_port() as port:
        counting = Counting(port)
        running = await agents.start(counting, load_nodes("demo"))
        w = World(port)
        await w.run(pod("a", gpu=1), "a100-0", main="0")
        await asyncio.sleep(10)
        assert running.idle
        counting.calls.clear()
        await asyncio.sleep(280)
        assert set(counting.calls) <= {"watch"}, "only watches that reach their end are renewed"
        await running.stop()


@on_virtual_time
async def test_a_pod_costs_one_write() -> None:
    async with new_port() as port:
        counting = Counting(port)
        running = await agents.start(counting, load_nodes("demo"))
        counting.calls.clear()
        w = World(port)
        for number in range(20):
            await w.run(pod(f"p{number}", cpu="100m"), "a100-0")
        assert [call for call in counting.calls if call != "watch"] == ["patch"] * 20
        await running.stop()


@on_virtual_time
async def test_many_pods_end_and_are_replaced_without_a_refusal() -> None:
    async with world() as w:
        for wave in range(5):
            for card in range(4):
                body = pod(f"p{wave}-{card}", gpu=1, annotations={RUN: str(5 + card)})
                await w.run(body, "gpu-a", main=str(card))
            await asyncio.sleep(20)
        assert {obj["status"]["phase"] for obj in await w.pods()} == {"Succeeded"}
        assert w.agents.refusals == []
        assert w.agents.audit().ok


async def test_on_a_real_clock() -> None:
    async with new_port() as port:
        running = await agents.start(port, load_nodes("small"), time.time)
        w = World(port)
        made = await w.create(PODS, pod("a", gpu=2, annotations={RUN: "0.01"}))
        await w.bind(made, "a100-0", main="0,1")
        async for event in port.watch(PODS, resource_version=made["metadata"]["resourceVersion"], timeout=60):
            if event.type == "MODIFIED" and event.object["status"]["phase"] == "Succeeded":
                break
        else:
            pytest.fail("the pod did not end")
        await running.stop()
        assert running.audit().ok
