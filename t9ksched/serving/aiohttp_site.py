"""The acceptor for servers of aiohttp: a site of a runner, a middleware, and the body of a request within a time."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

from t9ksched.serving.acceptor import Acceptor
from t9ksched.serving.connection import answering
from t9ksched.serving.limits import EXEMPT_PATHS, ConnectionLimits

BODY_SECONDS = 30.0
"""How long the body of a request may take to arrive."""


class AcceptingSite(web.BaseSite):
    """Serves a runner from a listening socket through an `Acceptor`."""

    __slots__ = ("_limits", "_listener", "_name", "acceptor")

    def __init__(self, runner: web.BaseRunner, listener: socket.socket, limits: ConnectionLimits, name: str) -> None:
        super().__init__(runner)
        self._listener, self._limits, self._name = listener, limits, name
        self.acceptor: Acceptor | None = None

    @property
    def name(self) -> str:
        """The address, as aiohttp names sites."""
        host, port = self._listener.getsockname()[:2]
        return f"http://{host}:{port}"

    async def start(self) -> None:
        """Begin to accept."""
        await super().start()
        server = self._runner.server
        assert server is not None
        self.acceptor = Acceptor(self._listener, server, self._limits, self._name)
        self.acceptor.open()
        self._server = cast(asyncio.AbstractServer, self.acceptor)


def app_runner(app: web.Application) -> web.AppRunner:
    """What serves an application. Bodies stay as they were sent: a small compressed one may unpack to gigabytes, which
    aiohttp would do on the event loop, before anything is known of the sender.
    """
    return web.AppRunner(app, access_log=None, shutdown_timeout=1, auto_decompress=False)


def handler_runner(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], most_bytes: int
) -> web.ServerRunner:
    """What serves a plain handler, which is cancelled when its client goes; bodies stay as they were sent. A line and
    a header field of a request have at most so many bytes.
    """
    server = web.Server(
        handle,
        handler_cancellation=True,
        access_log=None,
        max_line_size=most_bytes,
        max_field_size=most_bytes,
        auto_decompress=False,
    )
    return web.ServerRunner(server, handle_signals=False, shutdown_timeout=1)


@web.middleware
async def accounted(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Tells the acceptor that a request is answered; connections of the reserve may ask after health only."""
    with answering() as connection:
        if connection is not None and connection.reserved and request.path not in EXEMPT_PATHS:
            response = web.Response(status=503, text="too many connections\n", headers={"Retry-After": "1"})
            response.force_close()
            return response
        return await handler(request)


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body.

    Raises:
        HTTPRequestTimeout: it did not arrive in time.
        HTTPRequestEntityTooLarge: it is larger than the server reads.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {BODY_SECONDS:g} seconds\n") from None
