"""A server that stops answers what it can, and cuts off the rest without calling that an error."""

import asyncio
import logging
from typing import Any

import aiohttp
import pytest

from t9ksched.api.http.server import Server, listen
from tests.unit.api.world import World


async def test_a_replica_that_leaves_serves_what_still_comes(world: World) -> None:
    """On old connections and on new ones; it says that it is not ready, and that its connections end."""
    with listen("127.0.0.1", 0) as listener:
        async with aiohttp.ClientSession() as client, asyncio.timeout(30):
            server = Server(world.app, listener)

            async def asked(path: str) -> tuple[int, str | None]:
                async with client.get(f"{server.url}{path}") as answer:
                    await answer.read()
                    return answer.status, answer.headers.get("Connection")

            async with server:
                assert await asked("/readyz") == (200, None)
                leaving = asyncio.create_task(server.leave(0.3))
                await asyncio.sleep(0)
                for path, status in (("/readyz", 503), ("/healthz", 200), ("/readyz", 503)):
                    assert await asked(path) == (status, "close")
                assert not leaving.done()
                await leaving
            with pytest.raises(aiohttp.ClientConnectorError):
                await asked("/healthz")


async def test_a_request_that_is_cut_off_is_told_and_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    began = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        await asyncio.sleep(3600)

    served: Any = app

    with listen("127.0.0.1", 0) as listener, caplog.at_level(logging.WARNING):
        async with aiohttp.ClientSession() as client, asyncio.timeout(30):
            async with Server(served, listener) as server:
                server._server.config.timeout_graceful_shutdown = 0.05  # type: ignore[assignment]
                asked = asyncio.create_task(client.get(f"{server.url}/"))
                await began.wait()
            answer = await asked
            assert (answer.status, (await answer.json())["code"]) == (503, "Unavailable")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
