"""A server that goes away and comes back: a client that follows it goes on, on its own dev cluster that a test may
stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.kube.resources import CONFIGMAPS, PODS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.credentials import Access, Credentials
from t9ksched.kube.watch.reflector import Reflector
from t9ksched.kube.write import binding
from t9ksched.kube.write.binding import Binding, Bound, Throttled
from t9ksched.model.names import GPU_INDEX_PREFIX

pytestmark = pytest.mark.cluster
TIMEOUT = 90.0


class Mirror:
    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.changed = asyncio.Event()

    def _note(self, obj: dict[str, Any]) -> None:
        self.versions[obj["metadata"]["name"]] = obj["metadata"]["resourceVersion"]
        self.changed.set()

    def on_replace(self, items: list[Any]) -> None:
        self.versions = {}
        for item in items:
            self._note(item)
        self.changed.set()

    def on_upsert(self, obj: dict[str, Any]) -> None:
        self._note(obj)

    def on_delete(self, obj: dict[str, Any]) -> None:
        del self.versions[obj["metadata"]["name"]]
        self.changed.set()

    async def until_equal(self, client: Client) -> None:
        listed = await client.list(CONFIGMAPS, "default")
        expected = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed.items}
        async with asyncio.timeout(TIMEOUT):
            while self.versions != expected:
                self.changed.clear()
                await self.changed.wait()


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def test_a_restart_is_survived_with_new_credentials_and_a_pod_is_bound_in_the_end(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path, [], token="first")
    await cluster.start()
    port = int(cluster.url.rpartition(":")[2])
    tokens = iter(["first", "second"])

    async def source() -> Access:
        return Access(cluster.url, f"Bearer {next(tokens)}")

    async with Client(Credentials(source)) as client:
        pod = await client.create(
            PODS,
            {
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"schedulerName": "t9k-scheduler", "containers": [{"name": "c", "image": "i"}]},
            },
        )
        decision = Binding("default", "p", pod["metadata"]["uid"], "n1", annotations={f"{GPU_INDEX_PREFIX}c": "1"})
        await client.create(CONFIGMAPS, config_map("before"))
        mirror = Mirror()

        noticed = asyncio.Event()

        async def sleep(seconds: float) -> None:
            noticed.set()
            await asyncio.sleep(min(seconds, 0.05))

        reflector = Reflector(client, CONFIGMAPS, mirror, "default", random=Random(1), sleep=sleep)
        task = asyncio.create_task(reflector.run())
        try:
            await mirror.until_equal(client)
            await cluster.stop()
            assert isinstance(await binding.run(client, decision), Throttled), "nothing was sent, nothing happened"
            async with asyncio.timeout(TIMEOUT):
                await noticed.wait()

            cluster = DevCluster(tmp_path, [], port=port, token="second")
            await cluster.start()
            await client.create(CONFIGMAPS, config_map("after"))
            await client.delete(CONFIGMAPS, "before", "default")
            await mirror.until_equal(client)
            assert "after" in mirror.versions
            assert await binding.run(client, decision) == Bound()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await cluster.stop()
