"""HTTP/2 against a peer of the library `h2`, which holds both sides to the rules, and against scripted frames."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from t9ksched.kube.errors import TimedOut, Unreachable
from t9ksched.kube.transport import pool as lanes
from t9ksched.kube.transport.http2 import PREFACE, Http2Connection
from t9ksched.kube.transport.http2_frames import Flag, Kind, Setting, frame, settings
from t9ksched.kube.transport.message import Origin, Request
from t9ksched.kube.transport.pool import TransportPool

CERTIFICATES = Path(__file__).parents[1] / "certificates"
POST = Request("POST", "/api/v1/x", b"{}", authorization="Bearer t")
ORIGIN = Origin("https", "h:6443", (("User-Agent", "t"), ("Accept", "application/json")))
Headers = list[tuple[str, str]]


class Peer(asyncio.Protocol):
    """One connection of a server that answers each request by `answer`, once all of it came."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests: dict[int, tuple[Headers, bytearray]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.peers.append(self)
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=self.server.settings)
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.RequestReceived(stream_id=number, headers=headers):
                    self.requests[number] = (list(headers), bytearray())
                case h2.events.DataReceived(stream_id=number, data=piece, flow_controlled_length=length):
                    self.requests[number][1].extend(piece)
                    self.server.pieces += 1
                    self.h2.acknowledge_received_data(length, number)
                case h2.events.StreamReset(stream_id=number, error_code=code):
                    self.server.resets.append((number, int(code)))
                case h2.events.StreamEnded(stream_id=number):
                    headers, body = self.requests[number]
                    self.server.requests.append((dict(headers), bytes(body)))
                    self.server.answer(self, number)
        self.flush()

    def reply(self, number: int, status: int = 201, body: bytes = b"ok", **headers: str) -> None:
        fields = [(":status", str(status)), ("audit-id", "a"), *((k.replace("_", "-"), v) for k, v in headers.items())]
        self.h2.send_headers(number, fields, end_stream=not body)
        at = 0
        while at < len(body):
            size = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(body) - at)
            self.h2.send_data(number, body[at : at + size], end_stream=at + size == len(body), pad_length=None)
            at += size


