"""What strangers send writes no line of a library into the log, however often they send it."""

import asyncio
import contextlib
import json

import pytest

from tests.unit.api.world import World
from tests.unit.cli.logged import logged

_ODD_REQUESTS = {
    "an upgrade": b"GET /version HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n",
    "another upgrade": b"GET /version HTTP/1.1\r\nHost: t\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\n\r\n",
    "no HTTP": b"\x00\x01\r\n\r\n",
    "no host": b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n",
    "no length": b"POST /version HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n",
    "no piece": b"POST /version HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a long head": b"GET /version HTTP/1.1\r\nHost: t\r\nConnection: close\r\nX-A: " + b"a" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("sent", _ODD_REQUESTS.values(), ids=_ODD_REQUESTS)
async def test_no_request_of_a_stranger_has_lines_without_bound(world: World, sent: bytes) -> None:
    """Through the server of REST: what its library says of requests is worth a line for debugging only."""
    with logged() as log:
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(world.nobody.url.rpartition(":")[2]))
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 90)
            writer.close()
    lines = [line for line in log.getvalue().splitlines() if not line.startswith("{")]
    ours = [json.loads(line) for line in log.getvalue().splitlines() if line.startswith("{")]
    assert lines == []
    assert {line["event"] for line in ours} <= {"request"}, "which are counted"
