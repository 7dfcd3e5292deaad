"""Serving the app: a listening socket first, so that a port in use is known before anything else starts."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence
from typing import Final, cast

import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from t9ksched.api.http.problems import Problem
from t9ksched.api.http.shedding import shedding
from t9ksched.api.services import Services
from t9ksched.serving import Acceptor, ConnectionLimits
from t9ksched.serving import PortInUse as PortInUse
from t9ksched.serving import listen as listen

log = structlog.get_logger("api")

SWITCH_SECONDS: Final = 0.0005
"""How long a parsing thread may delay the event loop each time: a tenth of Python's own 5 ms."""
_TICK_SECONDS: Final = 0.1
_PAUSE_SECONDS: Final = 0.001


class _CutOff:
    """Around the app: a request that is cancelled because the server stops is told so, and is no error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            if not begun:
                problem = Problem(
                    "Unavailable",
                    "the service stops before this was answered, and may have done a part of it",
                    remedy="look what is there, or repeat the request with the same Idempotency-Key",
                    headers={"Retry-After": "5", "Connection": "close"},
                )
                await problem.response()(scope, receive, send)


class _Uvicorn(uvicorn.Server):
    """Uvicorn behind our own acceptor."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, app: _CutOff) -> None:
        super().__init__(config)
        self._limits = limits
        self._app = app
        self._stopping = asyncio.Event()
        self.acceptor: Acceptor | None = None

    def leave(self) -> None:
        """Say in each answer that its connection ends with it, so that clients take their next request elsewhere."""
        told = (b"connection", b"close")
        # The library makes the default headers from the others anew each second.
        self.config.encoded_headers.append(told)
        self.server_state.default_headers.append(told)

    def stop(self) -> None:
        """End as soon as the requests are answered that are being answered."""
        self.should_exit = True
        self._stopping.set()

    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Begin to accept on the socket."""
        await self.lifespan.startup()
        make, config = self.config.http_protocol_class, self.config

        def protocol() -> asyncio.BaseProtocol:
            made = make(config=config, server_state=self.server_state, app_state=self.lifespan.state)  # type: ignore[call-arg]
            return cast(asyncio.BaseProtocol, made)

        (listener,) = sockets or ()
        self.acceptor = Acceptor(listener, protocol, self._limits, "REST")
        self.acceptor.open()
        self.servers = [cast(asyncio.base_events.Server, self.acceptor)]
        self.started = True

    async def main_loop(self) -> None:
        """Tick as the library does, until `stop`: the library would notice that at its next tick."""
        counter = 0
        while not await self.on_tick(counter):
            counter = (counter + 1) % 864_000
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End as the library does, but for its pause of a tenth of a second before it looks who is left."""
        for server in self.servers:
            server.close()
            await server.wait_closed()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        limit = self.config.timeout_graceful_shutdown
        try:
            await asyncio.wait_for(self._wait_tasks_to_complete(), limit)
        except TimeoutError:
            log.warning("requests are cut off that were not answered in time", requests=len(self.server_state.tasks))
            left = list(self.server_state.tasks)
            self._app.stopping = True
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=limit)

    async def _wait_tasks_to_complete(self) -> None:
        pause = 0.0
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(pause)
            pause = min(pause + _PAUSE_SECONDS, _TICK_SECONDS)


class Server:
    """The app behind a socket. `url` is known from the start; use as an async context manager."""

    def __init__(self, app: FastAPI, listener: socket.socket, limits: ConnectionLimits | None = None) -> None:
        self._app = app
        self._listener = listener
        host, port = listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        outermost = _CutOff(app)
        config = uvicorn.Config(
            outermost,
            http=shedding(app) if isinstance(app, FastAPI) else H11Protocol,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        self._server = _Uvicorn(config, limits or ConnectionLimits(), outermost)
        self._task: asyncio.Task[None] | None = None

    @property
    def acceptor(self) -> Acceptor | None:
        """What accepts connections, once it does."""
        return self._server.acceptor

    async def __aenter__(self) -> "Server":
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        # `_serve` leaves signals to the owner of the process.
        self._task = asyncio.create_task(self._server._serve(sockets=[self._listener]), name="api-server")
        # The socket listens already, so a client that connects now is served as soon as the task runs.
        return self

    async def leave(self, seconds: float) -> None:
        """Serve for so long what is still sent here, before the end: whoever divides requests among replicas may take
        seconds to learn that this one stops. `/readyz` says so, and connections end with their next answer.
        """
        if not seconds:
            return
        if isinstance(self._app, FastAPI):
            services: Services = self._app.state.services
            services.leaving.set()
        self._server.leave()
        log.info("leaving", seconds=seconds)
        await asyncio.sleep(seconds)

    async def __aexit__(self, *_: object) -> None:
        # Streams have no end of their own: their clients are told first, and come again.
        if isinstance(self._app, FastAPI):
            services: Services = self._app.state.services
            await services.events.close()
            await services.log_streams.close()
            await services.exec_streams.close()
        self._server.stop()
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._listener.close()
