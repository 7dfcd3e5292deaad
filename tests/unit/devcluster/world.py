"""A simulated cluster on virtual time, in this process, with short ways to make and look at its objects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from t9ksched.devcluster.agents import Agents, create_nodes
from t9ksched.devcluster.nodes.nodefile import parse_nodes
from t9ksched.kube.errors import NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import PODS
from t9ksched.model.api_resource import Resource
from tests.unit.devcluster.inprocess import new_port

Object = dict[str, Any]
ASKED = "scheduler.tensorstack.dev/gpu-index-container-"
GIVEN = "devcluster.tensorstack.dev/cards-container-"
RUN = "devcluster.tensorstack.dev/run-seconds"
EXIT = "devcluster.tensorstack.dev/exit-code"
START = 1_700_000_000.0
GPU = "nvidia.com/gpu"

NODES = """
nodes:
- {name: gpu-a, allocatable: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}
- {name: gpu-b, allocatable: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}, cardMode: plugin-chooses}
"""


def container(name: str = "main", gpu: int = 0, **amounts: str) -> Object:
    limits = {**amounts, **({GPU: str(gpu)} if gpu else {})}
    return {"name": name, "image": "example/image:1", "resources": {"limits": limits, "requests": dict(limits)}}


def pod(
    name: str,
    gpu: int = 0,
    node: str = "",
    scheduler: str = "t9k-scheduler",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    restart: str = "Never",
    containers: list[Object] | None = None,
    cpu: str = "1",
    **spec: Any,
) -> Object:
    body: Object = {
        "containers": containers or [container(gpu=gpu, cpu=cpu)],
        "restartPolicy": restart,
        "schedulerName": scheduler,
        **spec,
    }
    if node:
        body["nodeName"] = node
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


class World:
    """One cluster. Time is the loop's, from `START` on."""

    def __init__(self, port: ClusterPort) -> None:
        self.port = port
        self.agents: Agents | None = None

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()

    async def start(self, nodes: list[str] | None = None, controllers: bool = True) -> Agents:
        self.agents = Agents(self.port, nodes, clock=self.now, controllers=controllers)
        self.agents.begin()
        await self.agents.synced()
        return self.agents

    async def restart(self) -> Agents:
        await self.stop()
        return await self.start()

    async def stop(self) -> None:
        if self.agents is not None:
            await self.agents.stop()
            self.agents = None

    async def create(self, res: Resource, obj: Object) -> Object:
        return await self.port.create(res, obj, "default" if res.namespaced else None)

    async def run(self, obj: Object, node: str = "", **cards: str) -> Object:
        """Create a pod and bind it to a node with its card indices, as a scheduler would; then let it settle."""
        made = await self.create(PODS, obj)
        if node:
            await self.bind(made, node, **cards)
        await asyncio.sleep(0.5)
        return made

    async def bind(self, made: Object, node: str, **cards: str) -> None:
        metadata = made["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": metadata["name"],
                "namespace": "default",
                "uid": metadata["uid"],
                "annotations": {ASKED + container: indices for container, indices in cards.items()},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.port.bind("default", metadata["name"], binding)

    async def get(self, name: str, res: Resource = PODS) -> Object:
        return await self.port.get(res, name, "default" if res.namespaced else None)

    async def gone(self, name: str, res: Resource = PODS) -> bool:
        try:
            await self.get(name, res)
        except NotFound:
            return True
        return False

    async def phase(self, name: str) -> str:
        return str((await self.get(name))["status"]["phase"])

    async def pods(self, selector: str = "") -> list[Object]:
        return (await self.port.list(PODS, "default", label_selector=selector)).items

    async def annotate(self, name: str, **annotations: str) -> None:
        await self.port.patch(PODS, name, "default", {"metadata": {"annotations": annotations}})


@asynccontextmanager
async def world(nodes: str = NODES, controllers: bool = True) -> AsyncIterator[World]:
    """A cluster with these nodes, its agents running; at the end nothing was refused unless the test says so."""
    async with new_port() as port:
        made = World(port)
        await create_nodes(port, parse_nodes(nodes))
        await made.start(controllers=controllers)
        try:
            yield made
        finally:
            await made.stop()
