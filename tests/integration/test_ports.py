"""Both ways to a cluster, over HTTP and in process, behave alike."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from t9ksched.devcluster.cluster import DevCluster
from t9ksched.kube.errors import AlreadyExists, Conflict, Expired, NotFound, TooManyRequests, Unprocessable
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import CONFIGMAPS, PDBS, PODS, QUEUES
from t9ksched.kube.transport.config import connect

pytestmark = pytest.mark.cluster


@pytest.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    made = DevCluster(None, [])
    await made.start()
    yield made
    await made.stop()


@pytest.fixture(params=["http", "in process"])
async def port(request: pytest.FixtureRequest, cluster: DevCluster, tmp_path: Path) -> AsyncIterator[ClusterPort]:
    if request.param == "in process":
        yield cluster.port_api
        return
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    async with connect(tmp_path / "kubeconfig") as client:
        yield client


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": containers},
    }


def binding(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


async def test_a_life(port: ClusterPort) -> None:
    made = await port.create(CONFIGMAPS, config("a", k="1"), "default")
    assert await port.get(CONFIGMAPS, "a", "default") == made
    with pytest.raises(AlreadyExists):
        await port.create(CONFIGMAPS, config("a"), "default")
    changed = await port.replace(CONFIGMAPS, {**made, "data": {"k": "2"}})
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        await port.replace(CONFIGMAPS, {**made, "data": {"k": "3"}})
    patched = await port.patch(CONFIGMAPS, "a", "default", {"data": {"l": "1"}})
    assert patched["data"] == {"k": "2", "l": "1"}
    with pytest.raises(Conflict):
        await port.delete(CONFIGMAPS, "a", "default", uid="another")
    await port.delete(CONFIGMAPS, "a", "default", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await port.get(CONFIGMAPS, "a", "default")


async def test_what_comes_out_is_a_copy(port: ClusterPort) -> None:
    await port.create(CONFIGMAPS, config("a", k="1"), "default")
    (await port.get(CONFIGMAPS, "a", "default"))["data"]["k"] = "changed"
    (await port.list(CONFIGMAPS, "default")).items[0]["data"]["k"] = "changed"
    assert (await port.get(CONFIGMAPS, "a", "default"))["data"] == {"k": "1"}


async def test_lists(port: ClusterPort) -> None:
    for name in ("c", "a", "b"):
        await port.create(CONFIGMAPS, config(name), "default")
    listed = await port.list(CONFIGMAPS, "default", limit=2)
    assert [item["metadata"]["name"] for item in listed.items] == ["a", "b", "c"]
    chosen = await port.list(CONFIGMAPS, "default", field_selector="metadata.name=b")
    assert [item["metadata"]["name"] for item in chosen.items] == ["b"]
    assert (await port.list(CONFIGMAPS, "elsewhere")).items == []


async def test_a_dry_run_changes_nothing(port: ClusterPort) -> None:
    await port.create(CONFIGMAPS, config("a"), "default", dry_run=True)
    assert (await port.list(CONFIGMAPS, "default")).items == []


async def test_invalid_objects(port: ClusterPort) -> None:
    bad = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {"priority": 500}}
    with pytest.raises(Unprocessable) as caught:
        await port.create(QUEUES, bad, "t9k-system")
    assert [cause["field"] for cause in caught.value.causes] == ["spec.priority"]


async def test_status_is_written_apart(port: ClusterPort) -> None:
    body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {"priority": 5}}
    made = await port.create(QUEUES, body, "t9k-system")
    shown = await port.replace_status(QUEUES, {**made, "spec": {}, "status": {"pods": {"running": 1}}})
    assert shown["spec"] == {"priority": 5}
    assert shown["status"] == {"pods": {"running": 1}}
    change = {"status": {"pods": {"pending": 2}}}
    shown = await port.patch(QUEUES, "q", "t9k-system", change, subresource="status")
    assert shown["status"] == {"pods": {"running": 1, "pending": 2}}
    assert shown["metadata"]["generation"] == 1


async def test_binding(port: ClusterPort) -> None:
    made = await port.create(PODS, pod("p", annotations={"kept": "1"}), "default")
    with pytest.raises(Conflict):
        await port.bind("default", "p", binding("p", uid="another"))
    await port.bind("default", "p", binding("p", uid=made["metadata"]["uid"], annotations={"cards": "0,1"}))
    bound = await port.get(PODS, "p", "default")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"kept": "1", "cards": "0,1"}
    with pytest.raises(Conflict):
        await port.bind("default", "p", binding("p"))
    with pytest.raises(NotFound):
        await port.bind("default", "none", binding("none"))


async def test_a_bound_pod_leaves_in_two_steps(port: ClusterPort) -> None:
    await port.create(PODS, pod("p"), "default")
    await port.bind("default", "p", binding("p"))
    leaving = await port.delete(PODS, "p", "default", grace=5)
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 5
    await port.delete(PODS, "p", "default", grace=0)
    with pytest.raises(NotFound):
        await port.get(PODS, "p", "default")


async def test_eviction_asks_the_budget(port: ClusterPort) -> None:
    await port.create(PODS, pod("p", labels={"app": "x"}), "default")
    await port.bind("default", "p", binding("p"))
    await port.patch(PODS, "p", "default", {"status": {"phase": "Running"}}, subresource="status")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await port.create(PDBS, budget, "default")
    with pytest.raises(TooManyRequests):
        await port.evict("default", "p")
    allowed = {"status": {"observedGeneration": 1, "disruptionsAllowed": 1}}
    await port.patch(PDBS, "b", "default", allowed, subresource="status")
    await port.evict("default", "p", grace=3)
    leaving = await port.get(PODS, "p", "default")
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 3
    assert "DisruptionTarget" in [condition["type"] for condition in leaving["status"]["conditions"]]


async def test_a_watch_sees_a_life(port: ClusterPort) -> None:
    listed = await port.list(PODS, "default")
    await port.create(PODS, pod("p"), "default")
    await port.bind("default", "p", binding("p"))
    await port.delete(PODS, "p", "default", grace=0)
    seen = []
    async with asyncio.timeout(90):
        async for event in port.watch(PODS, "default", resource_version=listed.resource_version):
            seen.append((event.type, event.object["spec"].get("nodeName")))
            if event.type == "DELETED":
                break
    assert seen == [("ADDED", None), ("MODIFIED", "n1"), ("MODIFIED", "n1"), ("DELETED", "n1")]


async def test_a_selected_watch_sees_transitions(port: ClusterPort) -> None:
    listed = await port.list(PODS, "default")
    await port.create(PODS, pod("p"), "default")
    await port.bind("default", "p", binding("p"))
    seen = []
    async with asyncio.timeout(90):
        async for event in port.watch(
            PODS, "default", resource_version=listed.resource_version, field_selector="spec.nodeName="
        ):
            seen.append(event.type)
            if event.type == "DELETED":
                break
    assert seen == ["ADDED", "DELETED"]


async def test_a_watch_that_begins_too_early(port: ClusterPort, cluster: DevCluster) -> None:
    listed = await port.list(PODS, "default")
    await port.create(PODS, pod("p"), "default")
    cluster.api.storage.compact()
    with pytest.raises(Expired):
        async for _ in port.watch(PODS, "default", resource_version=listed.resource_version):
            pass
