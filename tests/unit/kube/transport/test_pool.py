"""The pool against a server that sends bytes as scripted: every framing, and every way in which a connection ends."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t9ksched.kube.errors import TimedOut, Unreachable
from t9ksched.kube.transport import pool as module
from t9ksched.kube.transport.message import Answer, Request
from t9ksched.kube.transport.pool import TransportPool

REQUEST = Request("POST", "/x", b"{}", authorization="Bearer t")
OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
CERTIFICATES = Path(__file__).parents[1] / "certificates"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Peer:
    """Listens on loopback; each request is answered by the next behaviour, the last one repeats."""

    def __init__(self) -> None:
        self.script: list[bytes | Behaviour] = [OK]
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head + await reader.readexactly(2))
                step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                else:
                    await step(reader, writer)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    scripted = Peer()
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield scripted
    server.close()


@pytest.fixture
async def pool(peer: Peer) -> AsyncIterator[TransportPool]:
    opened = TransportPool(peer.url)
    yield opened
    opened.close()


async def closing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def then_close(data: bytes) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return behave


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


def head(*lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *lines, b"", b""))


CHUNKS = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
WHOLE = [
    (head(b"Content-Length: 3") + b"abc", 200, b"abc"),
    (head(b"content-length:3 ", b"X: y") + b"abc", 200, b"abc"),
    (head(b"Content-Length: 0", status=b"404 Not Found"), 404, b""),
    (head(b"Transfer-Encoding: chunked") + CHUNKS, 200, b"abc0123456789"),
    (head(b"Transfer-Encoding: Chunked") + b"0\r\n\r\n", 200, b""),
    (head(status=b"204 No Content"), 204, b""),
    (head(b"Content-Length: 1", status=b"299") + b"x", 299, b"x"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + head(b"Content-Length: 1") + b"x", 200, b"x"),
]


@pytest.mark.parametrize(("sent", "status", "content"), WHOLE)
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_answers_are_read_however_the_network_cuts_them(
    peer: Peer, pool: TransportPool, sent: bytes, status: int, content: bytes, size: int
) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for at in range(0, len(sent), size):
            writer.write(sent[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)

    peer.script = [drip, OK]
    answer = await pool.exchange(REQUEST, 90)
    assert (answer.status, answer.content) == (status, content)
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"
    assert peer.connections == 1, "the connection is used again"


async def test_what_a_request_says(peer: Peer) -> None:
    pool = TransportPool(peer.url, headers=(("Accept", "application/json"),))
    await pool.exchange(REQUEST, 90)
    pool.close()
    lines = [b"POST /x HTTP/1.1", b"Host: " + peer.url[7:].encode(), b"Accept: application/json"]
    lines += [b"Authorization: Bearer t", b"Content-Type: application/json", b"Content-Length: 2", b"", b"{}"]
    assert peer.requests == [b"\r\n".join(lines)]


async def test_credentials_that_would_begin_another_header_are_not_sent(peer: Peer, pool: TransportPool) -> None:
    with pytest.raises(Unreachable, match="log in anew") as caught:
        await pool.exchange(Request("GET", "/x", authorization="Bearer t\r\nX-Evil: 1"), 5)
    assert not caught.value.unknown
    assert peer.requests == []


async def test_the_head_keeps_its_word_and_retry_after(peer: Peer, pool: TransportPool) -> None:
    peer.script = [head(b"Retry-After: 7", b"Content-Length: 0", status=b"429 Too Many Requests")]
    assert await pool.exchange(REQUEST, 90) == Answer(429, "Too Many Requests", "7", b"")


@pytest.mark.parametrize(
    "last",
    [
        then_close(head() + b"until the end"),
        head(b"Connection: close", b"Content-Length: 13") + b"until the end",
        head(b"Connection: x, Close", b"Content-Length: 13") + b"until the end",
        b"HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\nuntil the end",
        head(b"Content-Length: 13") + b"until the end" + OK,
    ],
)
async def test_a_connection_that_ends_or_says_too_much_is_not_used_again(
    peer: Peer, pool: TransportPool, last: bytes | Behaviour
) -> None:
    peer.script = [last, OK]
    assert (await pool.exchange(REQUEST, 90)).content == b"until the end"
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"
    assert peer.connections == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        head(status=b"101 Switching Protocols"),
        head(b"Content-Length: three"),
        head(b"Content-Length: -3"),
        head(b"Content-Length: 3", b"Content-Length: 4"),
        head(b"Content-Length: 3", b"Content-Length: 4") + b"abc",
        head(b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        head(b"Content-Length: 3", b"Transfer-Encoding: chunked") + b"abc",
        head(b"Transfer-Encoding: gzip, chunked"),
        head(b"Transfer-Encoding: chunked") + b"xyz\r\nabc",
        head(b"Transfer-Encoding: chunked") + b"3\r\nabcd\r\n",
        head(b"Transfer-Encoding: chunked") + b"1" * 2000,
        head(b"X: " + b"x" * 70_000)[:-4],
    ],
)
async def test_what_is_no_answer_leaves_the_result_open(peer: Peer, pool: TransportPool, sent: bytes) -> None:
    peer.script = [sent, OK]
    with pytest.raises(Unreachable, match="cannot be understood") as caught:
        await pool.exchange(REQUEST, 90)
    assert caught.value.unknown
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"
    assert peer.connections == 2


@pytest.mark.parametrize(
    "last",
    [
        closing,
        then_close(head(b"Content-Length: 3") + b"ab"),
        then_close(b"HTTP/1.1 200 OK\r\nContent-Le"),
        then_close(head(b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n"),
    ],
)
async def test_a_connection_that_breaks_leaves_the_result_open_and_nothing_is_sent_again(
    peer: Peer, pool: TransportPool, last: Behaviour
) -> None:
    peer.script = [OK, last, OK]
    await pool.exchange(REQUEST, 90)
    with pytest.raises(Unreachable) as caught:
        await pool.exchange(REQUEST, 90)
    assert caught.value.unknown
    assert len(peer.requests) == 2


async def test_silence_is_a_timeout_and_other_requests_go_on(peer: Peer, pool: TransportPool) -> None:
    peer.script = [silent, silent, OK]
    results = await asyncio.gather(
        pool.exchange(REQUEST, 0.2), pool.exchange(REQUEST, 0.05), pool.exchange(REQUEST, 90), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Answer", "TimedOut", "TimedOut"]
    assert isinstance(results[1], TimedOut)
    assert results[1].unknown
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"


async def test_a_late_answer_belongs_to_no_request(peer: Peer, pool: TransportPool) -> None:
    release = asyncio.Event()

    async def late(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(head(b"Content-Length: 4") + b"late")

    peer.script = [late, OK]
    with pytest.raises(TimedOut):
        await pool.exchange(REQUEST, 0.05)
    release.set()
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"


async def test_a_cancelled_request_takes_its_connection_along(peer: Peer, pool: TransportPool) -> None:
    peer.script = [silent, OK]
    task = asyncio.create_task(pool.exchange(REQUEST, 90))
    while not peer.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"
    assert peer.connections == 2


async def test_a_connection_that_the_server_closed_while_idle_is_replaced(peer: Peer, pool: TransportPool) -> None:
    peer.script = [then_close(OK), OK]
    await pool.exchange(REQUEST, 90)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"
    assert len(peer.requests) == 2


async def test_an_unrequested_answer_ends_a_connection(peer: Peer, pool: TransportPool) -> None:
    async def chatty(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(head(b"Content-Length: 5") + b"wrong")

    peer.script = [chatty, OK]
    await pool.exchange(REQUEST, 90)
    await asyncio.sleep(0.05)
    assert (await pool.exchange(REQUEST, 90)).content == b"ok"


async def test_connections_idle_for_long_are_not_used_again(
    peer: Peer, pool: TransportPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.exchange(REQUEST, 90)
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
    await pool.exchange(REQUEST, 90)
    assert peer.connections == 2


async def test_many_at_once_have_a_connection_each_and_keep_them(peer: Peer, pool: TransportPool) -> None:
    for _ in range(3):
        await asyncio.gather(*(pool.exchange(REQUEST, 90) for _ in range(10)))
    assert peer.connections == 10


async def test_a_server_that_is_not_there_did_nothing(unused_tcp_port: int) -> None:
    pool = TransportPool(f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(Unreachable, match="cannot connect") as caught:
        await pool.exchange(REQUEST, 90)
    assert not caught.value.unknown


async def test_a_server_that_does_not_accept_is_given_up_in_time_and_did_nothing() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        held = [socket.socket() for _ in range(3)]
        for one in held:  # the queue of those who wait to be accepted
            one.setblocking(False)
            one.connect_ex(address)
        pool = TransportPool(f"http://127.0.0.1:{address[1]}")
        with pytest.raises(Unreachable, match="in time") as caught:
            await pool.exchange(REQUEST, 0.1)
        assert not caught.value.unknown
        for one in held:
            one.close()


async def test_a_closed_lane_ends_what_is_under_way(peer: Peer, pool: TransportPool) -> None:
    peer.script = [silent]
    task = asyncio.create_task(pool.exchange(REQUEST, 90))
    while not peer.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    pool.close()
    with pytest.raises(Unreachable):
        await task
    with pytest.raises(Unreachable, match="closed"):
        await pool.exchange(REQUEST, 90)


async def test_a_retired_lane_serves_what_is_under_way(peer: Peer, pool: TransportPool) -> None:
    release = asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(OK)

    peer.script = [slow]
    task = asyncio.create_task(pool.exchange(REQUEST, 90))
    while not peer.requests:  # noqa: ASYNC110
        await asyncio.sleep(0)
    pool.retire()
    release.set()
    assert (await task).content == b"ok"
    with pytest.raises(Unreachable, match="closed"):
        await pool.exchange(REQUEST, 90)


@pytest.mark.parametrize(
    ("server", "authority"),
    [
        ("http://h:8001/as/token", "h:8001"),
        ("http://h", "h"),
        ("https://h", "h"),
        ("https://h:6443", "h:6443"),
        ("https://[::1]:6443", "[::1]:6443"),
    ],
)
def test_the_host_header(server: str, authority: str) -> None:
    assert TransportPool(server).authority == authority


class TestTls:
    @pytest.fixture
    async def secure(self) -> AsyncIterator[Peer]:
        """A peer that speaks TLS and wants to know who its client is."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(CERTIFICATES / "server.pem")
        tls.load_verify_locations(CERTIFICATES / "client.pem")
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.maximum_version = ssl.TLSVersion.TLSv1_2  # so that a refused client hears of it in the handshake
        scripted = Peer()
        server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0, ssl=tls)
        scripted.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield scripted
        server.close()

    @staticmethod
    def context(*, trust: bool = True, known: bool = True) -> ssl.SSLContext:
        tls = ssl.create_default_context(cafile=CERTIFICATES / "server.pem" if trust else None)
        if known:
            tls.load_cert_chain(CERTIFICATES / "client.pem")
        return tls

    @pytest.mark.parametrize("name", [None, "server.test"])
    async def test_both_sides_know_each_other(self, secure: Peer, name: str | None) -> None:
        pool = TransportPool(secure.url, self.context(), name)
        assert (await pool.exchange(REQUEST, 90)).content == b"ok"
        assert (await pool.exchange(REQUEST, 90)).content == b"ok"
        assert secure.connections == 1
        pool.close()

    @pytest.mark.parametrize(
        ("trust", "known", "name"), [(False, True, None), (True, False, None), (True, True, "other.test")]
    )
    async def test_nothing_is_sent_to_strangers(self, secure: Peer, trust: bool, known: bool, name: str | None) -> None:
        pool = TransportPool(secure.url, self.context(trust=trust, known=known), name)
        with pytest.raises(Unreachable, match="cannot connect") as caught:
            await pool.exchange(REQUEST, 90)
        assert not caught.value.unknown
        assert not secure.requests


async def test_an_opening_that_is_done_and_not_yet_noted_does_not_stop_the_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, looked = TransportPool("https://127.0.0.1:1", ssl.create_default_context(), None), 0
    made: Any = SimpleNamespace(open=True, used=0.0, abort=lambda: None)

    async def connected() -> Any:
        return made

    def looks(now: float) -> None:
        nonlocal looked
        looked += 1
        assert looked < 100, "it polls again and again, and no other task runs"

    monkeypatch.setattr(pool, "_with_room", looks)
    pool._opening = asyncio.create_task(connected())
    pool._opening.add_done_callback(pool._opened)
    # Runs right after the opening, before its callback.
    assert await asyncio.create_task(pool._open(5)) is made
