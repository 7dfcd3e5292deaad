"""A server that stops answers what it can, and cuts off the rest without calling that an error."""

import asyncio
import logging
from typing import Any

import aiohttp
import pytest

from t9ksched.api.http.server import Server, listen


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