class Server:
    """Listens by TLS on loopback and offers HTTP/2."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.resets: list[tuple[int, int]] = []
        self.pieces = 0
        self.settings: dict[int, int] = {}
        self.answer: Callable[[Peer, int], None] = Peer.reply
        self.url = ""

    async def heard(self, count: int) -> None:
        while len(self.requests) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    serving = Server()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATES / "server.pem")
    tls.set_alpn_protocols(["h2"])
    listening = await asyncio.get_running_loop().create_server(lambda: Peer(serving), "127.0.0.1", 0, ssl=tls)
    serving.url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield serving
    listening.close()


@pytest.fixture
async def pool(server: Server) -> AsyncIterator[TransportPool]:
    tls = ssl.create_default_context(cafile=CERTIFICATES / "server.pem")
    tls.set_alpn_protocols(["h2", "http/1.1"])
    opened = TransportPool(server.url, tls, headers=(("User-Agent", "t"), ("Accept", "application/json")))
    yield opened
    opened.close()
    await asyncio.sleep(0.01)


async def test_a_request_and_its_answer(server: Server, pool: TransportPool) -> None:
    answer = await pool.exchange(POST, 90)
    assert (answer.status, answer.content) == (201, b"ok")
    headers, body = server.requests[0]
    assert body == b"{}"
    assert headers == {
        ":method": "POST",
        ":scheme": "https",
        ":authority": server.url[8:],
        ":path": "/api/v1/x",
        "user-agent": "t",
        "accept": "application/json",
        "authorization": "Bearer t",
        "content-type": "application/json",
        "content-length": "2",
    }


async def test_many_at_once_share_a_connection_and_get_their_own_answers(server: Server, pool: TransportPool) -> None:
    def echo(peer: Peer, number: int) -> None:
        headers, body = peer.requests[number]
        peer.reply(number, 200, dict(headers)[":path"].encode() + body)

    server.answer = echo
    requests = [
        Request(("GET", "POST", "PATCH", "DELETE")[index % 4], f"/{index}", b"%d" % index if index % 4 else None)
        for index in range(90)
    ]
    answers = await asyncio.gather(*(pool.exchange(request, 90) for request in requests))
    assert [answer.content for answer in answers] == [
        request.target.encode() + (request.body or b"") for request in requests
    ]
    assert len(server.peers) == 1


async def test_no_more_streams_than_the_server_takes(server: Server, pool: TransportPool) -> None:
    server.settings = {Setting.MAX_CONCURRENT_STREAMS: 3}
    server.answer = lambda *_: None
    asked = [asyncio.create_task(pool.exchange(POST, 90)) for _ in range(10)]
    async with asyncio.timeout(90):
        while len(server.requests) < 10:  # noqa: ASYNC110 (what one connection does not take goes by another one)
            await asyncio.sleep(0.01)
    assert max(len(peer.requests) for peer in server.peers) == 3
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 70_000, 3_000_000])
async def test_bodies_of_any_size_go_both_ways(server: Server, pool: TransportPool, size: int) -> None:
    sent = bytes(range(256)) * (size // 256 + 1)
    server.answer = lambda peer, number: peer.reply(number, 200, bytes(peer.requests[number][1]))
    answer = await pool.exchange(Request("PUT", "/x", sent[:size]), 20)
    assert answer.content == sent[:size]
    assert (await pool.exchange(POST, 90)).content == b"{}"


async def test_answers_of_more_than_the_window_in_all(server: Server, pool: TransportPool) -> None:
    server.answer = lambda peer, number: peer.reply(number, 200, bytes(4_000_000))
    for _ in range(12):
        assert len((await pool.exchange(POST, 90)).content) == 4_000_000
    assert len(server.peers) == 1


async def test_a_refusal_keeps_its_retry_after(server: Server, pool: TransportPool) -> None:
    server.answer = lambda peer, number: peer.reply(number, 429, b"slow down", retry_after="7")
    answer = await pool.exchange(POST, 90)
    assert (answer.status, answer.retry_after, answer.content) == (429, "7", b"slow down")


async def test_silence_is_a_timeout_and_the_connection_is_not_trusted_any_more(
    server: Server, pool: TransportPool
) -> None:
    kept: list[tuple[Peer, int]] = []
    server.answer = lambda peer, number: kept.append((peer, number))
    slow = asyncio.create_task(pool.exchange(POST, 90))
    await server.heard(1)
    with pytest.raises(TimedOut) as caught:
        await pool.exchange(POST, 0.05)
    assert caught.value.unknown
    server.answer = Peer.reply
    assert (await pool.exchange(POST, 90)).content == b"ok"
    assert len(server.peers) == 2
    assert server.resets == [(3, 8)], "the server is told not to go on"
    peer, number = kept[0]
    peer.reply(number, 201, b"late")
    peer.flush()
    assert (await slow).content == b"late", "who waits longer is still answered"


async def test_a_cancelled_request_leaves_the_connection_to_others(server: Server, pool: TransportPool) -> None:
    kept: list[tuple[Peer, int]] = []
    server.answer = lambda peer, number: kept.append((peer, number))
    task = asyncio.create_task(pool.exchange(POST, 90))
    await server.heard(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.answer = Peer.reply
    assert (await pool.exchange(POST, 90)).content == b"ok"
    assert len(server.peers) == 1
    assert server.resets == [(1, 8)]


async def test_a_server_that_goes_away_answers_what_it_took(server: Server, pool: TransportPool) -> None:
    kept: list[tuple[Peer, int]] = []
    server.answer = lambda peer, number: kept.append((peer, number))
    taken = asyncio.create_task(pool.exchange(POST, 90))
    await server.heard(1)
    missed = asyncio.create_task(pool.exchange(POST, 90))
    await server.heard(2)
    peer, number = kept[0]
    peer.h2.close_connection(last_stream_id=number)
    peer.transport.write(peer.h2.data_to_send())
    with pytest.raises(Unreachable, match="goes away") as caught:
        await missed
    assert not caught.value.unknown, "it says itself that it did not look at it"
    peer.transport.write(frame(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, number, b"\x88"))
    assert (await taken).status == 200
    server.answer = Peer.reply
    assert (await pool.exchange(POST, 90)).content == b"ok"
    assert len(server.peers) == 2


@pytest.mark.parametrize(("code", "unknown"), [(7, False), (2, True), (8, True)])
async def test_a_stream_that_the_server_ends(server: Server, pool: TransportPool, code: int, unknown: bool) -> None:
    server.answer = lambda peer, number: peer.h2.reset_stream(number, code)
    with pytest.raises(Unreachable) as caught:
        await pool.exchange(POST, 90)
    assert caught.value.unknown is unknown
    server.answer = Peer.reply
    assert (await pool.exchange(POST, 90)).content == b"ok"


async def test_a_connection_that_breaks_leaves_results_open(server: Server, pool: TransportPool) -> None:
    server.answer = lambda peer, _: peer.transport.abort()
    with pytest.raises(Unreachable) as caught:
        await pool.exchange(POST, 90)
    assert caught.value.unknown
    server.answer = Peer.reply
    assert (await pool.exchange(POST, 90)).content == b"ok"


async def test_connections_idle_for_long_are_not_used_again(server: Server, pool: TransportPool) -> None:
    await pool.exchange(POST, 90)
    (connection,) = pool._shared
    connection.used -= lanes._IDLE_SECONDS + 1
    await pool.exchange(POST, 90)
    assert len(server.peers) == 2


async def test_a_retired_lane_serves_what_is_under_way(server: Server, pool: TransportPool) -> None:
    kept: list[tuple[Peer, int]] = []
    server.answer = lambda peer, number: kept.append((peer, number))
    task = asyncio.create_task(pool.exchange(POST, 90))
    await server.heard(1)
    pool.retire()
    peer, number = kept[0]
    peer.reply(number)
    peer.flush()
    assert (await task).content == b"ok"
    with pytest.raises(Unreachable, match="closed"):
        await pool.exchange(POST, 90)


async def test_a_closed_lane_ends_what_is_under_way(server: Server, pool: TransportPool) -> None:
    server.answer = lambda *_: None
    task = asyncio.create_task(pool.exchange(POST, 90))
    await server.heard(1)
    pool.close()
    with pytest.raises(Unreachable):
        await task


async def test_a_lane_that_is_closed_while_it_connects_says_so() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    tls = ssl.create_default_context()
    pool = TransportPool(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}", tls)
    tasks = [asyncio.create_task(pool.exchange(POST, 90)) for _ in range(2)]
    await asyncio.sleep(0.05)
    tasks[0].cancel()
    await asyncio.sleep(0)
    pool.close()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    with pytest.raises(Unreachable, match="closed"):
        await tasks[1]
    listening.close()
    await asyncio.sleep(0.05)


async def test_a_server_that_declines_is_spoken_to_in_http_1() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"{}")
            writer.write(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nok")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATES / "server.pem")
    tls.set_alpn_protocols(["http/1.1"])
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    ours = ssl.create_default_context(cafile=CERTIFICATES / "server.pem")
    ours.set_alpn_protocols(["h2", "http/1.1"])
    pool = TransportPool(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}", ours)
    answers = await asyncio.gather(*(pool.exchange(POST, 90) for _ in range(5)))
    assert [answer.reason for answer in answers] == ["Conflict"] * 5
    pool.close()
    listening.close()


# Frames as they may come


class Wire(asyncio.Transport):
    """Collects what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def opened() -> tuple[Http2Connection, Wire]:
    connection, wire = Http2Connection(ORIGIN), Wire()
    connection.connection_made(wire)
    return connection, wire


