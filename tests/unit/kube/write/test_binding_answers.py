"""Each answer a server can give to a binding, over HTTP: by the pool, and by the session that stands in for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.credentials import Access, Credentials
from t9ksched.kube.write.binding import (
    Binding,
    Bound,
    Conflicted,
    Gone,
    Outcome,
    Refusal,
    Refused,
    Throttled,
    Unknown,
    run,
)
from tests.unit.kube.scripted import Answer, ScriptedApi, drop

INDEX = "scheduler.tensorstack.dev/gpu-index-container-main"
BINDING = Binding("ns", "p", "u1", "n1", annotations={INDEX: "0,3"})


@pytest.fixture(params=["pool", "session"])
async def either(api: ScriptedApi, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with Client(Credentials.fixed(api.url, "secret"), timeout=60.0) as client:
        if request.param == "session":
            client.requester._pool = None
        yield client


def says(status: int, body: dict[str, Any], **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def refuses(status: int, reason: str, message: str = "words", **headers: str) -> Answer:
    return says(status, {"kind": "Status", "reason": reason, "message": message, "code": status}, **headers)


def pod(node: str = "", uid: str = "u1", cards: str = "0,3", **more: Any) -> Answer:
    metadata = {"name": "p", "namespace": "ns", "uid": uid, "annotations": {INDEX: cards} if node else None}
    if more.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return says(200, {"metadata": metadata, "spec": {"nodeName": node} | more})


async def silent(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def half(request: web.Request) -> web.StreamResponse:
    """Begin an answer and break off."""
    response = web.StreamResponse(status=201, headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"kind":"Sta')
    assert request.transport is not None
    request.transport.abort()
    return response


DONE = says(201, {"kind": "Status", "status": "Success", "code": 201})
HERE = pod("n1")
FREE = pod()
CONFLICT = refuses(409, "Conflict")
SAID = "409 Conflict: words"


@pytest.mark.parametrize(
    ("script", "expected", "calls"),
    [
        ([DONE], Bound(), "POST"),
        ([refuses(404, "NotFound")], Gone(), "POST"),
        ([CONFLICT, HERE], Bound(found=True), "POST GET"),
        ([CONFLICT, pod("n2")], Conflicted("bound", SAID, "n2"), "POST GET"),
        ([CONFLICT, pod("n1", cards="1,2")], Conflicted("bound", SAID, "n1"), "POST GET"),
        ([CONFLICT, pod("n1", uid="u2")], Gone(replaced=True), "POST GET"),
        ([CONFLICT, refuses(404, "NotFound")], Gone(), "POST GET"),
        ([CONFLICT, pod(terminating=True)], Conflicted("terminating", SAID), "POST GET"),
        ([CONFLICT, pod(schedulingGates=[{"name": "g"}])], Conflicted("gated", SAID), "POST GET"),
        ([CONFLICT, FREE], Conflicted("unclear", SAID), "POST GET"),
        ([refuses(422, "Invalid")], Refused(Refusal(422, "Invalid", "words")), "POST"),
        ([refuses(403, "Forbidden")], Refused(Refusal(403, "Forbidden", "words")), "POST"),
        (
            [refuses(429, "TooManyRequests", **{"Retry-After": "3"})],
            Throttled(3.0, "429 TooManyRequests: words"),
            "POST",
        ),
        ([refuses(503, "Busy", **{"Retry-After": "1"})], Throttled(1.0, "503 Busy: words"), "POST"),
        ([refuses(500, "Etcd"), FREE], Throttled(None, "500 Etcd: words"), "POST GET"),
        ([refuses(500, "Etcd"), HERE], Bound(found=True), "POST GET"),
        ([refuses(504, "Timeout"), HERE], Bound(found=True), "POST GET"),
        ([refuses(504, "Timeout"), FREE, DONE], Bound(), "POST GET POST"),
        ([silent, HERE], Bound(found=True), "POST GET"),
        ([silent, FREE, DONE], Bound(), "POST GET POST"),
        ([drop, HERE], Bound(found=True), "POST GET"),
        ([drop, FREE, DONE], Bound(), "POST GET POST"),
        ([drop, FREE, refuses(404, "NotFound")], Gone(), "POST GET POST"),
        ([half, HERE], Bound(found=True), "POST GET"),
        ([half, pod("n2")], "bound n2", "POST GET"),
        ([drop, half], "unknown", "POST GET"),
        ([silent, refuses(503, "Busy")], "unknown", "POST GET"),
        ([silent, FREE, silent, FREE], "unknown", "POST GET POST GET"),
    ],
)
async def test_each_answer_has_its_outcome(
    api: ScriptedApi, either: Client, script: list[Answer], expected: Outcome | str, calls: str
) -> None:
    api.script = list(script)
    if silent in script:
        either.requester._write_timeout = 1.0
    outcome = await run(either, BINDING)
    if expected == "unknown":
        assert isinstance(outcome, Unknown)
    elif expected == "bound n2":
        assert isinstance(outcome, Conflicted)
        assert (outcome.cause, outcome.node) == ("bound", "n2")
    else:
        assert outcome == expected
    assert " ".join(seen.method for seen in api.seen) == calls
    assert api.seen[0].path == "/api/v1/namespaces/ns/pods/p/binding"
    assert api.seen[0].body == BINDING.body()
    assert api.seen[0].headers["Authorization"] == "Bearer secret"


async def test_a_server_that_is_away_is_asked_again_later(unused_tcp_port: int) -> None:
    async with Client(Credentials.fixed(f"http://127.0.0.1:{unused_tcp_port}")) as client:
        assert isinstance(await run(client, BINDING), Throttled)


async def test_a_renewed_token_is_sent_at_once(api: ScriptedApi) -> None:
    tokens = iter(["old", "new"])

    async def source() -> Access:
        return Access(api.url, f"Bearer {next(tokens)}")

    api.script = [refuses(401, "Unauthorized"), DONE]
    async with Client(Credentials(source)) as client:
        assert await run(client, BINDING) == Bound()
    assert [seen.headers["Authorization"] for seen in api.seen] == ["Bearer old", "Bearer new"]


async def test_a_servers_path_stands_before_each_request(api: ScriptedApi) -> None:
    api.script = [DONE]
    async with Client(Credentials.fixed(f"{api.url}/as/token/", "secret")) as client:
        assert await run(client, BINDING) == Bound()
    assert api.seen[0].path == "/as/token/api/v1/namespaces/ns/pods/p/binding"


async def test_a_token_that_would_forge_a_header_is_not_sent(api: ScriptedApi) -> None:
    api.script = [DONE]
    async with Client(Credentials.fixed(api.url, "good\r\nX-Forged: yes")) as client:
        assert isinstance(await run(client, BINDING), Throttled)
    assert not api.seen
