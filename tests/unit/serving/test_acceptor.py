"""Connections within limits, whatever library answers on them: uvicorn (REST) or aiohttp (all others)."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
import structlog
from aiohttp import web
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from t9ksched.api.http.middleware import Envelope
from t9ksched.api.http.server import Server
from t9ksched.serving import Acceptor, ConnectionLimits, listen
from t9ksched.serving.aiohttp_site import AcceptingSite, accounted
from t9ksched.serving.connection import Connection, Pool

LIMITS = ConnectionLimits(connections=6, per_address=6, reserve=2)
HALF = b"GET /half HTTP/1.1\r\nHost: t\r\nX-A: "


@dataclass
class Stage:
    """A server that answers `/healthz` and `/x` at once, `/hold` when `go` is set, and streams on at `/stream`.

    Its timeouts count in the time of the test, which stands still: however slow the machine is, nothing is overdue
    before `sweep` lets the time pass.
    """

    port: int
    go: asyncio.Event
    acceptor: Acceptor
    asked: list[str]
    lines: list["Line"] = field(default_factory=list)
    now: float = 0.0
    real_clock: Callable[[], float] = field(init=False)

    def __post_init__(self) -> None:
        self.real_clock, self.acceptor.clock = self.acceptor.clock, lambda: self.now

    def sweep(self, after: float) -> None:
        """Let seconds pass and end what is overdue."""
        self.now += after
        self.acceptor.sweep(self.now)

    async def connect(self, *first: bytes) -> "Line":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        line = Line(reader, writer)
        self.lines.append(line)
        for piece in first:
            line.send(piece)
        return line

    async def get(self, path: str) -> int:
        line = await self.connect()
        try:
            return await line.get(path)
        finally:
            line.close()

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(90):
            while not met():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def hang_up(self) -> None:
        for line in self.lines:
            line.close()


@dataclass
class Line:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def status(self) -> int:
        """The status of the next answer, read to its end; 0 if the connection ends without one."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await self.reader.readexactly(int(size or b"0"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        return int(head.split()[1])

    async def get(self, path: str) -> int:
        self.send(f"GET {path} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
        return await self.status()

    async def ended(self) -> bool:
        """Whether the server closes it."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        return True

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def aiohttp_stage(limits: ConnectionLimits) -> AsyncIterator[Stage]:
    go, asked = asyncio.Event(), list[str]()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/stream":
            response = web.StreamResponse()
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                while True:
                    await response.write(b"x" * 100_000)
        if request.path == "/hold":
            await go.wait()
        return web.Response(text="ok")

    app = web.Application(middlewares=[accounted])
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    site = AcceptingSite(runner, listener, limits, "test")
    await site.start()
    assert site.acceptor is not None
    stage = Stage(port, go, site.acceptor, asked)
    try:
        yield stage
    finally:
        go.set()
        stage.hang_up()
        await runner.cleanup()


@asynccontextmanager
async def uvicorn_stage(limits: ConnectionLimits) -> AsyncIterator[Stage]:
    go, asked = asyncio.Event(), list[str]()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        if scope["path"] == "/stream":

            async def pieces() -> AsyncIterator[bytes]:
                while True:
                    yield b"x" * 100_000
                    await asyncio.sleep(0)

            await StreamingResponse(pieces())(scope, receive, send)
            return
        if scope["path"] == "/hold":
            await go.wait()
        await PlainTextResponse("ok")(scope, receive, send)

    app: ASGIApp = Envelope(answer)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = Server(app, listener, limits)  # type: ignore[arg-type]
    async with server:
        while server.acceptor is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        stage = Stage(port, go, server.acceptor, asked)
        try:
            yield stage
        finally:
            go.set()
            stage.hang_up()


@pytest.fixture(params=[aiohttp_stage, uvicorn_stage], ids=["aiohttp", "uvicorn"])
def stage_of(
    request: pytest.FixtureRequest,
) -> Callable[[ConnectionLimits], contextlib.AbstractAsyncContextManager[Stage]]:
    made: Callable[[ConnectionLimits], contextlib.AbstractAsyncContextManager[Stage]] = request.param
    return made


StageOf = Callable[[ConnectionLimits], contextlib.AbstractAsyncContextManager[Stage]]


async def test_half_sent_heads_give_way_to_whole_requests(stage_of: StageOf) -> None:
    async with stage_of(LIMITS) as stage:
        attackers = [await stage.connect(HALF) for _ in range(40)]
        for _ in range(5):
            assert await stage.get("/x") == 200
        await stage.until(lambda: stage.acceptor.counts["accepted"] == 45)
        assert stage.acceptor.connections <= LIMITS.connections
        assert await attackers[0].ended()


async def test_idle_connections_give_way_after_half_sent_ones(stage_of: StageOf) -> None:
    async with stage_of(LIMITS) as stage:
        kept = [await stage.connect() for _ in range(3)]
        assert [await line.get("/x") for line in kept] == [200, 200, 200]
        [await stage.connect(HALF) for _ in range(30)]
        await stage.until(lambda: stage.acceptor.counts["accepted"] == 33)
        assert [await line.get("/x") for line in kept] == [200, 200, 200]


async def test_what_is_being_answered_is_never_cut(stage_of: StageOf) -> None:
    """Beyond the limit a reserve may ask after health, and all else is told to come again."""
    async with stage_of(replace(LIMITS, per_address=100)) as stage:
        held = [await stage.connect(b"GET /hold HTTP/1.1\r\nHost: t\r\n\r\n") for _ in range(LIMITS.connections)]
        await stage.until(lambda: stage.asked.count("/hold") == LIMITS.connections)
        assert await stage.get("/healthz") == 200
        refused = await stage.connect()
        assert await refused.get("/x") == 503
        assert "/x" not in stage.asked
        stage.sweep(1e9)
        stage.go.set()
        assert [await line.status() for line in held] == [200] * LIMITS.connections
        assert await stage.get("/x") == 200


async def test_one_address_has_its_share(stage_of: StageOf) -> None:
    async with stage_of(replace(LIMITS, connections=100, per_address=3)) as stage:
        [await stage.connect(b"GET /hold HTTP/1.1\r\nHost: t\r\n\r\n") for _ in range(3)]
        await stage.until(lambda: stage.asked.count("/hold") == 3)
        refused = await stage.connect()
        assert await refused.status() == 429
        assert stage.acceptor.counts["refused"] == 1


async def test_heads_and_pauses_have_their_time(stage_of: StageOf) -> None:
    async with stage_of(LIMITS) as stage:
        half, silent, kept = await stage.connect(HALF), await stage.connect(), await stage.connect()
        assert await kept.get("/x") == 200
        await stage.until(lambda: stage.acceptor.connections == 3)
        stage.sweep(LIMITS.head_seconds - 1)
        assert stage.acceptor.connections == 3
        stage.sweep(1)
        assert await half.status() == 408
        assert await silent.status() == 408
        assert await kept.get("/x") == 200
        stage.sweep(LIMITS.idle_seconds - 1)
        assert await kept.get("/x") == 200
        stage.sweep(LIMITS.idle_seconds)
        assert await kept.ended()
        assert (stage.acceptor.counts["head"], stage.acceptor.counts["idle"]) == (2, 1)


async def test_streams_stay_while_they_are_read(stage_of: StageOf) -> None:
    """And end when the client takes nothing of what was written for it."""
    async with stage_of(LIMITS) as stage:
        stream = await stage.connect(b"GET /stream HTTP/1.1\r\nHost: t\r\n\r\n")
        for turn in range(10):
            await stream.reader.readexactly(2_000_000)
            stage.sweep(LIMITS.write_seconds / 3)
            await asyncio.sleep(0)
            assert stage.acceptor.connections == 1, turn
        stream.writer.transport.pause_reading()  # type: ignore[attr-defined]
        (line,) = stage.acceptor.open_connections
        assert line.transport is not None
        transport, sizes = line.transport, list[int]()

        def full() -> bool:
            sizes.append(transport.get_write_buffer_size())
            return len(sizes) > 50 and sizes[-1] > 0 and len(set(sizes[-50:])) == 1

        await stage.until(full)
        stage.sweep(1)
        stage.sweep(LIMITS.write_seconds)
        await stage.until(lambda: stage.acceptor.connections == 0)
        assert stage.acceptor.counts["unread"] == 1


class Full(asyncio.Transport):
    """The transport of a stream that is always as full as it may be."""

    def get_write_buffer_size(self) -> int:
        return 100_000


async def test_a_full_buffer_is_read_as_long_as_it_is_emptied_in_between() -> None:
    pool = Pool()
    connection = Connection(Left(), asyncio.Protocol(), (pool,), reserved=False, clock=lambda: 0.0)
    connection.connection_made(Full())
    connection.begin()
    times = {"head": 10.0, "idle": 75.0, "write": 30.0}
    for now in range(0, 200, 20):
        connection.pause_writing()
        connection.resume_writing()
        assert connection.overdue(now, **times) == ""
    assert connection.overdue(200, **times) == ""
    assert connection.overdue(210, **times) == "unread"


class Left:
    """The owner of a connection, which forgets it."""

    def left(self, connection: Connection) -> None: ...


async def test_the_last_descriptors_are_for_health(stage_of: StageOf) -> None:
    """Requests that are being answered go on, and the log has one line."""
    with structlog.testing.capture_logs() as logged:
        async with stage_of(replace(LIMITS, connections=1000, per_address=1000, reserve=2)) as stage:
            held = [await stage.connect(b"GET /hold HTTP/1.1\r\nHost: t\r\n\r\n") for _ in range(4)]
            await stage.until(lambda: stage.asked.count("/hold") == 4)
            stage.acceptor.ceiling = 0
            assert await stage.get("/healthz") == 200
            assert await stage.get("/x") == 503
            for _ in range(30):
                await stage.connect(HALF)
            assert await stage.get("/healthz") == 200
            assert stage.acceptor.connections <= len(held) + 2
            stage.acceptor.ceiling = 10_000
            stage.go.set()
            assert [await line.status() for line in held] == [200] * 4
            assert await stage.get("/x") == 200
    assert len([line for line in logged if line["event"] == "connections are short"]) == 1


async def test_a_burst_takes_hardly_more_than_the_ceiling(stage_of: StageOf) -> None:
    """A descriptor is free only in the turn of the event loop after its connection was ended: the program's own
    connections must not find all taken in between."""
    async with stage_of(replace(LIMITS, connections=1000, per_address=1000, reserve=0)) as stage:
        real, taken = stage.acceptor.listener, list[int]()

        class Counted:
            def accept(self) -> tuple[socket.socket, object]:
                accepted, peer = real.accept()
                taken.append(accepted.fileno())
                return accepted, peer

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

        stage.acceptor.listener = Counted()  # type: ignore[assignment]
        # Nothing is accepted before the loop runs again: all of them come at once.
        burst = [socket.create_connection(("127.0.0.1", stage.port)) for _ in range(90)]
        stage.acceptor.ceiling = burst[-1].fileno() + 10
        for line in burst:
            line.sendall(HALF)
        await stage.until(lambda: len(taken) >= len(burst))
        assert max(taken) <= stage.acceptor.ceiling + 4
        stage.acceptor.ceiling = 10_000
        assert await stage.get("/x") == 200
        for line in burst:
            line.close()
        stage.acceptor.listener = real


async def test_no_descriptor_at_all() -> None:
    async with aiohttp_stage(LIMITS) as stage:
        real, fails = stage.acceptor.listener, 3

        class Starved:
            def accept(self) -> object:
                nonlocal fails
                if fails:
                    fails -= 1
                    raise OSError(24, "Too many open files")
                return real.accept()

            def __getattr__(self, name: str) -> object:
                return getattr(real, name)

        stage.acceptor.listener = Starved()  # type: ignore[assignment]
        assert await stage.get("/x") == 200
        assert stage.acceptor.counts["paused"] == 3
        stage.acceptor.listener = real


async def test_time_in_which_the_process_stood_still_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async with aiohttp_stage(LIMITS) as stage:
        loop, skipped = asyncio.get_running_loop(), 0.0
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + skipped)
        stage.acceptor.clock = stage.real_clock
        await stage.connect(HALF)
        await stage.until(lambda: stage.acceptor.connections == 1)
        skipped = 1000.0
        await stage.until(lambda: stage.acceptor.stood_still > 900)
        assert stage.acceptor.connections == 1


async def test_addresses_of_one_network_are_one() -> None:
    from t9ksched.serving.acceptor import address_of

    assert address_of(("2001:db8::1", 1, 0, 0)) == address_of(("2001:db8::ffff:1", 2, 0, 0))
    assert address_of(("2001:db8::1", 1, 0, 0)) != address_of(("2001:db8:0:1::1", 1, 0, 0))
    assert address_of(("::ffff:10.0.0.1", 1, 0, 0)) == address_of(("10.0.0.1", 9))
    assert address_of(("fe80::1%eth0", 1, 0, 0)) == address_of(("fe80::2%eth0", 1, 0, 0))
