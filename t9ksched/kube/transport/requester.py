"""One request to one API server as one user: which connections carry it, with which credentials, how it may end.

Requests about single objects are carried by the transport pool; lists, watches and whatever goes through a proxy by an
aiohttp session. Each request ends in its result or in one `ApiError`; exceptions of aiohttp never leave this module. It
repeats a request only after a 401, once, with fresh credentials. Requests in flight are limited; waiting for a place
does not count against a request's timeout, and watches need no place.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from t9ksched import version
from t9ksched.kube.errors import TimedOut, Unreachable
from t9ksched.kube.port import UNANSWERED, WatchEvent
from t9ksched.kube.transport import answers
from t9ksched.kube.transport.credentials import Credentials
from t9ksched.kube.transport.lines import LineSplitter
from t9ksched.kube.transport.message import Request
from t9ksched.kube.transport.places import Places
from t9ksched.kube.transport.pool import CONNECT_SECONDS, TransportPool, probe

_WATCH_SLACK = 30.0
"""Seconds past a watch's own timeout before its connection is taken for dead."""
_WATCH_SILENCE = 100.0
"""More than a minute, for servers send a bookmark each minute when nothing else happens."""
_HEADERS = {
    "User-Agent": f"t9ksched/{version()}",
    "Accept": "application/json",
    # Uncompressed: inflating the lists of a large cluster costs more of our one core than the wire saves.
    "Accept-Encoding": "identity",
}


class BodyStream:
    """An answer's body as it comes, part by part. `aclose` ends it early, and does nothing once it has ended."""

    def __init__(self, what: str, response: aiohttp.ClientResponse) -> None:
        self._what = what
        self._response = response

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            answers.raise_unanswered(self._what, failure)
        finally:
            self._response.close()

    async def aclose(self) -> None:
        """Close the connection."""
        self._response.close()


