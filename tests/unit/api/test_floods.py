"""More requests than can be answered: the excess is refused at once, and one caller's excess is its own."""

import asyncio
from dataclasses import replace
from unittest.mock import Mock

import pytest
import structlog
from starlette.types import Message, Receive, Scope, Send

from t9ksched.api.http import middleware
from t9ksched.api.http.overload import Overload
from t9ksched.api.http.requestlines import RequestLines
from t9ksched.serving.overload import MOST_SENDING, Ticket
from t9ksched.serving.shared import Shared
from t9ksched.store import Store
from tests.unit.api.world import Answer, World

LIST, OTHER = "/apis/v1/nodes", "/apis/v1/queues"


class Held:
    """Lists of nodes that are answered when `go` is set, and counted when they come."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.begun = asyncio.Event(), 0
        real = world.leader.nodes

        async def nodes() -> object:
            self.begun += 1
            await self.go.wait()
            return await real()

        monkeypatch.setattr(world.leader, "nodes", nodes)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(90):
            while self.begun < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def send_head(world: World, token: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a POST announces nine bytes."""
    host, _, port = world.user.url.removeprefix("http://").rpartition(":")
    line = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {token}\r\n"
    line[1].write(f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n".encode())
    return line


def pauses(world: World, monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[bool]":
    """Whether each request whose body is awaited may wait for it, in turn."""
    limiter, told = world.app.state.services.limiter, asyncio.Queue[bool]()
    real = limiter.pause

    def pause(ticket: Ticket, now: float) -> bool:
        told.put_nowait(may_wait := bool(real(ticket, now)))
        return may_wait

    monkeypatch.setattr(limiter, "pause", pause)
    return told


@pytest.fixture
def held(world: World, monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setattr("t9ksched.serving.overload.WAIT_SECONDS", 30.0)
    world.app.state.services = replace(world.app.state.services, max_requests_at_once=4)
    return Held(world, monkeypatch)


async def test_a_flood_of_one_user_is_refused_and_others_are_served(world: World, held: Held) -> None:
    await world.user("GET", OTHER)  # from now on the token is known
    flood = [asyncio.create_task(world.user("GET", LIST)) for _ in range(20)]
    await held.until(3)
    refused: list[Answer] = []
    for done in asyncio.as_completed(flood):
        refused.append(await done)
        if len(refused) == 20 - 3 - 4:
            break
    assert {(answer.status, answer.body["code"], answer.headers["Retry-After"]) for answer in refused} == {
        (429, "RateLimited", "1")
    }
    assert (await world.nobody("GET", "/healthz")).status == 200
    assert (await world.nobody("GET", "/openapi.json")).status == 200
    page = (await world.admin("GET", "/metrics")).body.decode()
    assert f't9ksched_api_requests_refused_total{{reason="share"}} {len(refused)}' in page
    held.go.set()
    answers = await asyncio.gather(*flood)
    assert [answer.status for answer in answers].count(200) == 7


async def test_who_waits_too_long_is_refused(world: World, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t9ksched.serving.overload.WAIT_SECONDS", 0.0)
    monkeypatch.setattr("t9ksched.serving.overload.STALL_SECONDS", 0.0)
    await world.admin("GET", OTHER)  # from now on the token is known
    running = [asyncio.create_task(world.admin("GET", LIST)) for _ in range(3)]
    await held.until(3)
    late = await world.admin("GET", LIST)
    assert (late.status, late.body["code"], late.headers["Retry-After"]) == (503, "Unavailable", "1")
    held.go.set()
    assert [answer.status for answer in await asyncio.gather(*running)] == [200] * 3


async def test_two_slow_senders_delay_no_other_caller(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two users send the heads of more requests than may run; others are answered, and the excess is told."""
    monkeypatch.setattr("t9ksched.api.http.overload._PROMPT_SECONDS", 0.01)
    world.app.state.services = replace(world.app.state.services, max_requests_at_once=4)
    await world.user("GET", OTHER)
    lines, paused = [], pauses(world, monkeypatch)
    for token in world.tokens * (MOST_SENDING + 1):
        lines.append(await send_head(world, token, "/apis/v1/access-reviews"))
        await asyncio.wait_for(paused.get(), 90)
    excess = [await line[0].readuntil(b"\r\n\r\n") for line in lines[-2:]]
    assert [answer.split()[1] for answer in excess] == [b"429"] * 2
    assert (await world.nobody("GET", "/openapi.json")).status == 200
    assert (await world.user("GET", OTHER)).status == 200
    lines[0][1].write(b'{"a": 1 }')
    assert (await lines[0][0].readuntil(b"\r\n\r\n")).split()[1] != b"429"
    for _, writer in lines:
        writer.close()


async def test_a_refused_slow_sender_delays_no_other_caller(world: World) -> None:
    """The unread rest of a body is awaited without a place."""
    world.app.state.services = replace(world.app.state.services, max_requests_at_once=4)
    await world.user("GET", OTHER)
    lines = [await send_head(world, token, OTHER) for token in ("", "", "", world.tokens[1], world.tokens[1])]
    await asyncio.sleep(0.1)
    assert (await world.user("GET", OTHER)).status == 200
    assert (await world.admin("GET", OTHER)).status == 200
    for _, writer in lines:
        writer.close()


async def test_who_does_not_read_an_answer_takes_no_place_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file, which is sent in parts, a client may leave one unread."""
    monkeypatch.setattr("t9ksched.api.http.overload._PROMPT_SECONDS", 0.0)
    services = world.app.state.services = replace(world.app.state.services, max_requests_at_once=4)
    reading, begun = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert services.limiter.running == 1
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await send({"type": "http.response.body", "body": b"rest"})

    async def send(message: Message) -> None:
        if message.get("body") == b"half":
            begun.set()
            await reading.wait()

    scope = {"type": "http", "method": "GET", "path": LIST, "headers": [], "app": world.app, "client": ("1.2.3.4", 1)}
    request = asyncio.create_task(Overload(app)(scope, Mock(), send))
    await asyncio.wait_for(begun.wait(), 90)
    async with asyncio.timeout(90):
        while services.limiter.running:  # noqa: ASYNC110
            await asyncio.sleep(0)
    reading.set()
    await request
    assert services.limiter.running == 0


class Sending:
    """The body of a request that was sent and not read: a part now, the rest never or at once."""

    def __init__(self, *, whole: bool) -> None:
        self.asked = asyncio.Event()
        self._whole = whole

    async def receive(self) -> Message:
        self.asked.set()
        if not self._whole:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"x", "more_body": False}

    @property
    def body(self) -> middleware._Body:
        return middleware._Body({"headers": [(b"content-length", b"9")]}, self.receive)


async def test_one_address_keeps_no_other_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of a body is read for others while one address sends nothing of many."""
    monkeypatch.setattr(middleware, "_STALLED_SECONDS", 60.0, raising=False)
    bin_, slow = middleware._Bin(), [Sending(whole=False) for _ in range(6)]
    waiting = [asyncio.create_task(bin_.take(one.body, "1.2.3.4")) for one in slow]
    await asyncio.gather(*(one.asked.wait() for one in slow[: middleware.MOST_AN_ADDRESS]))
    assert await bin_.take(Sending(whole=True).body, "5.6.7.8")
    assert [task.done() for task in waiting] == [False] * 2 + [True] * 4
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await bin_.take(Sending(whole=True).body, "1.2.3.4")


async def test_a_body_of_which_nothing_comes_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "_STALLED_SECONDS", 0.0)
    monkeypatch.setattr(middleware, "_LONGEST_SECONDS", 3600.0)
    assert not await asyncio.wait_for(middleware._Bin().take(Sending(whole=False).body, "1.2.3.4"), 90)


async def test_simultaneous_requests_share_one_readiness_check(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    go, looks = asyncio.Event(), 0
    real = world.kube.get

    async def get(*about: object, **more: object) -> object:
        nonlocal looks
        looks += 1
        await go.wait()
        return await real(*about, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(world.kube, "get", get)
    came = 0
    shared = Shared.__call__

    async def counted(self: Shared[object]) -> object:
        nonlocal came
        came += 1
        return await shared(self)

    monkeypatch.setattr(Shared, "__call__", counted)
    asking = [asyncio.create_task(world.nobody("GET", "/readyz")) for _ in range(20)]
    async with asyncio.timeout(90):
        while looks < 1 or came < 20:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    go.set()
    assert {answer.status for answer in await asyncio.gather(*asking)} == {200}
    assert looks == 1
    assert (await world.nobody("GET", "/readyz")).status == 200
    assert looks == 2


async def test_invented_tokens_have_one_share(world: World, held: Held) -> None:
    """They count by the address that they come from."""
    limiter = world.app.state.services.limiter
    real, callers = limiter.arrive, set[str]()

    def arrive(caller: str, *rest: object) -> object:
        callers.add(caller)
        return real(caller, *rest)

    limiter.arrive = arrive
    for number in range(5):
        await world.nobody("GET", OTHER, Authorization=f"Bearer guess-{number}")
    await world.user("GET", OTHER)
    await world.user("GET", OTHER)
    assert callers == {"address 127.0.0.1", "user ann"}


async def test_a_flood_writes_one_line(world: World, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestLines, "has_line", lambda *_: True)  # other tests may have used up those of the minute
    await world.admin("GET", OTHER)
    with structlog.testing.capture_logs() as logged:
        flood = [asyncio.create_task(world.admin("GET", LIST)) for _ in range(30)]
        await held.until(3)
        for finished in range(30 - 7):
            async with asyncio.timeout(90):
                while sum(task.done() for task in flood) <= finished:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        held.go.set()
        await asyncio.gather(*flood)
    assert len([line for line in logged if line["event"] == "requests are refused"]) == 1
    requests = [line for line in logged if line["event"] == "request" and line["log_level"] == "info"]
    assert len(requests) == 7


async def test_the_owner_of_a_token_is_a_hint_only(world: World) -> None:
    store: Store = world.store
    assert store.read_cache.owner("unknown") is None