HELLO = settings({Setting.MAX_CONCURRENT_STREAMS: 50})
BLOCK = b"\x20\x48\x82\x10\x03" + b"\x00\x01x\x01y"
ANSWERS = {
    "plain": frame(Kind.HEADERS, Flag.END_HEADERS, 1, BLOCK) + frame(Kind.DATA, Flag.END_STREAM, 1, b"body"),
    "cut fields": frame(Kind.HEADERS, 0, 1, BLOCK[:2])
    + frame(Kind.CONTINUATION, 0, 1, BLOCK[2:6])
    + frame(Kind.CONTINUATION, Flag.END_HEADERS, 1, BLOCK[6:])
    + frame(Kind.DATA, Flag.END_STREAM, 1, b"body"),
    "padding and priority": frame(
        Kind.HEADERS, Flag.END_HEADERS | Flag.PADDED | Flag.PRIORITY, 1, b"\x03" + bytes(5) + BLOCK + bytes(3)
    )
    + frame(Kind.DATA, Flag.END_STREAM | Flag.PADDED, 1, b"\x02body" + bytes(2)),
    "said to come, and a trailer": frame(Kind.HEADERS, Flag.END_HEADERS, 1, b"\x08\x03103")
    + frame(Kind.HEADERS, Flag.END_HEADERS, 1, BLOCK[1:])
    + frame(Kind.DATA, 0, 1, b"bo")
    + frame(Kind.DATA, 0, 1, b"dy")
    + frame(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, b"\x00\x01t\x01t"),
    "other frames between": frame(Kind.PING, 0, 0, b"12345678")
    + frame(Kind.PRIORITY, 0, 9, bytes(5))
    + frame(99, 255, 7, b"unknown")
    + frame(Kind.HEADERS, Flag.END_HEADERS, 1, BLOCK)
    + frame(Kind.WINDOW_UPDATE, 0, 1, b"\x00\x00\x00\x09")
    + frame(Kind.DATA, Flag.END_STREAM, 1, b"body"),
}


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_are_read_however_the_network_cuts_them(name: str, size: int) -> None:
    connection, wire = opened()
    stream = connection.begin(POST, 1e9)
    data = HELLO + ANSWERS[name]
    for at in range(0, len(data), size):
        connection.data_received(data[at : at + size])
    answer = await stream.answer
    assert (answer.status, answer.content) == (201, b"body")
    assert connection.room
    await asyncio.sleep(0)
    assert wire.sent.startswith(PREFACE)
    assert frame(Kind.SETTINGS, Flag.ACK, 0, b"") in wire.sent
    assert (frame(Kind.PING, Flag.ACK, 0, b"12345678") in wire.sent) == (name == "other frames between")


