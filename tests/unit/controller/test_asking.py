"""A server that plays Jupyter is asked over HTTP; what is not Jupyter, and what is no pod's address, says why."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from t9ksched.controller.activity import Asked, Watcher
from t9ksched.controller.asking import HttpAsker
from t9ksched.controller.picture import Key
from t9ksched.workloads.answers import Activity, Question

WHEN = "2026-03-01T10:00:00Z"
PREFIX = "/notebook/lab/book/"


@asynccontextmanager
async def server(pages: dict[str, Any], headers: dict[str, str] | None = None) -> AsyncIterator[tuple[int, list[str]]]:
    """A server with these pages; an int is a status, `None` never answers. Yields its port and what it was asked."""
    more = headers or {}
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        page = pages.get(request.path, 404)
        if page is None:
            await asyncio.sleep(3600)
        if isinstance(page, int):
            return web.Response(status=page, headers={"Location": "/login"})
        body = (page if isinstance(page, str) else json.dumps(page)).encode()
        return web.Response(body=gzip.compress(body) if "Content-Encoding" in more else body, headers=more)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


def jupyter(prefix: str = PREFIX, **more: Any) -> dict[str, Any]:
    kernels = [{"execution_state": "idle", "last_activity": WHEN}]
    return {f"{prefix}api/status": {"last_activity": WHEN}, f"{prefix}api/kernels": kernels} | more


async def asks(pages: dict[str, Any]) -> tuple[Activity, list[str]]:
    async with server(pages) as (port, asked):
        ask = HttpAsker(local=True, seconds=0.5)
        return await ask(Question("127.0.0.1", port, PREFIX)), asked


async def test_jupyter_is_asked_below_its_prefix_and_takes_no_question_for_a_use() -> None:
    found, asked = await asks(jupyter())
    assert (found.last is not None, found.busy, found.reason) == (True, "", "")
    assert asked == [f"{PREFIX}api/{name}?no_track_activity=1" for name in ("status", "kernels", "terminals")]


async def test_jupyter_that_was_not_told_of_its_prefix_is_at_the_root() -> None:
    assert (await asks(jupyter("/")))[0].last is not None


@pytest.mark.parametrize(
    ("pages", "reason", "says"),
    [
        ({}, "NotJupyter", "does not speak as Jupyter"),
        (jupyter() | {f"{PREFIX}api/status": 403}, "LoginRequired", "403"),
        (jupyter() | {f"{PREFIX}api/status": 302}, "LoginRequired", "302"),
        (jupyter() | {f"{PREFIX}api/kernels": 500}, "NotReachable", "500"),
        (jupyter() | {f"{PREFIX}api/status": "<html>"}, "NotJupyter", "does not speak"),
        (jupyter() | {f"{PREFIX}api/kernels": "[" * 100_000}, "NotJupyter", "does not speak"),
        (jupyter() | {f"{PREFIX}api/status": "x" * 2_000_000}, "NotReachable", "too long"),
        (jupyter() | {f"{PREFIX}api/status": None}, "NotReachable", "did not answer"),
    ],
)
async def test_what_cannot_be_read_says_why(pages: dict[str, Any], reason: str, says: str) -> None:
    found, _ = await asks(pages)
    assert (found.last, found.reason, says in found.message) == (None, reason, True)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "x"]
)
async def test_addresses_that_are_no_pods_are_not_asked(host: str) -> None:
    found = await HttpAsker()(Question(host, 80, "/"))
    assert (found.reason, "is no address of a pod" in found.message) == ("NotReachable", True)


async def test_nobody_at_the_port() -> None:
    async with server({}) as (port, _):
        pass
    found = await HttpAsker(local=True)(Question("127.0.0.1", port, "/"))
    assert (found.reason, "cannot be reached: Connection refused" in found.message) == ("NotReachable", True)


async def test_what_is_idle_is_asked_more_often_and_what_is_gone_is_forgotten() -> None:
    now, told = [0.0], []
    used = Asked(Key("Notebook", "lab", "used"), "1", Question("10.0.0.1", 80, "/"), idle=False)
    idle = Asked(Key("Notebook", "lab", "idle"), "2", Question("10.0.0.2", 80, "/"), idle=True)
    there = [used, idle]

    async def ask(question: Question) -> Activity:
        return Activity(busy=question.host)

    watcher = Watcher(ask, lambda: there, lambda key: told.append(key.name), interval=300, clock=lambda: now[0])
    for second in (0, 60, 120, 300):
        now[0] = second
        await watcher.round()
        told.append(str(second))
    assert told == ["used", "idle", "0", "idle", "60", "idle", "120", "used", "idle", "300"]
    assert (known := watcher.of("1")) is not None
    assert known.busy == "10.0.0.1"
    there.pop()
    await watcher.round()
    assert watcher.of("2") is None
    there[0] = used._replace(question=Question("10.0.0.9", 80, "/"))
    await watcher.round()
    assert (known := watcher.of("1")) is not None
    assert known.busy == "10.0.0.9", "another pod is asked at once"


async def test_what_becomes_idle_is_asked_soon_and_an_answer_is_as_old_as_its_question() -> None:
    now, there = [0.0], [Asked(Key("Notebook", "lab", "book"), "1", Question("10.0.0.1", 80, "/"), idle=False)]
    asked: list[float] = []
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def wall() -> datetime:
        return start + timedelta(seconds=now[0])

    async def ask(question: Question) -> Activity:
        asked.append(now[0])
        if now[0] == 100:
            raise RuntimeError("a fault of ours")
        return Activity(start)

    watcher = Watcher(ask, lambda: there, lambda key: None, interval=3600, clock=lambda: now[0], wall=wall)
    for now[0], idle in ((0, False), (60, False), (100, True), (200, True)):
        there[0] = there[0]._replace(idle=idle)
        await watcher.round()
        known = watcher.of("1")
        assert known is not None
        assert known.at == start + timedelta(seconds=asked[-1])
        assert known.known != (now[0] == 100), "one that cannot be asked does not stop the others"
    assert asked == [0, 100, 200]


async def test_a_server_whose_clock_shows_another_time_is_not_believed() -> None:
    async with server(jupyter()) as (port, _):
        for hours, reason in ((0, ""), (2, "ClockDiffers"), (-2, "ClockDiffers")):
            ask = HttpAsker(local=True, clock=lambda hours=hours: datetime.now(UTC) + timedelta(hours=hours))
            found = await ask(Question("127.0.0.1", port, PREFIX))
            assert (found.reason, found.known) == (reason, not reason)
        assert "minutes ahead of" in found.message


@pytest.mark.parametrize("date", ["soon", "Sat, 28 Nov 99999999999 21:46:25 GMT", ""])
async def test_a_server_that_does_not_say_what_time_it_is_is_believed(date: str) -> None:
    async with server(jupyter(), {"Date": date}) as (port, _):
        found = await HttpAsker(local=True)(Question("127.0.0.1", port, PREFIX))
    assert found.known


async def test_what_is_compressed_is_not_unpacked() -> None:
    async with server(jupyter(), {"Content-Encoding": "gzip"}) as (port, asked):
        found = await HttpAsker(local=True)(Question("127.0.0.1", port, PREFIX))
    assert (found.reason, len(asked)) == ("NotJupyter", 3)
