"""A reflector keeps a handler's picture of one kind of object equal to the server's: list once, then watch.

It is a state machine, empty → paging → listed → watching, one transition a `step`. A watch that ends or breaks resumes
after the last version seen; a version the server forgot (410) goes back to empty and lists again, and then the handler
hears only the differences. Versions are opaque: they are compared for equality alone, never for order. The stream's
order is the truth, UIDs tell a new object from an old one of its name, and an event seen before is dropped, so that a
repeated piece of stream never takes an object back to an older version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from random import Random
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import structlog

from t9ksched.kube.backoff import Backoff
from t9ksched.kube.client import named
from t9ksched.kube.errors import ApiError, Expired
from t9ksched.kube.port import BOOKMARK, DELETED, ClusterPort, Payload, WatchEvent, pages_of
from t9ksched.kube.resources import Resource

log = structlog.get_logger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_PIECE = 200
_REMEMBERED = 8192
"""Events remembered to recognise a repetition; a server repeats at most what it sent since our last version."""


class Identity(NamedTuple):
    """Which object, and which version of it."""

    namespace: str
    name: str
    uid: str
    version: str


class Handler(Protocol[T_contra]):
    """Who follows the objects. The calls are synchronous and must be quick: the stream waits for them."""

    def on_replace(self, items: list[Any]) -> None:
        """The first list, whole; called once, before anything else."""

    def on_upsert(self, obj: T_contra) -> None:
        """The object is new or changed. A successor of the same name comes after the `on_delete` of the old one."""

    def on_delete(self, obj: T_contra) -> None:
        """The object is gone; `obj` is its last known state, or what the server sent with the deletion."""


@runtime_checkable
class PieceHandler(Protocol):
    """A handler that takes the first list in pieces, so that 100,000 objects do not hold the event loop."""

    def on_piece(self, items: list[Any]) -> None:
        """Some of the first list's objects, instead of `on_replace`; an empty list comes last."""


class State(Enum):
    """Where a reflector stands."""

    EMPTY = "empty"
    PAGING = "paging"
    LISTED = "listed"
    WATCHING = "watching"


def identify(obj: Any) -> Identity:
    """The identity of a dict, or of a struct with a `metadata` of `namespace, name, uid, resource_version`."""
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        get = metadata.get
        return Identity(get("namespace") or "", get("name", ""), get("uid", ""), get("resourceVersion", ""))
    metadata = obj.metadata
    return Identity(metadata.namespace or "", metadata.name, metadata.uid, metadata.resource_version)


