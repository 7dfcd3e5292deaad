"""Bodies: what is not read is refused before it costs anything, and a large one delays no other request."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from t9ksched.api.http import bodies
from tests.unit.api.world import World
from tests.unit.model.test_text import laughs, merges

WORKLOADS = "/apis/v1/workloads"
LARGE = "# " + "x" * (bodies.SMALL + 1) + "\n- nothing\n"


class Gate:
    """Stands in front of the parser, in its thread: parsing waits until `open` is set."""

    def __init__(self, parse: Callable[..., Any]) -> None:
        self.open = threading.Event()
        self.threads: list[threading.Thread] = []
        self._parse = parse

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.threads.append(threading.current_thread())
        assert self.open.wait(60)
        return self._parse(*args, **options)


async def until(holds: Callable[[], bool]) -> None:
    """Let others go on until something holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(bodies.parse)
    monkeypatch.setattr(bodies, "parse", made)
    return made


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", "x" * 5000]
)
async def test_what_is_neither_json_nor_yaml_is_not_read(world: World, media: str) -> None:
    refused = await world.user("POST", WORKLOADS, b"kind: Pod", Content_Type=media)
    assert (refused.status, refused.body["code"]) == (415, "Malformed")
    assert refused.body["remedy"] == "say Content-Type: application/json or application/yaml"
    assert world.kube.objects == {}


async def test_every_type_that_is_documented_is_read(world: World) -> None:
    asked = 0
    for path, methods in world.app.openapi()["paths"].items():
        for method, operation in methods.items():
            for media in (operation.get("requestBody") or {}).get("content", {}):
                asked += 1
                address = path.replace("{kind}", "pod").replace("{", "").replace("}", "")
                for text in (b"{}", b"{"):
                    answer = await world.admin(method.upper(), address, text, Content_Type=media)
                    assert answer.status != 415, (method, path, media, answer.body)
    assert asked > 10


async def test_a_merge_patch_is_json_and_only_of_a_patch(world: World) -> None:
    await world.store.queues.create("q", {}, {"priority": 1}, {"everyone": True})
    merge, address = "application/merge-patch+json; charset=utf-8", "/apis/v1/admin/queues/q"
    patched = await world.admin("PATCH", address, b'{"spec": {"priority": 7}}', Content_Type=merge)
    assert (patched.status, patched.body["spec"]["priority"]) == (200, 7)
    refused = await world.admin("PATCH", address, b"spec: {priority: 8}", Content_Type=merge)
    assert (refused.status, refused.body["code"]) == (400, "Malformed"), "YAML is not JSON"
    assert (await world.admin("PUT", address, b"{}", Content_Type=merge)).status == 415


@pytest.mark.parametrize(
    "text", ['{"kind": "Pod", "kind": "Job"}', '{"kind": "Pod", "spec": [{"a": {"b": 1, "c": 2, "b": 3}}]}']
)
async def test_a_key_that_is_there_twice(world: World, text: str) -> None:
    for media in ("application/json", "application/yaml"):
        refused = await world.user("POST", WORKLOADS, text, Content_Type=media)
        assert (refused.status, refused.body["code"]) == (400, "Malformed")
        assert "twice" in refused.body["detail"]


@pytest.mark.parametrize(
    "text", ["- " * 30_000, "[" * 60_000, "{a: " * 10_000, laughs(9), merges(30), "1: " + "9" * 60_000, "? " * 30_000]
)
async def test_texts_that_would_cost_more_than_their_length(world: World, text: str) -> None:
    refused = await world.user("POST", WORKLOADS, text)
    assert (refused.status, refused.body["code"]) == (400, "Malformed")


async def test_the_field_of_a_fault_is_named(world: World) -> None:
    text = "kind: Pod\nspec:\n  containers:\n  - name: !!int x\n"
    refused = await world.user("POST", WORKLOADS, text)
    assert refused.paths == ["spec.containers[0].name"]
    assert "line 4" in refused.body["detail"]


async def test_a_mapping_is_small(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAPPING", 20_000)
    text = "name: q\nlabels: {a: '" + "x" * 20_000 + "'}\n"
    refused = await world.admin("POST", "/apis/v1/admin/queues", text)
    assert (refused.status, refused.body["code"]) == (413, "Malformed")


async def test_a_large_body_is_parsed_beside_the_loop(world: World, gate: Gate) -> None:
    waiting = asyncio.create_task(world.user("POST", WORKLOADS, LARGE))
    await until(lambda: bool(gate.threads))
    assert gate.threads[0] is not threading.main_thread()
    assert (await world.user("GET", WORKLOADS)).status == 200
    gate.open.set()
    assert (await waiting).status == 422


async def test_few_large_bodies_of_one_user_at_once(world: World, gate: Gate) -> None:
    mine = [asyncio.create_task(world.user("POST", WORKLOADS, LARGE)) for _ in range(bodies.MOST_A_CALLER)]
    await until(lambda: world.app.state.services.bodies._at_work["ann"] == bodies.MOST_A_CALLER)
    refused = await world.user("POST", WORKLOADS, LARGE)
    assert (refused.status, refused.body["code"], refused.headers["Retry-After"]) == (429, "RateLimited", "1")
    others = asyncio.create_task(world.admin("POST", WORKLOADS, LARGE))
    gate.open.set()
    assert [answer.status for answer in await asyncio.gather(*mine, others)] == [422] * 3
    assert (await world.user("POST", WORKLOADS, LARGE)).status == 422
    assert not world.app.state.services.bodies._at_work


async def test_a_body_that_does_not_come(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.1)
    host, port = world.user.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST {WORKLOADS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.user.token}\r\n"
        "Content-Type: application/yaml\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nkind:\r\n".encode()
    )
    answer = (await reader.readline()).decode()
    writer.close()
    assert " 408 " in answer
