"""The client against scripted answers: each fault becomes one of our errors, and nothing else comes out."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
import structlog
from aiohttp import web

from t9ksched.kube import errors
from t9ksched.kube.port import ClusterPort, InitialEventsPort, PagedPort, WatchEvent, initial_events_end
from t9ksched.kube.resources import NODES, PODS, QUEUES
from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.credentials import Access, Credentials
from t9ksched.kube.watch.reflector import Reflector
from tests.unit.kube.scripted import ScriptedApi, drop


def pod(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version}}


class Meta(msgspec.Struct):
    name: str


class Small(msgspec.Struct):
    metadata: Meta


async def test_the_client_is_a_port(client: Client) -> None:
    assert isinstance(client, ClusterPort)
    assert isinstance(client, PagedPort)
    assert isinstance(client, InitialEventsPort)


async def test_verbs_send_what_kubernetes_expects(api: ScriptedApi, client: Client) -> None:
    api.then(200, {"kind": "Pod"})
    queue = {"metadata": {"name": "q", "namespace": "t9k-system"}}
    await client.get(PODS, "p", "ns")
    await client.create(PODS, pod("p"), dry_run=True)
    await client.replace(QUEUES, queue)
    await client.replace_status(PODS, pod("p"))
    await client.patch(NODES, "n", None, {"spec": {}}, subresource="status")
    await client.delete(PODS, "p", "ns", uid="u", grace=0, propagation="Background")
    await client.bind("ns", "p", {"kind": "Binding"})
    await client.evict("ns", "p", uid="u", grace=3)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}}
    assert [(seen.method, seen.path, seen.query) for seen in api.seen] == [
        ("GET", "/api/v1/namespaces/ns/pods/p", {}),
        ("POST", "/api/v1/namespaces/ns/pods", {"dryRun": "All"}),
        ("PUT", "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/t9k-system/queues/q", {}),
        ("PUT", "/api/v1/namespaces/ns/pods/p/status", {}),
        ("PATCH", "/api/v1/nodes/n/status", {}),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", {}),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", {}),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", {}),
    ]
    assert api.seen[4].headers["Content-Type"] == "application/merge-patch+json"
    assert api.seen[5].body == options | {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    assert api.seen[7].body["deleteOptions"] == options | {"gracePeriodSeconds": 3}
    assert api.seen[0].headers["Authorization"] == "Bearer secret"
    assert api.seen[0].headers["User-Agent"].startswith("t9ksched/")


@pytest.mark.parametrize(
    ("status", "reason", "kind", "unknown"),
    [
        (400, "BadRequest", errors.BadRequest, False),
        (401, "Unauthorized", errors.Unauthorized, False),
        (403, "Forbidden", errors.Forbidden, False),
        (404, "NotFound", errors.NotFound, False),
        (409, "Conflict", errors.Conflict, False),
        (409, "AlreadyExists", errors.AlreadyExists, False),
        (410, "Expired", errors.Expired, False),
        (410, "Gone", errors.Expired, False),
        (415, "UnsupportedMediaType", errors.ApiError, False),
        (422, "Invalid", errors.Unprocessable, False),
        (429, "TooManyRequests", errors.TooManyRequests, False),
        (500, "InternalError", errors.ServerError, True),
        (503, "ServiceUnavailable", errors.ServerError, False),
        (504, "Timeout", errors.ServerError, True),
        (302, "", errors.ApiError, False),
    ],
)
async def test_statuses(api: ScriptedApi, client: Client, status: int, reason: str, kind: type, unknown: bool) -> None:
    api.refuse(status, reason, "words of the server")
    with pytest.raises(errors.ApiError) as caught:
        await client.bind("ns", "p", {})
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason, caught.value.unknown) == (status, reason, unknown)
    assert "words of the server" in str(caught.value)
    assert len(api.seen) == 1, "a refused request is not repeated"


async def test_retry_after_comes_from_the_header_or_the_details(api: ScriptedApi, client: Client) -> None:
    body = {"kind": "Status", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}}
    api.refuse(429, "TooManyRequests", Retry_After="3").then(429, body).refuse(429)
    found = []
    for _ in range(3):
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.get(PODS, "p", "ns")
        found.append(caught.value.retry_after)
    assert found == [3.0, 7.0, None]


async def test_an_answer_without_a_status_body_still_explains_itself(api: ScriptedApi, client: Client) -> None:
    api.then(502, b"<html>bad gateway</html>")
    with pytest.raises(errors.ServerError, match="bad gateway"):
        await client.get(PODS, "p", "ns")


@pytest.mark.parametrize("body", [b"not json", b"[1]", b'"text"', b""])
async def test_nonsense_with_success_is_an_error(api: ScriptedApi, client: Client, body: bytes) -> None:
    api.then(200, body)
    with pytest.raises(errors.ApiError) as caught:
        await client.get(PODS, "p", "ns")
    assert caught.value.reason == "Malformed"
    with pytest.raises(errors.ApiError):
        await client.list(PODS)


async def test_a_broken_connection_leaves_a_write_open(api: ScriptedApi, client: Client) -> None:
    api.do(drop)
    with pytest.raises(errors.Unreachable) as caught:
        await client.bind("ns", "p", {})
    assert caught.value.unknown
    assert caught.value.status == 0


async def test_a_server_that_is_not_there_did_nothing(unused_tcp_port: int) -> None:
    async with Client(Credentials.fixed(f"http://127.0.0.1:{unused_tcp_port}")) as client:
        with pytest.raises(errors.Unreachable) as caught:
            await client.bind("ns", "p", {})
    assert not caught.value.unknown


async def test_silence_is_a_timeout_with_unknown_result(api: ScriptedApi, client: Client) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            await asyncio.Event().wait()
        return web.json_response({})

    api.do(silent)
    await client.request("GET", "/x")  # from now on there is a connection: to make one may take longer
    with pytest.raises(errors.TimedOut) as caught:
        await client.request("POST", "/x", timeout=0.05)
    assert caught.value.unknown


async def test_writes_have_a_time_limit_of_their_own(api: ScriptedApi) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            await asyncio.Event().wait()
        return web.json_response({})

    api.do(silent)
    async with Client(Credentials.fixed(api.url), timeout=60.0, write_timeout=0.05) as client:
        with pytest.raises(errors.TimedOut):
            await client.bind("ns", "p", {})
        await client.get(NODES, "n")


async def test_a_closed_client_says_so(api: ScriptedApi) -> None:
    client = Client(Credentials.fixed(api.url))
    with pytest.raises(errors.Unreachable, match="closed"):
        await client.get(PODS, "p", "ns")


class TestCredentials:
    async def test_a_401_renews_the_token_once_and_for_all_requests(self, api: ScriptedApi) -> None:
        tokens = iter(["old", "new"])

        async def source() -> Access:
            return Access(api.url, f"Bearer {next(tokens)}")

        async def answer(request: web.Request) -> web.StreamResponse:
            good = request.headers["Authorization"] == "Bearer new"
            return web.json_response({}, status=200 if good else 401)

        api.do(answer)
        async with Client(Credentials(source)) as client:
            await asyncio.gather(*(client.get(NODES, "n") for _ in range(10)))

    async def test_a_401_with_the_same_token_again_is_final(self, api: ScriptedApi, client: Client) -> None:
        api.refuse(401, "Unauthorized")
        with pytest.raises(errors.Unauthorized):
            await client.get(NODES, "n")
        assert len(api.seen) == 1

    async def test_a_source_that_fails_later_keeps_the_old_token(self, api: ScriptedApi) -> None:
        now = 0.0
        readings = 0

        async def source() -> Access:
            nonlocal readings
            readings += 1
            if readings > 1:
                raise OSError("token file is gone")
            return Access(api.url, "Bearer first", fresh_for=60)

        credentials = Credentials(source, clock=lambda: now)
        await credentials.open()
        now = 61.0
        with structlog.testing.capture_logs() as told:
            assert await credentials.authorization() == "Bearer first"
            assert await credentials.authorization() == "Bearer first"
        assert readings == 2, "a failing source is not asked at each request"
        assert [entry["error"] for entry in told] == ["token file is gone"]
        assert not await credentials.refresh("Bearer first")

    async def test_a_reading_has_its_time(self) -> None:
        moment = [0.0]
        readings = 0

        async def source() -> Access:
            nonlocal readings
            readings += 1
            return Access("http://x", f"Bearer {readings}", fresh_for=60)

        credentials = Credentials(source, clock=lambda: moment[0])
        await credentials.open()
        found = []
        for seconds in (0.0, 59.0, 60.0, 100.0, 121.0):
            moment[0] = seconds
            found.append(await credentials.authorization())
        assert found == ["Bearer 1", "Bearer 1", "Bearer 2", "Bearer 2", "Bearer 3"]

    async def test_a_rotated_certificate_gets_connections_of_its_own(self, api: ScriptedApi) -> None:
        peers: list[Any] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            peers.append(request.transport.get_extra_info("peername"))
            return web.json_response({}, status=401 if len(peers) == 2 else 200)

        async def source() -> Access:
            return Access(api.url)

        class Rotating(Credentials):
            async def refresh(self, refused: str | None) -> bool:
                self.generation += 1
                return True

        api.do(answer)
        async with Client(Rotating(source)) as client:
            for _ in range(3):
                await client.get(NODES, "n")
        first, second, third, fourth = peers
        assert first == second, "connections are kept"
        assert second != third, "the refused certificate's are not used again"
        assert third == fourth


class TestList:
    async def test_pages_are_put_together(self, api: ScriptedApi, client: Client) -> None:
        api.then(200, {"metadata": {"resourceVersion": "9", "continue": "c1"}, "items": [pod("a"), pod("b")]})
        api.then(200, {"metadata": {"resourceVersion": "9", "continue": ""}, "items": [pod("c")]})
        found = await client.list(PODS, "ns", label_selector="a=b,c", field_selector="spec.nodeName=", limit=2)
        assert [item["metadata"]["name"] for item in found.items] == ["a", "b", "c"]
        assert {(item["apiVersion"], item["kind"]) for item in found.items} == {("v1", "Pod")}
        assert found.resource_version == "9"
        first = {"labelSelector": "a=b,c", "fieldSelector": "spec.nodeName=", "limit": "2"}
        assert [seen.query for seen in api.seen] == [first, first | {"continue": "c1"}]

    async def test_a_forgotten_page_begins_the_list_anew(self, api: ScriptedApi, client: Client) -> None:
        api.then(200, {"metadata": {"resourceVersion": "1", "continue": "c"}, "items": [pod("old")]})
        api.refuse(410, "Expired")
        api.then(200, {"metadata": {"resourceVersion": "2"}, "items": [pod("new")]})
        found = await client.list(PODS)
        assert [item["metadata"]["name"] for item in found.items] == ["new"]

    async def test_a_list_that_is_forgotten_again_and_again_is_an_error(self, api: ScriptedApi, client: Client) -> None:
        api.refuse(410, "Expired")
        with pytest.raises(errors.Expired):
            await client.list(PODS)

    async def test_an_empty_list_may_have_null_items(self, api: ScriptedApi, client: Client) -> None:
        api.then(200, {"metadata": {"resourceVersion": "5"}, "items": None})
        found = await client.list(PODS)
        assert (found.items, found.resource_version) == ([], "5")

    async def test_raw_pages_decode_into_structs(self, api: ScriptedApi, client: Client) -> None:
        api.then(200, {"metadata": {"resourceVersion": "9"}, "items": [pod("a"), pod("b")]})
        decode = msgspec.json.Decoder(Small).decode
        pages = [page async for page in client.pages(PODS)]
        assert [decode(item).metadata.name for page in pages for item in page.items] == ["a", "b"]
        assert pages[-1].last


def streaming(*chunks: bytes, end: str = "clean") -> Any:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if end == "drop":
            assert request.transport is not None
            request.transport.abort()
        elif end == "hang":
            await asyncio.Event().wait()
        return response

    return answer


async def two_names(client: Client) -> list[str]:
    """The names of the first two pods that a reflector tells of."""
    names: list[str] = []
    reached = asyncio.Event()

    class Names:
        def on_replace(self, items: list[Any]) -> None: ...

        def on_upsert(self, obj: dict[str, Any]) -> None:
            names.append(obj["metadata"]["name"])
            if len(names) == 2:
                reached.set()

        def on_delete(self, obj: dict[str, Any]) -> None: ...

    following = asyncio.create_task(Reflector(client, PODS, Names()).run())
    async with asyncio.timeout(10):
        await reached.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return names


def line(type: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": type, "object": obj}) + b"\n"


async def collect(client: Client, into: list[WatchEvent], **options: Any) -> None:
    async with aclosing(client.watch(PODS, resource_version="5", **options)) as events:
        async for event in events:
            into.append(event)


class TestWatch:
    async def test_events_in_order_with_a_very_long_line_in_odd_chunks(self, api: ScriptedApi, client: Client) -> None:
        big = pod("big") | {"data": "x" * 3_000_000}
        stream = line("ADDED", pod("a", "6")) + line("MODIFIED", big) + line("BOOKMARK", pod("", "9"))
        cuts = [stream[at : at + 70_001] for at in range(0, len(stream), 70_001)]
        api.do(streaming(*cuts))
        found: list[WatchEvent] = []
        await collect(client, found, timeout=60, label_selector="a=b")
        assert [event.type for event in found] == ["ADDED", "MODIFIED", "BOOKMARK"]
        assert found[1].object == big
        assert found[0].payload == found[0].raw
        assert api.seen[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "60",
            "labelSelector": "a=b",
        }

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            (streaming(line("ADDED", pod("a")), end="drop"), errors.Unreachable),
            (streaming(line("ADDED", pod("a")), b'{"type":"MODI'), errors.Unreachable),
            (streaming(line("ADDED", pod("a")), b"garbage\n"), errors.Unreachable),
            (
                streaming(line("ADDED", pod("a")), line("ERROR", {"code": 410, "reason": "Expired"})),
                errors.Expired,
            ),
            (streaming(line("ADDED", pod("a")), line("ERROR", {"code": 500})), errors.ServerError),
            (streaming(line("ADDED", pod("a")), line("ERROR", {})), errors.ServerError),
        ],
    )
    async def test_every_ending_but_a_clean_one_is_an_error(
        self, api: ScriptedApi, client: Client, answer: Any, kind: type
    ) -> None:
        api.do(answer)
        found: list[WatchEvent] = []
        with pytest.raises(kind):
            await collect(client, found)
        assert [event.object["metadata"]["name"] for event in found] == ["a"]

    async def test_a_stream_that_falls_silent_is_left_and_resumed(self, api: ScriptedApi, client: Client) -> None:
        client.requester.watch_silence = 0.1
        api.then(200, {"metadata": {"resourceVersion": "5"}, "items": []})
        api.do(streaming(line("ADDED", pod("a", "6")), end="hang")).do(streaming(line("ADDED", pod("b", "7"))))
        assert await two_names(client) == ["a", "b"]
        assert [seen.query.get("resourceVersion") for seen in api.seen][:3] == [None, "5", "6"]

    async def test_initial_events_are_asked_for_as_kubernetes_wants(self, api: ScriptedApi, client: Client) -> None:
        end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
        api.do(streaming(line("ADDED", pod("a", "6")), line("BOOKMARK", end), line("ADDED", pod("b", "10"))))
        async with aclosing(client.watch_list(PODS, label_selector="a=b", timeout=60)) as events:
            found = [event async for event in events]
        assert [(event.type, event.type == "BOOKMARK" and initial_events_end(event)) for event in found] == [
            ("ADDED", False),
            ("BOOKMARK", True),
            ("ADDED", False),
        ]
        assert api.seen[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "timeoutSeconds": "60",
            "labelSelector": "a=b",
        }

    async def test_a_refused_watch(self, api: ScriptedApi, client: Client) -> None:
        api.refuse(410, "Expired")
        with pytest.raises(errors.Expired):
            await collect(client, [])

    async def test_leaving_early_frees_the_connection(self, api: ScriptedApi, client: Client) -> None:
        api.do(streaming(line("ADDED", pod("a")), end="hang"))
        async with aclosing(client.watch(PODS, resource_version="1")) as events:
            async for _ in events:
                break

    async def test_watches_do_not_take_the_places_of_requests(self, api: ScriptedApi) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" in request.query:
                return await streaming(line("ADDED", pod("a")), end="hang")(request)
            return web.json_response({})

        api.do(answer)
        async with Client(Credentials.fixed(api.url), connections=1) as client:
            streams = [client.watch(PODS, resource_version="1") for _ in range(3)]
            for stream in streams:
                await anext(stream)
            await client.get(NODES, "n")
            for stream in streams:
                await stream.aclose()
