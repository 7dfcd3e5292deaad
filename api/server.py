"""Serving the app: a listening socket first, so that a port in use is known before anything else starts."""

import asyncio
import contextlib
import errno
import socket

import uvicorn
from fastapi import FastAPI


class PortInUse(OSError):
    """Nothing can listen there; the message says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0 takes a free one.

    Raises:
        PortInUse: the port is taken or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio switches Nagle's algorithm off: it would hold answers back for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} on {host} is in use by another program: choose another with --port") from None
        raise PortInUse(f"cannot listen on {host}:{port} ({error.strerror}): choose another with --port") from None
    listener.setblocking(False)
    return listener


class Server:
    """The app behind a socket. `url` is known from the start; use as an async context manager."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        self._listener = listener
        host, port = listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Server":
        # `_serve` leaves signals to whoever owns the process.
        self._task = asyncio.create_task(self._server._serve(sockets=[self._listener]), name="api-server")
        # The socket listens already, so whoever connects now is served as soon as the task runs.
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._listener.close()