class Requester:
    """Sends requests. `connections` is the most in flight, `timeout` the seconds that one may take, `write_timeout` the
    same for writes.
    """

    def __init__(self, credentials: Credentials, connections: int, timeout: float, write_timeout: float) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._write_timeout = write_timeout
        self._write_limit: Callable[[], float] | None = None
        self.watch_silence = _WATCH_SILENCE
        """Seconds without a byte after which a watch's connection is taken for dead."""
        self.answers: Counter[tuple[str, str]] = Counter()
        """See `kube.port.answers_of`."""
        self._places = Places(connections)
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._generation = 0
        self._base = ""
        self._prefix = ""
        self._extra: dict[str, Any] = {}
        self._pool: TransportPool | None = None

    async def open(self) -> None:
        """Read the credentials and make ready; no request is sent. Raises what reading them raises (ConfigError)."""
        if self._session is not None:
            return
        await self._credentials.open()
        access = self._credentials.access
        self._base = access.host
        self._extra = {
            key: value for key, value in (("server_hostname", access.server_name), ("proxy", access.proxy)) if value
        }
        self._connect()

    def _connect(self) -> None:
        """New connections use the current credentials; older connections only finish the requests under way."""
        if self._session is not None:
            self._retired.append(self._session)
        self._session = self._new_session()
        if self._pool is not None:
            self._pool.retire()
        access = self._credentials.access
        if access.proxy is None:
            self._pool = TransportPool(
                access.host, self._credentials.sharing_tls, access.server_name, tuple(_HEADERS.items())
            )
            self._prefix = URL(access.host).raw_path.rstrip("/")

    def _new_session(self) -> aiohttp.ClientSession:
        self._generation = self._credentials.generation
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=self._credentials.tls or True, socket_factory=_watched_socket, keepalive_timeout=60
            ),
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections; watches that are open end with Unreachable."""
        session, self._session = self._session, None
        retired, self._retired = self._retired, []
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        for each in (session, *retired):
            if each is not None:
                await each.close()

    @property
    def server(self) -> str:
        """The server's URL, known once open."""
        return self._base

    @property
    def expiries(self) -> Mapping[str, int]:
        """See `kube.port.expiries_of`."""
        return self._credentials.expiries

    def limit_writes(self, seconds: Callable[[], float]) -> None:
        """Ask `seconds()` from now on, as each write begins, how long it may take."""
        self._write_limit = seconds

    def _write_seconds(self) -> float:
        return self._write_timeout if self._write_limit is None else self._write_limit()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        """Send one request and return the answer's body; `path` starts with `/`. Raises ApiError."""
        allowed = timeout or (self._timeout if method == "GET" else self._write_seconds())
        target = f"{path}?{urlencode(query)}" if query else path
        plain = target.isascii() and target.isprintable() and " " not in target
        if self._pool is None or not plain:
            return await self._long(method, path, query, body, content_type, allowed)
        places = self._places
        if places.free:
            places.free -= 1
        else:
            await places.wait()
        try:
            first = True
            while True:
                authorization = await self._credentials.authorization()
                if self._generation != self._credentials.generation:
                    self._connect()
                pool = self._pool
                if pool is None:
                    raise Unreachable(f"{method} {target}: the client is closed")
                try:
                    answer = await pool.exchange(
                        Request(method, self._prefix + target, body, content_type, authorization), allowed
                    )
                except (Unreachable, TimedOut) as failure:
                    self.answers[method, UNANSWERED] += 1
                    told = f"{method} {target}: {failure.message}"
                    lost = TimedOut(told) if isinstance(failure, TimedOut) else Unreachable(told, sent=failure.sent)
                    raise lost from failure
                self.answers[method, str(answer.status)] += 1
                if answer.status < 300:
                    return answer.content
                if answer.status == 401 and first and await self._credentials.refresh(authorization):
                    first = False
                    continue
                raise answers.refusal(
                    f"{method} {target}", answer.status, answer.reason, answer.retry_after, answer.content
                )
        finally:
            places.leave()

    async def read(self, path: str, query: dict[str, str]) -> bytes:
        """The answer's body of a GET that may be large, such as a page of a list."""
        return await self._long("GET", path, query, None, "", self._timeout)

    async def events(self, path: str, query: dict[str, str], timeout: float) -> AsyncGenerator[WatchEvent, None]:
        """The events of a watch of so many seconds, until the server ends it."""
        query |= {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout))),
        }
        allowed = aiohttp.ClientTimeout(
            total=timeout + _WATCH_SLACK, sock_connect=CONNECT_SECONDS, sock_read=self.watch_silence
        )
        what = f"watch {path}"
        splitter = LineSplitter()
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._answer("GET", path, query, None, "", allowed)
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield answers.event(what, line)
            if splitter.rest:
                raise Unreachable(f"{what}: the stream was cut inside an event", sent=True)
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            answers.raise_unanswered(what, failure)
        finally:
            if response is not None:
                response.close()

    async def stream(self, path: str, query: Mapping[str, str]) -> BodyStream:
        """The answer to a GET once its head says success; it may have no end, and its connection alone says whether the
        server is still there. Close it.
        """
        allowed = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        what = f"GET {path}"
        try:
            async with asyncio.timeout(self._timeout):
                return BodyStream(what, await self._answer("GET", path, query, None, "", allowed))
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            answers.raise_unanswered(what, failure)

    async def socket(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket with one of these protocols. Close it."""
        what = f"GET {path}"
        if self._session is None:
            raise Unreachable(f"{what}: the client is closed")
        first = True
        while True:
            authorization = await self._credentials.authorization()
            if self._generation != self._credentials.generation:
                self._connect()
            try:
                async with asyncio.timeout(self._timeout):
                    opened: aiohttp.ClientWebSocketResponse = await self._session.ws_connect(
                        URL(f"{self._base}{path}?{urlencode(query)}", encoded=True),
                        protocols=protocols,
                        headers={"Authorization": authorization} if authorization else {},
                        max_msg_size=0,
                        **self._extra,
                    )
                    return opened
            except aiohttp.WSServerHandshakeError as refused:
                if refused.status == 401 and first and await self._credentials.refresh(authorization):
                    first = False
                    continue
                await self._long("GET", path, list(query), None, "", self._timeout)  # says why
                raise Unreachable(f"{what}: the server opens no WebSocket: {refused.message}") from refused
            except (aiohttp.ClientError, OSError, TimeoutError) as failure:
                answers.raise_unanswered(what, failure)

    async def _long(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] | None,
        body: bytes | None,
        content_type: str,
        timeout: float,
    ) -> bytes:
        """One request by the session."""
        allowed = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        await self._places.wait()
        try:
            response = await self._answer(method, path, query, body, content_type, allowed)
            async with response:
                return await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            answers.raise_unanswered(f"{method} {path}", failure)
        finally:
            self._places.leave()

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] | None,
        body: bytes | None,
        content_type: str,
        allowed: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """The response once its head says success; the caller reads and closes it. Renews credentials once at a 401."""
        if self._session is None:
            raise Unreachable(f"{method} {path}: the client is closed")
        url = URL(f"{self._base}{path}?{urlencode(query)}" if query else self._base + path, encoded=True)
        first = True
        while True:
            authorization = await self._credentials.authorization()
            headers = {"Content-Type": content_type} if body is not None else {}
            if authorization:
                headers["Authorization"] = authorization
            if self._generation != self._credentials.generation:
                self._connect()
            try:
                response = await self._session.request(
                    method, url, data=body, headers=headers, timeout=allowed, allow_redirects=False, **self._extra
                )
            except (aiohttp.ClientError, OSError, TimeoutError):
                self.answers[method, UNANSWERED] += 1
                raise
            self.answers[method, str(response.status)] += 1
            if response.status < 300:
                return response
            async with response:
                content = await response.read()
            if response.status == 401 and first and await self._credentials.refresh(authorization):
                first = False
                continue
            header = response.headers.get("Retry-After", "")
            raise answers.refusal(f"{method} {path}", response.status, response.reason or "", header, content)


def _watched_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket whose peer is probed when silent."""
    opened = socket.socket(address[0], address[1], address[2])
    probe(opened)
    return opened
