"""A receiver of webhooks on loopback that keeps what it got, and answers as it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from t9ksched.model.outbound import parse_network

LOOPBACK = (parse_network("127.0.0.0/8"),)


class Receiver:
    """`answers` by path: a status, or a word: `hang`, `endless`, `headers`, `garbage`. What came is in `got`."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""
        self.hanging = 0

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [msgspec.json.decode(body) for where, _, body in self.got if where == path]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.got.append((request.path, {k.lower(): v for k, v in request.headers.items()}, await request.read()))
        answer = self.answers.get(request.path, 204)
        if answer == "hang":
            self.hanging += 1
            await asyncio.sleep(3600)
        if answer == "headers":
            return web.Response(headers={"X-Long": "x" * 100_000})
        if answer == "garbage":
            assert request.transport is not None
            request.transport.write(b"\x00\xffs3cret\r\n\r\n")
            request.transport.close()
            return web.Response()
        if answer == "endless":
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x" * 65536)
        if 300 <= int(answer) < 400:
            return web.Response(status=int(answer), headers={"Location": f"{self.url}/elsewhere"})
        return web.Response(status=int(answer), text="s3cret of the receiver")


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver for the length of a block."""
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()
