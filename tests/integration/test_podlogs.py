"""Logs of pods over HTTP, as kube-apiserver and kubelet answer."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from t9ksched.kube.errors import ApiError, BadRequest, Forbidden, NotFound, Unprocessable
from t9ksched.kube.resources import PODS
from t9ksched.kube.setup.rbac import SCHEDULER
from t9ksched.kube.transport.client import Client
from tests.integration.world import KUBECONFIG, World, new_world

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(KUBECONFIG in os.environ, reason="nodes played by tests write no logs"),
]
RUN = "devcluster.tensorstack.dev/run-seconds"
LINES = "devcluster.tensorstack.dev/log-lines"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with new_world(tmp_path) as world:
        await world.play(1)
        yield world


async def started(world: World, name: str, *containers: str, **annotations: str) -> None:
    """A pod that runs, with these containers besides its first."""
    obj = world.pod(name, 0, annotations=annotations)
    first = obj["spec"]["containers"][0]
    obj["spec"]["containers"] += [{**first, "name": other} for other in containers]
    obj["spec"]["restartPolicy"] = "Never"
    await world.create(obj)
    await world.until(PODS, name, lambda pod: pod["status"].get("phase") != "Pending")


async def text(client: Client, world: World, name: str, **query: Any) -> str:
    stream = await client.log(world.namespace, name, {key: str(value) for key, value in query.items()})
    return b"".join([part async for part in stream]).decode()


async def test_lines_are_chosen_by_number_age_and_bytes(world: World, client: Client) -> None:
    await started(world, "a", **{LINES: "one\ntwo\nthrée\nfour"})
    assert await text(client, world, "a") == "one\ntwo\nthrée\nfour\n"
    assert await text(client, world, "a", tailLines=2) == "thrée\nfour\n"
    assert await text(client, world, "a", tailLines=0) == ""
    assert await text(client, world, "a", tailLines=99, limitBytes=6) == "one\ntw"
    assert await text(client, world, "a", sinceSeconds=3600) == "one\ntwo\nthrée\nfour\n"
    assert await text(client, world, "a", sinceTime="2999-01-01T00:00:00Z") == ""
    first = (await text(client, world, "a", timestamps="true", container="main")).splitlines()[0]
    moment, _, line = first.partition(" ")
    assert (len(moment), moment[-4:], line) == (30, "000Z", "one")


async def test_many_lines_come_whole(world: World, client: Client) -> None:
    await started(world, "a", **{LINES: "20000"})
    lines = (await text(client, world, "a")).splitlines()
    assert lines[1:] == [f"step {number}" for number in range(1, 20001)]


async def test_followers_are_told_until_the_container_ends(world: World, client: Client) -> None:
    await started(world, "short", **{RUN: "2"})
    followed = await text(client, world, "short", follow="true")
    assert followed.splitlines()[1:] == ["step 1"]
    assert await text(client, world, "short") == followed
    assert await text(client, world, "short", follow="true") == followed, "of one that has ended"


async def test_a_follower_of_a_pod_that_is_deleted_is_let_go(world: World, client: Client) -> None:
    await started(world, "a", **{LINES: "hello"})
    async with asyncio.timeout(60), aclosing(await client.log(world.namespace, "a", {"follow": "true"})) as stream:
        parts = aiter(stream)
        assert await anext(parts) == b"hello\n"
        await client.delete(PODS, "a", world.namespace)
        assert [part async for part in parts] == []


async def test_one_of_several_containers_must_be_named(world: World, client: Client) -> None:
    await started(world, "a", "proxy", **{LINES: "x"})
    with pytest.raises(BadRequest, match=r"must be specified for pod a, choose one of: \[main proxy\]"):
        await text(client, world, "a")
    with pytest.raises(BadRequest, match="container nobody is not valid for pod a"):
        await text(client, world, "a", container="nobody")
    assert await text(client, world, "a", container="proxy") == "x\n"


async def test_what_is_not_there_is_told(world: World, client: Client) -> None:
    with pytest.raises(NotFound, match='pods "gone" not found'):
        await text(client, world, "gone")
    await world.create(world.pod("queued", 0) | {"spec": {**world.pod("queued", 0)["spec"], "schedulerName": "nobody"}})
    assert await text(client, world, "queued") == "", "no node has it"
    image = world.pod("image", 0)
    image["spec"]["containers"][0]["image"] = "registry.invalid/torch:1"
    await world.create(image)
    await world.until(PODS, "image", lambda pod: pod["status"].get("containerStatuses"))
    with pytest.raises(BadRequest, match='container "main" in pod "image" is waiting to start: trying and failing'):
        await text(client, world, "image")
    await started(world, "once")
    with pytest.raises(BadRequest, match='previous terminated container "main" in pod "once" not found'):
        await text(client, world, "once", previous="true")


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (
            {"tailLines": "-1"},
            Unprocessable,
            'PodLogOptions "a" is invalid: tailLines: Invalid value: -1: must be greater',
        ),
        ({"limitBytes": "0"}, Unprocessable, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, Unprocessable, "sinceSeconds: Invalid value: 0"),
        ({"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"}, Unprocessable, "at most one of `sinceTime`"),
        ({"tailLines": "two"}, BadRequest, "invalid syntax"),
        ({"sinceTime": "yesterday"}, BadRequest, "cannot parse"),
    ],
)
async def test_wrong_parameters(
    world: World, client: Client, query: dict[str, str], error: type[ApiError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await text(client, world, "a", **query)


async def test_a_silent_node_and_a_user_without_the_right(world: World, client: Client) -> None:
    await started(world, "a")
    with pytest.raises(Forbidden, match='cannot get resource "pods/log"'):
        await text(await world.account(SCHEDULER), world, "a")
    world.faults.silent.add(world.nodes[0])
    with pytest.raises(ApiError, match=r"containerLogs.*connection refused") as caught:
        await text(client, world, "a")
    assert caught.value.status == 500
    world.faults.clear()