class Reflector(Generic[T]):
    """Follows `res` and tells `handler`; `run` goes on until cancelled, whatever the server does.

    `decode` turns an object's JSON (or dict) into what the handler gets; without it, dicts that say their own kind. An
    object that cannot be decoded is reported in the log and left out. `synced` is set once the first list was handed
    over; `error` is the trouble of the last attempt, None while all is well.
    """

    def __init__(
        self,
        client: ClusterPort,
        res: Resource,
        handler: Handler[T],
        namespace: str | None = None,
        decode: Callable[[Payload], T] | None = None,
        label_selector: str = "",
        field_selector: str = "",
        *,
        identify: Callable[[T], Identity] = identify,
        page_size: int = 500,
        timeout: float = 300.0,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.res = res
        self.state = State.EMPTY
        self.synced = asyncio.Event()
        self.error: ApiError | None = None
        self._client = client
        self._handler = handler
        self._namespace = namespace
        self._decode = decode or cast("Callable[[Payload], T]", lambda payload: named(res, payload))
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._identify = identify
        self._page_size = self._limit = page_size
        self._timeout = timeout
        self._random = random or Random()
        self._sleep = sleep
        self._backoff = Backoff(self._random)
        self._version = ""
        self._listing: list[T] = []
        self._known: dict[tuple[str, str], tuple[Identity, T]] = {}
        self._seen: dict[tuple[str, str, bool], None] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """One transition; an ApiError of the server becomes a pause and the state to go on from."""
        try:
            match self.state:
                case State.EMPTY:
                    self._listing = []
                    self.state = State.PAGING
                case State.PAGING:
                    await self._read_pages()
                    self.state = State.LISTED
                case State.LISTED:
                    await self._hand_over()
                    self.state = State.WATCHING
                case State.WATCHING:
                    await self._follow()
        except Expired as failure:
            if self.state is State.PAGING:  # the pages took longer than the server remembers: take larger ones
                self._limit *= 4
            await self._trouble(failure)
            self.state = State.EMPTY
        except ApiError as failure:
            await self._trouble(failure)
            if self.state is not State.WATCHING:
                self.state = State.EMPTY

    async def _trouble(self, failure: ApiError) -> None:
        self.error = failure
        pause = self._backoff.next(at_least=failure.retry_after)
        log.info("watch interrupted", resource=str(self.res), state=self.state.value, error=str(failure), pause=pause)
        await self._sleep(pause)

    async def _read_pages(self) -> None:
        pages = pages_of(self._client, self.res, self._namespace, limit=self._limit, **self._selectors)
        async for page in pages:
            for payload in page.items:
                obj = self._decoded(payload)
                if obj is not None:
                    self._listing.append(obj)
            self._version = page.resource_version

    def _decoded(self, payload: Payload) -> T | None:
        try:
            return self._decode(payload)
        except Exception as failure:  # one user's broken object must not stop everybody's
            text = bytes(payload[:200]).decode("utf-8", "replace") if isinstance(payload, bytes) else str(payload)[:200]
            log.warning(
                "object cannot be read and is left out", resource=str(self.res), error=str(failure), object=text
            )
            return None

    async def _hand_over(self) -> None:
        """The list becomes the truth: whole to a handler that has nothing yet, else as its differences."""
        listing, self._listing, self._limit = self._listing, [], self._page_size
        if not self.synced.is_set():
            for start in range(0, len(listing), _PIECE):
                piece = listing[start : start + _PIECE]
                for obj in piece:
                    identity = self._identify(obj)
                    self._known[identity.namespace, identity.name] = identity, obj
                if isinstance(self._handler, PieceHandler):
                    self._handler.on_piece(piece)
                    await asyncio.sleep(0)
            if isinstance(self._handler, PieceHandler):
                self._handler.on_piece([])
            else:
                self._handler.on_replace(listing)
            self.synced.set()
        else:
            fresh = {(identity.namespace, identity.name): identity for identity in map(self._identify, listing)}
            for key in [key for key in self._known if key not in fresh]:
                self._forget(key)
            for obj in listing:
                self._upsert(self._identify(obj), obj)
        self.error = None

    async def _follow(self) -> None:
        """One watch, from the last version to the stream's end."""
        heard = False
        timeout = self._timeout * (0.8 + 0.4 * self._random.random())  # so that many streams do not end together
        stream = self._client.watch(
            self.res, self._namespace, resource_version=self._version, timeout=timeout, **self._selectors
        )
        try:
            async for event in stream:
                if not heard:
                    heard = True
                    self.error = None
                    self._backoff.reset()
                self._take(event)
        finally:
            close = getattr(stream, "aclose", None)  # generators hold a connection until closed
            if close is not None:
                await close()
        self.error = None
        if not heard:  # a server that closes at once must not be asked again at once
            await self._sleep(self._backoff.least())

    def _take(self, event: WatchEvent) -> None:
        if event.type == BOOKMARK:
            self._version = identify(event.object).version or self._version
            return
        obj = self._decoded(event.payload)
        identity = identify(event.object) if obj is None else self._identify(obj)
        deleted = event.type == DELETED
        if self._repeated(identity, deleted):
            return
        self._version = identity.version or self._version
        if not deleted:
            if obj is not None:
                self._upsert(identity, obj)
            return
        key = identity.namespace, identity.name
        known = self._known.get(key)
        if known is not None and known[0].uid == identity.uid:
            del self._known[key]
            self._handler.on_delete(known[1] if obj is None else obj)

    def _repeated(self, identity: Identity, deleted: bool) -> bool:
        """Whether this very event came before; remembers it. An empty version proves nothing."""
        if not identity.version:
            return False
        mark = identity.uid, identity.version, deleted
        if mark in self._seen:
            return True
        self._seen[mark] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return False

    def _upsert(self, identity: Identity, obj: T) -> None:
        key = identity.namespace, identity.name
        known = self._known.get(key)
        if known is not None:
            if known[0].uid != identity.uid:  # its deletion was in a piece of stream that we missed
                self._forget(key)
            elif identity.version and known[0].version == identity.version:
                return
        self._known[key] = identity, obj
        self._handler.on_upsert(obj)

    def _forget(self, key: tuple[str, str]) -> None:
        _, obj = self._known.pop(key)
        self._handler.on_delete(obj)
