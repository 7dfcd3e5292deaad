"""Commands in pods over a WebSocket, as kube-apiserver and kubelet answer."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from t9ksched.kube.errors import ApiError, BadRequest, Forbidden, NotFound
from t9ksched.kube.port import STDERR, STDOUT
from t9ksched.kube.resources import CLUSTERROLES, PODS
from t9ksched.kube.setup.rbac import API
from t9ksched.kube.transport.client import Client
from tests.integration.world import KUBECONFIG, World, new_world

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(KUBECONFIG in os.environ, reason="nodes played by tests run no commands"),
]
OUT = (("stdout", "true"), ("stderr", "true"))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with new_world(tmp_path) as world:
        await world.play(1)
        await world.create(world.pod("a", 0))
        await world.running("a")
        yield world


def asked(command: Sequence[str], *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [*(("command", word) for word in command), *OUT, *more]


async def run(client: Client, world: World, *command: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
    query = asked(command, *([("stdin", "true")] if stdin is not None else []))
    written = {STDOUT: b"", STDERR: b""}
    async with asyncio.timeout(60), aclosing(await client.exec(world.namespace, "a", query)) as stream:
        if stdin is not None:
            await stream.write(stdin)
            await stream.end_input()
        async for channel, data in stream:
            written[channel] += data
    return stream.exit_code, written[STDOUT], written[STDERR]


@pytest.mark.parametrize(
    ("command", "stdin", "ends"),
    [
        (("hostname",), None, (0, b"a\n", b"")),
        (("false",), None, (1, b"", b"")),
        (("echo", "x y", "z"), None, (0, b"x y z\n", b"")),
        (("cat",), b"typed\n" * 1000, (0, b"typed\n" * 1000, b"")),
        (("sh", "-c", "echo one; false && echo two; exit 7"), None, (7, b"one\n", b"")),
        (("sh", "-c", "nope"), None, (127, b"", b"sh: nope: not found\n")),
        (("sh",), b"echo hi\nexit 3\n", (3, b"hi\n", b"")),
    ],
)
async def test_streams_and_exit_codes(
    world: World, client: Client, command: tuple[str, ...], stdin: bytes | None, ends: tuple[int, bytes, bytes]
) -> None:
    assert await run(client, world, *command, stdin=stdin) == ends


async def test_a_terminal(world: World, client: Client) -> None:
    query = [("command", "sh"), ("stdin", "true"), ("stdout", "true"), ("tty", "true")]
    async with asyncio.timeout(60), aclosing(await client.exec(world.namespace, "a", query)) as stream:
        await stream.resize(80, 24)
        await stream.write(b"echo hx\x7fi\rexit 5\r")
        text = b"".join([data async for _, data in stream])
    assert (stream.exit_code, text.startswith(b"# "), b"\r\nhi\r\n# " in text) == (5, True, True), text


async def test_what_cannot_be_run_is_told(world: World, client: Client) -> None:
    with pytest.raises(ApiError, match="executable file not found"):
        await run(client, world, "nope")
    for name, query, error, words in (
        ("gone", asked(["ls"]), NotFound, 'pods "gone" not found'),
        ("a", [("command", "ls")], BadRequest, "at least 1 of stdin"),
        ("a", list(OUT), BadRequest, "at least 1 command"),
        ("a", asked(["ls"], ("container", "x")), BadRequest, "container x is not valid"),
    ):
        with pytest.raises(error, match=words):
            await client.exec(world.namespace, name, query)
    ended = world.pod("ended", 0, annotations={"devcluster.tensorstack.dev/run-seconds": "0"}, restartPolicy="Never")
    await world.create(ended)
    await world.until(PODS, "ended", lambda pod: pod["status"].get("phase") == "Succeeded")
    with pytest.raises(ApiError, match="container not found"):
        await client.exec(world.namespace, "ended", asked(["ls"]))


async def test_it_needs_the_right_to_create_not_only_to_get(world: World, client: Client) -> None:
    account = await world.account(API)
    with pytest.raises(Forbidden, match='cannot get resource "pods/exec"'):
        await account.exec(world.namespace, "a", asked(["ls"]))
    role = await client.get(CLUSTERROLES, API)
    rules = [*role["rules"], {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]
    await client.patch(CLUSTERROLES, API, None, {"rules": rules})
    with pytest.raises(Forbidden, match='cannot create resource "pods/exec"'):
        await account.exec(world.namespace, "a", asked(["ls"]))
