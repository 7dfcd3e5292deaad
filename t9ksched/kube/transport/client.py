"""The client: a few verbs on plain dicts, cheap enough to bind thousands of pods a second.

It satisfies `kube.port.ClusterPort`. Requests about single objects take the narrow lane (`kube.lane`); lists, watches
and whatever goes through a proxy take an aiohttp session. Each request ends in its result or in one `ApiError`;
exceptions of aiohttp never leave this module. It repeats a request only after a 401, once, with fresh credentials:
whether anything else is worth another try is for the caller to say, who knows what the request meant. Requests in
flight are limited; waiting for a place does not count against a request's timeout, and watches need no place.
"""

from __future__ import annotations

import asyncio
import builtins
import re
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from t9ksched import version
from t9ksched.kube.errors import ApiError, Expired, TimedOut, Unreachable
from t9ksched.kube.port import BOOKMARK, Object, ObjectList, Page, Payload, WatchEvent
from t9ksched.kube.resources import PODS, Resource
from t9ksched.kube.transport import answers
from t9ksched.kube.transport.credentials import Credentials
from t9ksched.kube.transport.deep import shallow
from t9ksched.kube.transport.lines import LineSplitter
from t9ksched.kube.transport.message import Request
from t9ksched.kube.transport.pool import CONNECT_SECONDS, TransportPool, probe

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_WATCH_SLACK = 30.0
"""Seconds past a watch's own timeout before its connection is taken for dead."""
_WATCH_SILENCE = 100.0
"""More than a minute, for servers send a bookmark each minute when nothing else happens."""
_LIST_RESTARTS = 3
_HEADERS = {
    "User-Agent": f"t9ksched/{version()}",
    "Accept": "application/json",
    # Uncompressed: inflating the lists of a large cluster costs more of our one core than the wire saves.
    "Accept-Encoding": "identity",
}
_plain_target = re.compile(r"[!-~]+").fullmatch


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, gc=False):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_List)
_ANY = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


