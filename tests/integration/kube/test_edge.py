"""What this room relies on, seen on a Kubernetes API over HTTP: the dev cluster's, or a real one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from t9ksched.kube import errors
from t9ksched.kube.resources import CONFIGMAPS, EVENTS, PODS
from t9ksched.kube.transport.client import Client
from t9ksched.kube.watch.reflector import Reflector, WatchOptions
from t9ksched.kube.write import binding
from t9ksched.kube.write.binding import Binding, Bound, Conflicted, Gone
from t9ksched.kube.write.events import EventRecorder
from t9ksched.kube.write.eviction import AlreadyGone, Evicted, Victim, evict
from t9ksched.kube.write.lease import LeaderElection
from t9ksched.model.names import GPU_INDEX_PREFIX, SCHEDULER_NAME

pytestmark = pytest.mark.cluster

TIMEOUT = 90.0
"""Seconds after which a test that waits for the server has failed."""


async def create_pod(client: Client, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    body = {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "main", "image": "example/none:1"}]} | spec
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": body}
    return await client.create(PODS, pod)


def decision(pod: dict[str, Any], node: str = "absent-node", cards: str = "0,3") -> Binding:
    metadata = pod["metadata"]
    notes = {GPU_INDEX_PREFIX + "main": cards}
    return Binding(metadata["namespace"], metadata["name"], metadata["uid"], node, annotations=notes)


async def test_a_binding_is_one_event_with_node_and_cards(client: Client, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    seen = []
    stream = client.watch(PODS, namespace, resource_version=pod["metadata"]["resourceVersion"])
    async with aclosing(stream) as events, asyncio.timeout(TIMEOUT):
        assert await binding.run(client, decision(pod)) == Bound()
        async for event in events:
            seen.append((event.type, event.object))
            if event.object["spec"].get("nodeName"):
                break
    (changed,) = seen
    assert changed[0] == "MODIFIED"
    assert changed[1]["spec"]["nodeName"] == "absent-node"
    assert changed[1]["metadata"]["annotations"][GPU_INDEX_PREFIX + "main"] == "0,3"


async def test_a_binding_in_all_its_refusals(client: Client, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    assert await binding.run(client, decision(pod)) == Bound()
    assert await binding.run(client, decision(pod)) == Bound(found=True), "ours already"
    elsewhere = await binding.run(client, decision(pod, "other-node"))
    assert isinstance(elsewhere, Conflicted)
    assert (elsewhere.cause, elsewhere.node) == ("bound", "absent-node")
    cards = await binding.run(client, decision(pod, cards="1,2"))
    assert isinstance(cards, Conflicted)

    gated = await binding.run(
        client, decision(await create_pod(client, namespace, "g", schedulingGates=[{"name": "example.com/wait"}]))
    )
    assert isinstance(gated, Conflicted)
    assert gated.cause == "gated"

    await client.delete(PODS, "p", namespace, grace=0)
    assert await binding.run(client, decision(pod)) == Gone()
    await create_pod(client, namespace, "p")
    assert await binding.run(client, decision(pod)) == Gone(replaced=True)


async def test_an_eviction_marks_and_deletes_the_very_pod(client: Client, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    await binding.run(client, decision(pod))
    victim = Victim(namespace, "p", pod["metadata"]["uid"])
    now = datetime.now(UTC)
    assert await evict(client, Victim(namespace, "p", "another"), message="m", now=now) == AlreadyGone()
    assert await evict(client, victim, message="room for job big", now=now, grace=30) == Evicted()
    going = await client.get(PODS, "p", namespace)
    assert going["metadata"]["deletionTimestamp"]
    (condition,) = [item for item in going["status"]["conditions"] if item["type"] == "DisruptionTarget"]
    assert condition["message"] == "room for job big"
    assert any(item["type"] == "PodScheduled" for item in going["status"]["conditions"]), "others are kept"
    await client.delete(PODS, "p", namespace, grace=0)


class Names:
    """A handler that keeps the data of ConfigMaps by name."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.changed = asyncio.Event()

    def on_replace(self, items: list[Any]) -> None:
        self.now = {item["metadata"]["name"]: item["data"]["v"] for item in items}
        self.changed.set()

    def on_upsert(self, obj: dict[str, Any]) -> None:
        self.now[obj["metadata"]["name"]] = obj["data"]["v"]
        self.changed.set()

    def on_delete(self, obj: dict[str, Any]) -> None:
        del self.now[obj["metadata"]["name"]]
        self.changed.set()

    async def until(self, expected: dict[str, str]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while self.now != expected:
                self.changed.clear()
                await self.changed.wait()


def config_map(namespace: str, name: str, value: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"part": "kube-edge"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}


async def test_a_reflector_follows_lists_in_pages_and_resumes(client: Client, namespace: str) -> None:
    for number in range(7):
        await client.create(CONFIGMAPS, config_map(namespace, f"m{number}", "1"))
    handler = Names()
    reflector = Reflector(
        client, CONFIGMAPS, handler, namespace, options=WatchOptions("part=kube-edge", page_size=3, timeout=1.0)
    )
    task = asyncio.create_task(reflector.run())
    try:
        expected = {f"m{number}": "1" for number in range(7)}
        await handler.until(expected)
        for round in range(3):  # the watches end after about a second: some changes fall between two of them
            changed = config_map(namespace, "m0", str(round + 2))
            await client.replace(CONFIGMAPS, changed)
            await client.create(CONFIGMAPS, config_map(namespace, f"n{round}", "1"))
            await client.delete(CONFIGMAPS, f"m{round + 1}", namespace)
            expected |= {"m0": str(round + 2), f"n{round}": "1"}
            del expected[f"m{round + 1}"]
            await handler.until(expected)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_version_that_was_never_or_is_no_more(client: Client, namespace: str) -> None:
    with pytest.raises(errors.ApiError):
        async with aclosing(client.watch(CONFIGMAPS, namespace, resource_version="nonsense")) as events:
            await anext(events)


async def test_paging_gives_what_one_list_gives(client: Client, namespace: str) -> None:
    for number in range(7):
        await client.create(CONFIGMAPS, config_map(namespace, f"m{number}", "1"))
    paged = await client.list(CONFIGMAPS, namespace, label_selector="part=kube-edge", limit=2)
    assert [item["metadata"]["name"] for item in paged.items] == [f"m{number}" for number in range(7)]
    assert {item["kind"] for item in paged.items} == {"ConfigMap"}


async def test_errors_carry_the_servers_words(client: Client, namespace: str) -> None:
    with pytest.raises(errors.NotFound, match="nothing"):
        await client.get(PODS, "nothing", namespace)
    one = await client.create(CONFIGMAPS, config_map(namespace, "one", "1"))
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIGMAPS, config_map(namespace, "one", "1"))
    await client.replace(CONFIGMAPS, config_map(namespace, "one", "2"))
    with pytest.raises(errors.Conflict):
        await client.replace(CONFIGMAPS, one | {"data": {"v": "3"}})
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIGMAPS, "one", namespace, uid="another")
    with pytest.raises(errors.Unprocessable) as caught:
        await client.create(CONFIGMAPS, config_map(namespace, "Not A Name", "1"))
    assert caught.value.causes[0]["field"] == "metadata.name"


async def test_two_candidates_and_one_lease(client: Client, namespace: str) -> None:
    first = LeaderElection(client, "lease", namespace, "a")
    second = LeaderElection(client, "lease", namespace, "b")
    results = await asyncio.gather(first.attempt(), second.attempt())
    assert sorted(results) == [False, True]
    leader, other = (first, second) if first.holds() else (second, first)
    assert await leader.attempt()
    assert not await other.attempt()
    await leader.release()
    assert await other.attempt()
    assert other.epoch == 2


async def test_an_event_is_found_at_its_object(client: Client, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    recorder = EventRecorder(client, SCHEDULER_NAME)
    recorder.record(pod, "Waiting", "0/4 nodes fit", type="Warning")
    await recorder.flush()
    recorder.record(pod, "Waiting", "0/4 nodes fit", type="Warning")
    await recorder.flush()
    assert recorder.dropped == 0
    uid = pod["metadata"]["uid"]
    found = await client.list(EVENTS, namespace, field_selector=f"involvedObject.uid={uid},reason=Waiting")
    assert [(item["message"], item["count"]) for item in found.items] == [("0/4 nodes fit", 2)]
