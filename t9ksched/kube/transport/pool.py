"""Connections for small requests, at a fraction of a general client's CPU.

Over TLS the server is offered HTTP/2, which Kubernetes API servers speak: all requests then share a connection. Else,
and where the server declines, each request under way has a connection of its own (HTTP/1.1), which is kept for the
next. Nothing is ever sent again: what came of a request whose answer did not come is for the caller to find out. Every
exchange ends in an `Answer`, or in Unreachable (`sent` says whether the server may have seen the request) or TimedOut.
Watches, lists and proxies are not for this pool.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from typing import Final, Protocol, cast

from yarl import URL

from t9ksched.kube.errors import Unreachable
from t9ksched.kube.transport.http1 import Http1Connection, Writer
from t9ksched.kube.transport.http2 import Http2Connection
from t9ksched.kube.transport.message import Answer, Origin, Request

CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 50.0
"""Connections idle for longer are not used again: servers and balancers between close silent ones about then."""


class _UnderWay(Protocol):
    """A request whose answer is awaited; `deadline` is a time of the event loop's clock."""

    deadline: float

    def expire(self) -> None: ...


class TransportPool:
    """Connections to one server. `server` is its URL, `tls` the context for https, which says what versions of HTTP are
    offered, `server_name` the name that the certificate bears when that is not the URL's host, `headers` what every
    request bears.
    """

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        url = URL(server)
        assert url.host is not None
        self._host, self._port = url.host, url.port or 443
        self._tls = (tls or ssl.create_default_context()) if url.scheme == "https" else None
        self._server_name = (server_name or url.host) if self._tls else None
        name = f"[{url.host}]" if ":" in url.host else url.host
        self.authority = name if url.is_default_port() else f"{name}:{self._port}"
        self._origin = Origin(url.scheme, self.authority, headers)
        self._writer = Writer(self._origin)
        self._shares = self._tls is not None
        """Whether the server may speak HTTP/2, as far as is known."""
        self._shared: list[Http2Connection] = []
        self._opening: asyncio.Task[Http1Connection | Http2Connection] | None = None
        self._idle: list[Http1Connection] = []
        self._under_way: set[_UnderWay] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_look = math.inf
        """When it fires, by the event loop's clock: no later than at any deadline."""
        self._closed = False

    async def exchange(self, request: Request, timeout: float) -> Answer:
        """Send one request and return its answer; `timeout` is in seconds, for all of it.

        Raises Unreachable or TimedOut.
        """
        started = asyncio.get_running_loop().time()
        connection = (self._with_room(started) if self._shared else None) or self._kept(started)
        if connection is None:
            connection = await self._open(timeout)
            if not connection.open:
                raise Unreachable("the connection broke before the request was sent")
        connection.used = started
        deadline = started + timeout
        if deadline < self._next_look:
            self._look_at(deadline)
        # One coroutine for both versions: each more that awaits another costs with every request.
        if isinstance(connection, Http2Connection):
            stream = connection.begin(request, deadline)
            self._under_way.add(stream)
            try:
                return await stream.answer
            except asyncio.CancelledError:
                stream.abort()
                raise
            finally:
                self._under_way.discard(stream)
        try:
            awaited = connection.begin(self._writer.bytes_of(request), deadline)
            self._under_way.add(connection)
            answer = await awaited
        except BaseException:  # a cancelled request's answer would be taken for the next one's
            connection.abort()
            raise
        finally:
            self._under_way.discard(connection)
        if connection.reusable and not self._closed:
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    def close(self) -> None:
        """Close all connections; requests under way end as Unreachable."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        lent = (one for one in self._under_way if isinstance(one, Http1Connection))
        for connection in (*self._idle, *lent):
            connection.abort()
        for shared in self._shared:
            shared.abort()
        self._idle.clear()
        self._shared.clear()

    def retire(self) -> None:
        """Close connections: idle ones now, the others after their answers."""
        self._closed = True
        for connection in self._idle:
            connection.abort()
        for shared in self._shared:
            shared.retire()
        self._idle.clear()
        self._shared.clear()

    def _with_room(self, now: float) -> Http2Connection | None:
        """A shared connection that takes another request."""
        for connection in self._shared:
            if connection.idle and now - connection.used > _IDLE_SECONDS:
                connection.retire()
            elif connection.room:
                return connection
        self._shared = [connection for connection in self._shared if connection.open]
        return None

    async def _open(self, timeout: float) -> Http1Connection | Http2Connection:
        """A new connection: one for all waiting requests where the server speaks HTTP/2, else one for each request."""
        if not self._shares:
            connection = await self._connect(timeout)
            if isinstance(connection, Http2Connection):
                self._shared.append(connection)
                self._shares = True
            return connection
        try:
            async with asyncio.timeout(timeout):
                while self._shares:
                    if self._opening is None:
                        self._opening = asyncio.create_task(self._connect(timeout))
                        self._opening.add_done_callback(self._opened)
                    await asyncio.shield(self._opening)
                    if (found := self._with_room(asyncio.get_running_loop().time())) is not None:
                        return found  # else other waiting requests took all of its room
                    # An opening that is done is noted by its callback, which comes only when this loop pauses.
                    await asyncio.sleep(0)
        except TimeoutError as failure:
            raise Unreachable(f"cannot connect to {self.authority} in time") from failure
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if self._closed and asking is not None and not asking.cancelling():  # it waits on; the opening ended
                raise Unreachable(f"the connections to {self.authority} are closed") from None
            raise
        return self._kept(asyncio.get_running_loop().time()) or await self._connect(timeout)

    def _opened(self, opening: asyncio.Task[Http1Connection | Http2Connection]) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        connection = opening.result()
        connection.used = asyncio.get_running_loop().time()
        if self._closed:
            connection.abort()
        elif isinstance(connection, Http2Connection):
            self._shared.append(connection)
        else:
            self._shares = False
            self._idle.append(connection)

    def _kept(self, now: float) -> Http1Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.open and now - connection.used < _IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self, timeout: float) -> Http1Connection | Http2Connection:
        where = self.authority
        if self._closed:
            raise Unreachable(f"the connections to {where} are closed")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(min(timeout, CONNECT_SECONDS)):
                _, chosen = await loop.create_connection(
                    lambda: _Choice(self._origin),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
                if isinstance(chosen.connection, Http2Connection):
                    await chosen.connection.told
        except TimeoutError as failure:
            raise Unreachable(f"cannot connect to {where} in time") from failure
        except Unreachable as failure:
            raise Unreachable(f"cannot connect to {where}: {failure.message}") from failure
        except (OSError, ValueError) as failure:  # ssl.SSLError is an OSError; a bad certificate's name a ValueError
            raise Unreachable(f"cannot connect to {where}: {failure or type(failure).__name__}") from failure
        return chosen.connection

    def _look_at(self, when: float) -> None:
        """One timer for all requests: it fires at the earliest deadline."""
        if self._timer is not None:
            self._timer.cancel()
        self._next_look = when
        self._timer = asyncio.get_running_loop().call_at(when, self._expire)

    def _expire(self) -> None:
        self._timer, self._next_look = None, math.inf
        now = asyncio.get_running_loop().time()
        for request in self._under_way:
            if request.deadline <= now:
                request.expire()
        left = [request.deadline for request in self._under_way if request.deadline > now]
        if left:
            self._look_at(min(left))


class _Choice(asyncio.Protocol):
    """What a new connection begins with: the version of HTTP that the server agreed to takes over at once."""

    connection: Http1Connection | Http2Connection

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        transport = cast("asyncio.Transport", transport)
        if (raw := transport.get_extra_info("socket")) is not None:
            probe(raw)
        tls = transport.get_extra_info("ssl_object")
        shares = tls is not None and tls.selected_alpn_protocol() == "h2"
        self.connection = Http2Connection(self._origin) if shares else Http1Connection()
        transport.set_protocol(self.connection)
        self.connection.connection_made(transport)


def probe(opened: socket.socket) -> None:
    """Have the peer probed when it is silent, so that a half-open connection is noticed within half a minute."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