class Client:
    """Speaks to one API server as one user. Open it with `async with`, or with `open` and `close`.

    `connections` is the most requests in flight, `timeout` the seconds one may take, `write_timeout` the same for
    writes: a leader's end before its lease does (`limit_writes`).
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        connections: int = 128,
        timeout: float = 30.0,
        write_timeout: float | None = None,
    ) -> None:
        self._credentials = credentials
        self._timeout = timeout
        self._write_timeout = write_timeout or timeout
        self._write_limit: Callable[[], float] | None = None
        self.watch_silence = _WATCH_SILENCE
        """Seconds without a byte after which a watch's connection is taken for dead."""
        self._slots = asyncio.Semaphore(connections)
        self._session: aiohttp.ClientSession | None = None
        self._retired: builtins.list[aiohttp.ClientSession] = []
        self._generation = 0
        self._base = ""
        self._prefix = ""
        self._extra: dict[str, Any] = {}
        self._lane: TransportPool | None = None

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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
        """Connections are made with the credentials of now; those before serve what is under way, no more."""
        if self._session is not None:
            self._retired.append(self._session)
        self._session = self._new_session()
        if self._lane is not None:
            self._lane.retire()
        access = self._credentials.access
        if access.proxy is None:
            self._lane = TransportPool(
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
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()
        for each in (session, *retired):
            if each is not None:
                await each.close()

    @property
    def server(self) -> str:
        """The server's URL, known once open."""
        return self._base

    def limit_writes(self, seconds: Callable[[], float]) -> None:
        """Ask `seconds()` from now on, as each write begins, how long it may take."""
        self._write_limit = seconds

    def _write_seconds(self) -> float:
        return self._write_timeout if self._write_limit is None else self._write_limit()

    # Verbs ------------------------------------------------------------------------------------------------------

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Object:
        return self._object(await self.request("GET", res.path(namespace, name)))

    async def list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> ObjectList:
        """The whole list at one version, read in pages; begins anew when the server forgot the pages' version.

        Items of built-in kinds come without kind and apiVersion from a server; they are filled in.
        """
        for restarts_left in reversed(range(_LIST_RESTARTS)):
            items: list[Object] = []
            version = ""
            try:
                async for page in self.pages(
                    res, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
                ):
                    items.extend(named(res, payload) for payload in page.items)
                    version = page.resource_version
            except Expired:
                if not restarts_left:
                    raise
                continue
            break
        return ObjectList(items, version)

    async def pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> AsyncGenerator[Page, None]:
        """The list page by page, every object its own undecoded JSON; raises Expired when the version is forgotten."""
        path = res.path(namespace)
        query = _selection(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        while True:
            body = await self._long("GET", path, query, None, "", self._timeout)
            try:
                answer = _page(body)
            except msgspec.MsgspecError as failure:
                raise ApiError(200, "Malformed", f"GET {path}: the list cannot be read: {failure}") from None
            more = answer.metadata.continue_
            yield Page([bytes(item) for item in answer.items or ()], answer.metadata.resource_version, not more)
            if not more:
                return
            query["continue"] = more

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        namespace = namespace or _namespace(obj)
        query = {"dryRun": "All"} if dry_run else None
        return self._object(await self.request("POST", res.path(namespace), query=query, body=_encode(obj)))

    async def replace(self, res: Resource, obj: Object) -> Object:
        path = res.path(_namespace(obj), obj["metadata"]["name"])
        return self._object(await self.request("PUT", path, body=_encode(obj)))

    async def replace_status(self, res: Resource, obj: Object) -> Object:
        path = res.path(_namespace(obj), obj["metadata"]["name"], "status")
        return self._object(await self.request("PUT", path, body=_encode(obj)))

    async def patch(
        self,
        res: Resource,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        path = res.path(namespace, name, subresource)
        return self._object(await self.request("PATCH", path, body=_encode(body), content_type=content_type))

    async def delete(
        self,
        res: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> Object:
        options = _delete_options(uid, grace, propagation)
        return self._object(await self.request("DELETE", res.path(namespace, name), body=_encode(options)))

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        await self.request("POST", PODS.path(namespace, name, "binding"), body=_encode(binding))

    async def evict(self, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None:
        eviction: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, grace, None),
        }
        await self.request("POST", PODS.path(namespace, name, "eviction"), body=_encode(eviction))

    def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float = 300,
    ) -> AsyncGenerator[WatchEvent, None]:
        """As the port says. Close the generator (contextlib.aclosing) when leaving it early: it holds a connection."""
        query = _selection(label_selector, field_selector) | {"resourceVersion": resource_version}
        return self._events(res.path(namespace), query, timeout)

    def watch_list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float = 300,
    ) -> AsyncGenerator[WatchEvent, None]:
        """As `InitialEventsPort` says, at the newest version; close it as a `watch`."""
        query = _selection(label_selector, field_selector)
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return self._events(res.path(namespace), query, timeout)

    async def _events(self, path: str, query: dict[str, str], timeout: float) -> AsyncGenerator[WatchEvent, None]:
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

    # One request ------------------------------------------------------------------------------------------------

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
        if self._lane is None or not _plain_target(target):
            return await self._long(method, path, query, body, content_type, allowed)
        async with self._slots:
            return await self._short(method, target, body, content_type, allowed)

    async def _short(self, method: str, target: str, body: bytes | None, content_type: str, allowed: float) -> bytes:
        """One request by the lane. Renews credentials once at a 401."""
        first = True
        while True:
            authorization = await self._credentials.authorization()
            if self._generation != self._credentials.generation:
                self._connect()
            lane = self._lane
            if lane is None:
                raise Unreachable(f"{method} {target}: the client is closed")
            request = Request(method, self._prefix + target, body, content_type, authorization)
            try:
                answer = await lane.exchange(request, allowed)
            except Unreachable as failure:
                raise Unreachable(f"{method} {target}: {failure.message}", sent=failure.sent) from failure
            except TimedOut as failure:
                raise TimedOut(f"{method} {target}: {failure.message}") from failure
            if answer.status < 300:
                return answer.content
            if answer.status == 401 and first and await self._credentials.refresh(authorization):
                first = False
                continue
            raise answers.refusal(
                f"{method} {target}", answer.status, answer.reason, answer.retry_after, answer.content
            )

    async def _long(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        timeout: float,
    ) -> bytes:
        """One request by the session."""
        allowed = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        async with self._slots:
            try:
                response = await self._answer(method, path, query, body, content_type, allowed)
                async with response:
                    return await response.read()
            except (aiohttp.ClientError, OSError, TimeoutError) as failure:
                answers.raise_unanswered(f"{method} {path}", failure)

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
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
            response = await self._session.request(
                method, url, data=body, headers=headers, timeout=allowed, allow_redirects=False, **self._extra
            )
            if response.status < 300:
                return response
            async with response:
                content = await response.read()
            if response.status == 401 and first and await self._credentials.refresh(authorization):
                first = False
                continue
            header = response.headers.get("Retry-After", "")
            raise answers.refusal(f"{method} {path}", response.status, response.reason or "", header, content)

    def _object(self, body: bytes) -> Object:
        try:
            obj = _ANY.decode(body)
        except (msgspec.MsgspecError, RecursionError) as failure:
            raise ApiError(200, "Malformed", f"the answer cannot be read: {failure}") from None
        if not isinstance(obj, dict):
            raise ApiError(200, "Malformed", "the answer is not an object")
        return obj


def _page(body: bytes) -> _List:
    try:
        return _LIST.decode(body)
    except RecursionError:
        return _LIST.decode(shallow(body))


def named(res: Resource, payload: Payload) -> Object:
    """A list item as a dict that says its own kind and apiVersion, which servers leave out of lists."""
    obj: Object = _ANY.decode(payload) if isinstance(payload, bytes) else payload
    obj.setdefault("apiVersion", res.api_version)
    obj.setdefault("kind", res.kind)
    return obj


def _selection(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _namespace(obj: Object) -> str | None:
    namespace = obj.get("metadata", {}).get("namespace")
    return str(namespace) if namespace else None


def _delete_options(uid: str | None, grace: int | None, propagation: str | None) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid is not None:
        options["preconditions"] = {"uid": uid}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = propagation
    return options


def _watched_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket whose peer is probed when silent."""
    opened = socket.socket(address[0], address[1], address[2])
    probe(opened)
    return opened


__all__ = ["BOOKMARK", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_MERGE_PATCH", "Client", "named"]
