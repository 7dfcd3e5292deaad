"""How all other packages reach a cluster: a protocol that `kube.transport.client.Client` and the dev cluster's own
storage implement.

Objects are plain dicts as Kubernetes writes them. Every method raises only `kube.errors.ApiError` and its subclasses.
A watch yields `WatchEvent`s in the server's order, bookmarks included; it ends quietly when its time is over, raises
`Expired` when its version is too old, and another `ApiError` when the stream breaks. To follow objects over a long
time, use `kube.watch.reflector` on top.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from t9ksched.kube.errors import ApiError, Forbidden, NotFound
from t9ksched.model.api_resource import Resource

T = TypeVar("T")
Object = dict[str, Any]
UNANSWERED: Final = "unanswered"
"""In place of a status, in what `answers_of` gives."""
NONE_FAILED: Final = {(method, code): 0 for method in ("GET", "PATCH", "POST") for code in ("429", UNANSWERED)}
"""What a page of metrics has before it happens: a rate sees nothing of a series that begins with its first event."""
Payload = bytes | Object
"""An object in JSON as it came, or decoded: what a reflector's `decode` takes."""

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class ObjectList(msgspec.Struct, frozen=True):
    """A whole list and the version it was read at, from which a watch may go on."""

    items: list[Object]
    resource_version: str


class Page(msgspec.Struct, frozen=True):
    """One page of a list, objects left undecoded; `last` on the final one."""

    items: list[Payload]
    resource_version: str
    last: bool


class WatchEvent:
    """One change: `type` is ADDED, MODIFIED, DELETED or BOOKMARK; the object is decoded only when asked for.

    `payload` is the undecoded JSON where there is one (`raw`), else the dict: cheap to hand to a typed decoder.
    """

    __slots__ = ("_object", "raw", "type")

    def __init__(self, type: str, object: Object | None = None, *, raw: bytes | None = None) -> None:
        self.type = type
        self.raw = raw
        self._object = object

    @property
    def object(self) -> Object:
        if self._object is None:
            self._object = msgspec.json.decode(self.raw or b"{}")
        return self._object

    @property
    def payload(self) -> Payload:
        return self.raw if self.raw is not None else self.object

    def decoded(self, decode: Callable[[Payload], T]) -> T:
        """What `decode` makes of the payload."""
        return decode(self.payload)

    def __repr__(self) -> str:
        metadata = self.object.get("metadata", {})
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        return f"WatchEvent({self.type} {name} {metadata.get('resourceVersion', '')})"


@runtime_checkable
class ClusterPort(Protocol):
    """Read and write Kubernetes objects. `namespace=None` means all namespaces for `list` and `watch`, and none for
    cluster-wide kinds.
    """

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> Object: ...

    async def list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> ObjectList:
        """The whole list, read in pages of `limit` objects."""
        ...

    async def create(
        self, res: Resource, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        """Create; the namespace is `namespace`, else the object's own. Raises AlreadyExists."""
        ...

    async def replace(self, res: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """PUT; a resourceVersion in the object is a precondition (Conflict). A dry run changes nothing."""
        ...

    async def replace_status(self, res: Resource, obj: Object) -> Object: ...

    async def patch(
        self,
        res: Resource,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        content_type: str = "application/merge-patch+json",
        subresource: str = "",
    ) -> Object: ...

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
        """Delete; `uid` is a precondition (Conflict), `grace` in seconds, `propagation` Background, Foreground or
        Orphan.
        """
        ...

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        """POST the Binding `binding` to the pod's subresource of that name."""
        ...

    async def evict(self, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None:
        """POST an Eviction: a delete that disruption budgets may refuse (TooManyRequests)."""
        ...

    def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float = 300,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, for at most about `timeout` seconds, with bookmarks."""
        ...


@runtime_checkable
class PagedPort(Protocol):
    """An optional ability of a port: a list returned page by page and undecoded, so that 100,000 pods are never in
    memory twice.
    """

    def pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
    ) -> AsyncIterator[Page]: ...


@runtime_checkable
class InitialEventsPort(Protocol):
    """An optional ability of a port: a watch that begins with every present object (a "watch-list")."""

    def watch_list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float = 300,
    ) -> AsyncIterator[WatchEvent]:
        """Every present object as ADDED, a bookmark for which `initial_events_end` holds, then changes as in `watch`.

        A server that does not offer it answers BadRequest or Unprocessable, or never sends that bookmark.
        """
        ...


@runtime_checkable
class DiscoveryPort(Protocol):
    """An optional ability of a port: which kinds the server offers, which every user may ask."""

    async def serves(self, res: Resource) -> bool:
        """Whether the server serves the kind in that version. Raises ApiError when it does not say."""
        ...


class Parts(Protocol):
    """A body that comes in parts, perhaps without an end; close it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class LogPort(Protocol):
    """An optional ability of a port: what containers have written."""

    async def log(self, namespace: str, name: str, query: Mapping[str, str]) -> Parts:
        """The log of a pod's container; `query` has the parameters of Kubernetes, such as `container`, `follow` and
        `tailLines`. With `follow` it ends when the container does.
        """
        ...


STDOUT, STDERR = 1, 2
"""Channels of a command's output."""


class Executing(Protocol):
    """A command that runs: iterate over what it writes, as pairs of a channel and bytes; then `exit_code` is how it
    ended. Close it.
    """

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]: ...

    @property
    def exit_code(self) -> int: ...

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class ExecPort(Protocol):
    """An optional ability of a port: commands in containers."""

    async def exec(self, namespace: str, name: str, query: Sequence[tuple[str, str]]) -> Executing:
        """Run a command in a pod's container; `query` has the parameters of Kubernetes: each word of the command as
        `command`, `container`, `stdin`, `stdout`, `stderr` and `tty`.
        """
        ...


def initial_events_end(event: WatchEvent) -> bool:
    """Whether a bookmark says that all present objects were sent."""
    annotations = (event.object.get("metadata") or {}).get("annotations") or {}
    return annotations.get("k8s.io/initial-events-end") == "true"


Decode = Callable[[Payload], Any]


async def pages_of(
    port: ClusterPort, res: Resource, namespace: str | None, *, label_selector: str, field_selector: str, limit: int
) -> AsyncIterator[Page]:
    """The list of any port as pages: undecoded where it offers that, else one page of dicts."""
    if isinstance(port, PagedPort):
        async for page in port.pages(
            res, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        ):
            yield page
    else:
        whole = await port.list(
            res, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        )
        yield Page(list(whole.items), whole.resource_version, True)


async def is_served(port: ClusterPort, res: Resource, failure: ApiError) -> bool:
    """Whether the server serves a kind that could not be read: what a user has no right to it refuses in any case. A
    server that does not say is taken to serve it.
    """
    if isinstance(failure, NotFound):
        return False
    if not (isinstance(failure, Forbidden) and isinstance(port, DiscoveryPort)):
        return True
    try:
        return await port.serves(res)
    except ApiError:
        return True


def answers_of(port: object) -> Mapping[tuple[str, str], int]:
    """How many requests were answered since the port was made, by method and status (or `UNANSWERED`); empty for a port
    that counts none.
    """
    counts: Mapping[tuple[str, str], int] = getattr(port, "answers", None) or {}
    return counts


def expiries_of(port: object) -> Mapping[str, int]:
    """When certificates end that the port uses, in seconds since the epoch: its own (`client`) and the one that it
    trusts (`authority`); those that there are.
    """
    ends: Mapping[str, int] = getattr(port, "expiries", None) or {}
    return ends
