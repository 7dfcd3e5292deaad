"""The fault lab as a client meets it: over HTTP, by its own path, with our own client on the other side."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.devcluster.faults.faults import Faults, FaultyPort, Rule
from t9ksched.kube.errors import ApiError, Expired, NotFound, TooManyRequests
from t9ksched.kube.port import WatchEvent
from t9ksched.kube.resources import CONFIGMAPS, NODES
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.config import connect

pytestmark = pytest.mark.cluster
NODE = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Lab:
    def __init__(self, cluster: DevCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client

    async def set(self, status: int = 200, token: str = "", method: str = "POST", **settings: Any) -> Any:
        headers = {"Authorization": f"Bearer {token or self.cluster.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, f"{self.cluster.url}/_faults", json=settings) as answer,
        ):
            assert answer.status == status
            return await answer.json()

    async def create(self, name: str) -> None:
        await self.client.create(CONFIGMAPS, {"metadata": {"name": name}}, "default")

    async def there(self, name: str) -> bool:
        try:
            await self.client.get(CONFIGMAPS, name, "default")
        except NotFound:
            return False
        return True


async def drain(client: Client, start: str) -> None:
    async for _ in client.watch(CONFIGMAPS, "default", resource_version=start, timeout=60):
        pass


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    cluster = DevCluster(None, [NODE])
    await cluster.start()
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    try:
        async with connect(tmp_path / "kubeconfig") as client:
            yield Lab(cluster, client)
    finally:
        await cluster.stop()


async def test_an_error_comes_as_often_as_asked_with_its_words(lab: Lab) -> None:
    rule = {"verb": "create", "resource": "configmaps", "status": 429, "retryAfter": 3, "count": 2, "message": "busy"}
    await lab.set(rules=[rule])
    for _ in range(2):
        with pytest.raises(TooManyRequests) as refused:
            await lab.create("a")
        assert (refused.value.retry_after, refused.value.message) == (3, "busy")
    await lab.create("a")
    assert (await lab.set(method="GET"))["hits"] == {"create configmaps": 2}


@pytest.mark.parametrize(("drop", "done"), [("before", False), ("after", True)])
async def test_a_dropped_write_leaves_its_result_open(lab: Lab, drop: str, done: bool) -> None:
    await lab.set(rules=[{"verb": "create", "resource": "configmaps", "drop": drop, "count": 1}])
    with pytest.raises(ApiError) as failure:
        await lab.create("a")
    assert failure.value.unknown
    assert await lab.there("a") is done


async def test_a_watch_is_cut_and_pieces_come_again(lab: Lab) -> None:
    start = (await lab.client.list(CONFIGMAPS, "default")).resource_version
    await lab.set(rules=[{"verb": "watch", "repeat": 1, "count": 1}])
    for name in ("a", "b"):
        await lab.create(name)
    seen: list[str] = []
    async for event in lab.client.watch(CONFIGMAPS, "default", resource_version=start, timeout=60):
        seen.append(event.object["metadata"]["name"])
        if len(seen) == 3:
            break
    assert seen == ["a", "b", "b"]
    await lab.set(rules=[{"verb": "watch", "cut": True}])
    with pytest.raises(ApiError):
        await drain(lab.client, start)


async def test_neighbouring_events_change_places_and_none_is_lost(lab: Lab) -> None:
    start = (await lab.client.list(CONFIGMAPS, "default")).resource_version
    seen: list[str] = []
    two = asyncio.Event()

    async def follow() -> None:
        async for event in lab.client.watch(CONFIGMAPS, "default", resource_version=start, timeout=60):
            seen.append(event.object["metadata"]["name"])
            if len(seen) == 2:
                two.set()
            if len(seen) == 3:
                break

    await lab.set(rules=[{"verb": "watch", "resource": "configmaps", "swap": True, "count": 1}])
    following = asyncio.create_task(follow())
    for name in ("a", "b"):
        await lab.create(name)
    await two.wait()
    await lab.set(rules=[{"verb": "watch", "resource": "configmaps", "swap": True, "count": 1}])
    await lab.create("alone")  # nothing follows it: it comes a moment later
    await following
    assert seen == ["b", "a", "alone"]


@pytest.mark.parametrize("follows", ["b", "", "error"])
async def test_swapped_events_of_a_port(follows: str) -> None:
    class Port:
        async def watch(self, *_: object, **__: object) -> AsyncIterator[WatchEvent]:
            yield WatchEvent("ADDED", {"metadata": {"name": "a"}})
            if follows == "error":
                raise Expired(410, "Expired", "too old")
            if follows:
                yield WatchEvent("ADDED", {"metadata": {"name": follows}})

    faults = Faults()
    faults.rules = [Rule("watch", swap=True, count=1)]
    seen: list[str] = []
    with pytest.raises(Expired) if follows == "error" else contextlib.nullcontext():
        async for event in FaultyPort(Port(), faults).watch(CONFIGMAPS):  # type: ignore[arg-type]
            seen.append(event.object["metadata"]["name"])
    assert seen == ([follows, "a"] if follows == "b" else ["a"])


async def test_history_is_forgotten(lab: Lab) -> None:
    start = (await lab.client.list(CONFIGMAPS, "default")).resource_version
    await lab.create("a")
    await lab.set(compact=True)
    with pytest.raises(Expired):
        await drain(lab.client, start)


async def test_a_silent_node_is_told_unreachable_until_it_is_heard_again(lab: Lab) -> None:
    async def node() -> tuple[str, list[str]]:
        seen = await lab.client.get(NODES, "n")
        ready = next(c["status"] for c in seen["status"]["conditions"] if c["type"] == "Ready")
        return ready, [taint["key"] for taint in seen["spec"].get("taints") or ()]

    await lab.set(silentNodes=["n"])
    assert await node() == ("Unknown", ["node.kubernetes.io/unreachable"])
    await lab.set(method="DELETE")
    assert await node() == ("True", [])


async def test_what_is_wrong_is_said_and_only_administrators_may(lab: Lab) -> None:
    assert "colour" in (await lab.set(400, rules=[{"colour": "red"}]))["message"]
    await lab.set(401, token="nobody")