@pytest.mark.parametrize(
    "sent",
    [
        (16_385).to_bytes(3, "big") + bytes(6),
        frame(Kind.HEADERS, 0, 1, BLOCK) + frame(Kind.DATA, 0, 1, b""),
        frame(Kind.CONTINUATION, 4, 1, BLOCK),
        frame(Kind.HEADERS, Flag.END_HEADERS, 2, BLOCK),
        frame(Kind.HEADERS, Flag.END_HEADERS, 3, BLOCK),
        frame(Kind.HEADERS, Flag.END_HEADERS, 1, b"\x00\x01x\x01y"),
        frame(Kind.HEADERS, Flag.END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff\xff"),
        frame(Kind.HEADERS, Flag.END_HEADERS | Flag.PADDED, 1, b"\x09" + BLOCK[:4]),
        frame(Kind.DATA, Flag.PADDED, 1, b"\x01"),
        frame(Kind.PUSH_PROMISE, 4, 1, bytes(9)),
        settings({Setting.INITIAL_WINDOW_SIZE: 2**31}),
        frame(Kind.HEADERS, 0, 1, BLOCK) + frame(Kind.CONTINUATION, 0, 1, bytes(16_000)) * 5,
    ],
)
async def test_a_server_that_breaks_the_rules_leaves_the_result_open(sent: bytes) -> None:
    connection, wire = opened()
    stream = connection.begin(POST, 1e9)
    connection.data_received(HELLO + sent)
    with pytest.raises(Unreachable, match="cannot be understood") as caught:
        await stream.answer
    assert caught.value.unknown
    assert wire.closed
    assert not connection.room


@hypothesis_settings(deadline=None)
@given(st.binary(max_size=400))
async def test_no_bytes_make_it_fail_otherwise(junk: bytes) -> None:
    connection, _ = opened()
    stream = connection.begin(POST, 1e9)
    connection.data_received(HELLO + junk)
    connection.connection_lost(None)
    if stream.answer.done() and stream.answer.exception() is None:
        assert stream.answer.result().status >= 200
    else:
        assert isinstance(stream.answer.exception(), Unreachable)
