"""The controllers beside a cluster with two nodes, both over HTTP; a pod of ours is bound as soon as it is made."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import ApiError
from t9ksched.kube.resources import EVENTS, PODS, of
from t9ksched.kube.setup.rbac import CONTROLLER
from t9ksched.kube.transport.client import Client
from t9ksched.kube.watch.reflector import Reflector
from t9ksched.model.api_resource import Resource
from tests.integration.world import World

Object = dict[str, Any]
TIMEOUT = 90.0


class Binder:
    """Stands in for the scheduler: every pod of ours goes to `node`."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        self.node = node

    def on_replace(self, items: list[Object]) -> None:
        for item in items:
            self.on_upsert(item)

    def on_upsert(self, pod: Object) -> None:
        spec = pod["spec"]
        if spec.get("schedulerName") == "t9k-scheduler" and not spec.get("nodeName"):
            task = asyncio.create_task(self._bind(pod["metadata"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def on_delete(self, pod: Object) -> None:
        pass

    async def _bind(self, metadata: Object) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
        with suppress(ApiError):
            await self._client.bind(metadata["namespace"], metadata["name"], binding)


class Cluster:
    """The cluster as a test sees it."""

    def __init__(self, world: World, binder: Binder) -> None:
        self.world = world
        self.client = world.client
        self.namespace = world.namespace
        self.binder = binder

    async def submit(self, obj: Object) -> Object:
        obj = {**obj, "metadata": {key: each for key, each in obj["metadata"].items() if key != "uid"}}
        obj["metadata"]["namespace"] = self.namespace
        return await self.client.create(of(obj), obj)

    async def until(self, res: Resource, name: str, holds: Callable[[Object], Any]) -> Object:
        """Follow an object until something holds of it."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                listed = await self.client.list(res, self.namespace, field_selector=f"metadata.name={name}")
                for obj in listed.items:
                    if holds(obj):
                        return obj
                watch = self.client.watch(res, self.namespace, resource_version=listed.resource_version, timeout=5)
                async for event in watch:
                    if event.type != "BOOKMARK" and event.object["metadata"]["name"] == name and holds(event.object):
                        return event.object

    async def until_gone(self, res: Resource) -> None:
        """Follow a kind until no object of it with an owner is left in the namespace."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                listed = await self.client.list(res, self.namespace)
                if not any(item["metadata"].get("ownerReferences") for item in listed.items):
                    return
                async for _ in self.client.watch(
                    res, self.namespace, resource_version=listed.resource_version, timeout=1
                ):
                    break

    async def phase(self, obj: Object, *phases: str) -> Object:
        """Follow a workload until it is in one of the phases."""
        name = obj["metadata"]["name"]
        return await self.until(of(obj), name, lambda each: (each.get("status") or {}).get("phase") in phases)

    async def names(self, res: Resource) -> list[str]:
        return sorted(each["metadata"]["name"] for each in (await self.client.list(res, self.namespace)).items)

    async def patch(self, obj: Object, body: Object) -> Object:
        return await self.client.patch(of(obj), obj["metadata"]["name"], self.namespace, body)

    async def event(self, reason: str) -> Object:
        """Wait for an event with that reason."""
        found: list[Object] = []
        async with asyncio.timeout(TIMEOUT):
            while not found:
                listed = await self.client.list(EVENTS, self.namespace)
                found = [each for each in listed.items if each["reason"] == reason]
                if not found:
                    async for _ in self.client.watch(
                        EVENTS, self.namespace, resource_version=listed.resource_version, timeout=1
                    ):
                        break
        return found[0]


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[Cluster]:
    await world.play(2, 8)
    world.refusals_expected = True  # the binder does not look for room
    binder = Binder(world.client, world.nodes[0])
    task = asyncio.create_task(Reflector(world.client, PODS, binder, world.namespace).run())
    yield Cluster(world, binder)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
async def account(world: World) -> Client:
    """What the controllers speak to the cluster with: their service account's rights."""
    return await world.account(CONTROLLER)


@pytest.fixture
async def controllers(account: Client) -> AsyncIterator[Controllers]:
    """Running controllers."""
    async with running(Controllers(account)) as service:
        yield service


@asynccontextmanager
async def running(service: Controllers) -> AsyncIterator[Controllers]:
    """Controllers that have seen everything, until the block is left."""
    task = asyncio.create_task(service.run())
    await service.ready.wait()
    yield service
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
