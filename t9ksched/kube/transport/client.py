"""The client: a few verbs on plain dicts, cheap enough to bind thousands of pods a second.

It satisfies `kube.port.ClusterPort`. The caller decides whether to repeat a failed request, because only the caller
knows what it was for: `requester.py` lists how a request may end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from t9ksched.kube.errors import ApiError, Expired, NotFound
from t9ksched.kube.port import BOOKMARK, Object, ObjectList, Page, WatchEvent
from t9ksched.kube.resources import PODS
from t9ksched.kube.transport.credentials import Credentials
from t9ksched.kube.transport.exec_stream import PROTOCOLS, ExecStream
from t9ksched.kube.transport.lists import named, read_page
from t9ksched.kube.transport.requester import BodyStream, Requester
from t9ksched.model.api_resource import Resource

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_LIST_RESTARTS = 3
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
        self.requester = Requester(credentials, connections, timeout, write_timeout or timeout)

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Read the credentials and make ready; no request is sent. Raises what reading them raises (ConfigError)."""
        await self.requester.open()

    async def close(self) -> None:
        """Close all connections; watches that are open end with Unreachable."""
        await self.requester.close()

    @property
    def server(self) -> str:
        """The server's URL, known once open."""
        return self.requester.server

    @property
    def answers(self) -> Mapping[tuple[str, str], int]:
        """See `kube.port.answers_of`."""
        return self.requester.answers

    @property
    def expiries(self) -> Mapping[str, int]:
        """See `kube.port.expiries_of`."""
        return self.requester.expiries

    def limit_writes(self, seconds: Callable[[], float]) -> None:
        """Ask `seconds()` from now on, as each write begins, how long it may take."""
        self.requester.limit_writes(seconds)

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
        return await self.requester.request(
            method, path, query=query, body=body, content_type=content_type, timeout=timeout
        )

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Object:
        return _object(await self.request("GET", res.path(namespace, name)))

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
            page, more = read_page(path, await self.requester.read(path, query))
            yield page
            if not more:
                return
            query["continue"] = more

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        namespace = namespace or _namespace(obj)
        query = {"dryRun": "All"} if dry_run else None
        return _object(await self.request("POST", res.path(namespace), query=query, body=_encode(obj)))

    async def replace(self, res: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        path = res.path(_namespace(obj), obj["metadata"]["name"])
        query = {"dryRun": "All"} if dry_run else None
        return _object(await self.request("PUT", path, query=query, body=_encode(obj)))

    async def replace_status(self, res: Resource, obj: Object) -> Object:
        path = res.path(_namespace(obj), obj["metadata"]["name"], "status")
        return _object(await self.request("PUT", path, body=_encode(obj)))

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
        return _object(await self.request("PATCH", path, body=_encode(body), content_type=content_type))

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
        return _object(await self.request("DELETE", res.path(namespace, name), body=_encode(options)))

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        await self.requester.request("POST", PODS.path(namespace, name, "binding"), body=_encode(binding))

    async def evict(self, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None:
        eviction: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, grace, None),
        }
        await self.request("POST", PODS.path(namespace, name, "eviction"), body=_encode(eviction))

    async def log(self, namespace: str, name: str, query: Mapping[str, str]) -> BodyStream:
        """As `LogPort` says."""
        return await self.requester.stream(PODS.path(namespace, name, "log"), query)

    async def exec(self, namespace: str, name: str, query: Sequence[tuple[str, str]]) -> ExecStream:
        """As `ExecPort` says."""
        path = PODS.path(namespace, name, "exec")
        return ExecStream(f"exec in pod {name}", await self.requester.socket(path, query, PROTOCOLS))

    async def serves(self, res: Resource) -> bool:
        """As `DiscoveryPort` says."""
        try:
            body = await self.request("GET", f"/apis/{res.api_version}" if res.group else f"/api/{res.version}")
        except NotFound:
            return False
        listed = _object(body).get("resources") or ()
        return any(isinstance(one, dict) and one.get("name") == res.plural for one in listed)

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
        return self.requester.events(res.path(namespace), query, timeout)

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
        return self.requester.events(res.path(namespace), query, timeout)


def _object(body: bytes) -> Object:
    try:
        obj = _ANY.decode(body)
    except (msgspec.MsgspecError, RecursionError) as failure:
        raise ApiError(200, "Malformed", f"the answer cannot be read: {failure}") from None
    if not isinstance(obj, dict):
        raise ApiError(200, "Malformed", "the answer is not an object")
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


__all__ = ["BOOKMARK", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_MERGE_PATCH", "Client"]
