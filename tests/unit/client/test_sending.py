"""What both transports do with servers that are not ours, redirect, hang up, or are not trusted."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from t9ksched.client.async_sending import AsyncTransport
from t9ksched.client.calls import Answer, Call
from t9ksched.client.errors import Refused, Unreachable
from t9ksched.client.sending import Transport
from tests.unit.kube.authority import Authority

EVENTS = Call("GET", "/events")
Seen = list[tuple[str, str | None]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server: Any = self.server
        server.seen.append((self.path, self.headers.get("Authorization")))
        server.answer(self)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None], context: ssl.SSLContext | None = None) -> Iterator[Any]:
    """A server that answers so; what it saw is `seen`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.seen, server.answer = Seen(), answer  # type: ignore[attr-defined]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Sender:
    """Either transport, called alike."""

    def __init__(self, kind: type[Transport | AsyncTransport], url: str) -> None:
        self.transport = kind(url, "secret", 20.0)

    async def send(self, call: Call) -> Answer:
        if isinstance(self.transport, AsyncTransport):
            return await self.transport.send(call)
        return await asyncio.to_thread(self.transport.send, call)

    async def stream(self, call: Call) -> tuple[bytes, Exception | None]:
        """What came of a stream, and what it ended with."""
        parts: list[bytes] = []
        try:
            if isinstance(self.transport, AsyncTransport):
                async for part in self.transport.stream(call):
                    parts.append(part)
            else:
                await asyncio.to_thread(lambda: [parts.append(part) for part in self.transport.stream(call)])  # type: ignore[union-attr]
        except (Refused, Unreachable) as error:
            return b"".join(parts), error
        return b"".join(parts), None


@pytest.fixture(params=[Transport, AsyncTransport])
async def sender(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[Any, str], Sender]]:
    made: list[Sender] = []

    def make(server: Any, scheme: str = "http") -> Sender:
        made.append(Sender(request.param, f"{scheme}://127.0.0.1:{server.server_port}"))
        return made[-1]

    yield make  # type: ignore[misc]
    for one in made:
        if isinstance(one.transport, AsyncTransport):
            await one.transport.close()


async def test_a_redirection_is_an_answer_and_the_token_stays(sender: Callable[..., Sender]) -> None:
    with serving(lambda handler: plain(handler, 200, b"{}")) as other:

        def away(handler: BaseHTTPRequestHandler) -> None:
            plain(handler, 307, b"", Location=f"http://127.0.0.1:{other.server_port}/stolen")

        with serving(away) as server:
            asking = sender(server)
            answer = await asking.send(Call("GET", "/x"))
            assert (answer.status, server.seen) == (307, [("/x", "Bearer secret")])
            _, error = await asking.stream(EVENTS)
            assert isinstance(error, Refused)
            assert error.status == 307
        assert other.seen == []


async def test_a_stream_that_is_refused(sender: Callable[..., Sender]) -> None:
    body = b'{"code":"RateLimited","detail":"too many","status":429}'
    with serving(lambda handler: plain(handler, 429, body, Retry_After="30")) as server:
        came, error = await sender(server).stream(EVENTS)
    assert isinstance(error, Refused)
    assert (came, error.code, error.retry_after) == (b"", "RateLimited", 30.0)


async def test_a_stream_that_breaks_off(sender: Callable[..., Sender]) -> None:
    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"6\r\nid: 1\n\r\n9\r\nid:")
        handler.wfile.flush()
        handler.close_connection = True

    with serving(half) as server:
        came, error = await sender(server).stream(EVENTS)
    assert isinstance(error, Unreachable)
    assert came.startswith(b"id: 1\n")


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_breaks_off(sender: Callable[..., Sender], status: int) -> None:
    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    with serving(half) as server:
        asking = sender(server)
        with pytest.raises(Unreachable):
            await asking.send(Call("GET", "/x"))
        if status != 200:
            assert isinstance((await asking.stream(EVENTS))[1], Unreachable)


def plain(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


async def test_a_server_that_is_not_trusted(sender: Callable[..., Sender], tmp_path: Path) -> None:
    context = Authority(tmp_path, "nobody").server()
    with serving(lambda handler: plain(handler, 200, b"{}"), context) as server:
        with pytest.raises(Unreachable, match="is not trusted") as raised:
            await sender(server, "https").send(Call("GET", "/x"))
        assert (raised.value.trusted, server.seen) == (False, [])
