"""A reflector keeps a handler's picture of one kind of object equal to the server's: read everything once, then watch.

It is a state machine, one transition a `step`: empty → streaming → watching where the server sends the present objects
as the beginning of a watch, else empty → paging → listed → watching. A watch that ends or breaks resumes after the last
version seen; a version the server forgot (410) goes back to empty, and then the handler hears only the differences.

Versions are opaque: they are compared for equality alone. The stream's order is the truth, UIDs tell a new object from
an old one of its name, and an event seen before is dropped. A stream that is out of order brings nothing back: a UID
that was deleted stays deleted, and a version that, read as a number, lies before the one known proves nothing but is
reason enough to read everything again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from enum import Enum
from random import Random
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import structlog

from t9ksched.kube.errors import ApiError, BadRequest, Expired, Forbidden, ServerError, TimedOut, Unprocessable
from t9ksched.kube.port import (
    BOOKMARK,
    DELETED,
    ClusterPort,
    InitialEventsPort,
    Page,
    Payload,
    WatchEvent,
    initial_events_end,
    pages_of,
)
from t9ksched.kube.resources import Resource
from t9ksched.kube.transport.backoff import Backoff
from t9ksched.kube.transport.client import named
from t9ksched.kube.watch.identity import Identity, goes_back, identify

log = structlog.get_logger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_PIECE = 100
"""Objects decoded and handed over before others get their turn."""
_REMEMBERED = 8192
"""Events, and UIDs of what was deleted, that are remembered: a server repeats at most what it sent since our last
version, and disorder reaches no further.
"""
_SILENCE = 30.0
"""Seconds without an event after which a server is taken not to know about initial events."""
_TRIES = 2
"""Streams of initial events that may break in a row before pages are read instead."""
_REFUSALS = 3
"""Times in a row that a server may fail (5xx) to resume a watch before everything is read again."""


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
    """A handler that takes the first list in pieces, so that 100,000 objects neither hold the event loop nor stand in
    memory twice.
    """

    def on_piece(self, items: list[Any]) -> None:
        """Objects of the first list, instead of `on_replace`, as they are read; an empty list comes last.

        When reading has to begin anew, an object may come again in a newer state, and its deletion before the end.
        """


@runtime_checkable
class IdentityHandler(Protocol):
    """A handler to whom it is enough to hear who is gone: the reflector then keeps no objects."""

    def on_gone(self, identity: Identity) -> None:
        """The object is gone; called instead of `on_delete`."""


class State(Enum):
    """Where a reflector stands."""

    EMPTY = "empty"
    STREAMING = "streaming"
    PAGING = "paging"
    LISTED = "listed"
    WATCHING = "watching"


class Reflector(Generic[T]):
    """Follows `res` and tells `handler`; `run` goes on until cancelled, whatever the server does.

    `decode` turns an object's JSON (or dict) into what the handler gets; without it, dicts that say their own kind. An
    object that cannot be decoded is reported in the log and left out. `synced` is set once the first list was handed
    over; `error` is the trouble of the last attempt, None while all is well. `denied` is set while the server refuses
    to list or watch (403): that is logged once, asked again in growing pauses, and taken up when the right is there.
    With `initial_events` the present objects are asked for as the beginning of a watch, where the port and the server
    offer it.
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
        initial_events: bool = False,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.res = res
        self.state = State.EMPTY
        self.synced = asyncio.Event()
        self.denied = asyncio.Event()
        self._denied_at = State.EMPTY
        self.error: ApiError | None = None
        self._client = client
        self._handler = handler
        self.namespace = namespace
        self._decode = decode or cast("Callable[[Payload], T]", lambda payload: named(res, payload))
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._selected = bool(label_selector or field_selector)
        self._identify = identify
        self._page_size = self._limit = page_size
        self._timeout = timeout
        self._random = random or Random()
        self._sleep = sleep
        self._backoff = Backoff(self._random)
        self._offers = initial_events and isinstance(client, InitialEventsPort)
        self._unfinished = 0
        self._refusals = 0
        self._version = ""
        self._listing: list[T] = []
        self._fresh: set[str] | None = None
        """UIDs read so far; None as long as nothing was known before, and nothing can have gone."""
        self._known: dict[str, dict[str, Identity]] = {}
        """By namespace and name."""
        self._objects: dict[tuple[str, str], T] | None = None if isinstance(handler, IdentityHandler) else {}
        """By namespace and name, for the handler that wants to see what is gone."""
        self._seen: dict[tuple[str, str, bool], None] = {}
        self._gone: dict[str, str] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

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
                    self._fresh = set() if len(self) else None
                    self.state = State.STREAMING if self._offers and self._unfinished < _TRIES else State.PAGING
                case State.STREAMING:
                    await self._stream()
                case State.PAGING:
                    await self._read_pages()
                    self.state = State.LISTED
                case State.LISTED:
                    await self._finish()
                    self.state = State.WATCHING
                case State.WATCHING:
                    await self._follow()
        except (BadRequest, Unprocessable) as failure:
            if self.state is State.STREAMING:
                self._do_without(str(failure))
            else:
                await self._trouble(failure)
        except Expired as failure:
            if self.state is State.PAGING:  # the pages took longer than the server remembers: take larger ones
                self._limit *= 4
            await self._trouble(failure)
            self.state = State.EMPTY
        except ApiError as failure:
            await self._trouble(failure)
            # A server may be unable to resume from a version, without saying that it is too old.
            self._refusals = self._refusals + 1 if isinstance(failure, ServerError) else 0
            if self.state is not State.WATCHING or self._refusals >= _REFUSALS:
                self.state = State.EMPTY

    async def _trouble(self, failure: ApiError) -> None:
        self.error = failure
        if self.state is State.STREAMING:
            self._unfinished += 1
        pause = self._backoff.next(at_least=failure.retry_after)
        if isinstance(failure, Forbidden):
            self._deny(failure)
        else:
            log.info(
                "watch interrupted", resource=str(self.res), state=self.state.value, error=str(failure), pause=pause
            )
        await self._sleep(pause)

    def _deny(self, failure: Forbidden) -> None:
        """Say once that a right is missing: the pauses between two attempts are short compared with a rollout."""
        if not self.denied.is_set():
            log.warning(
                "a right is missing, this kind is not followed",
                resource=str(self.res),
                error=failure.message or str(failure),
                remedy="kubectl apply -f deploy/rbac.yaml of this release; t9ksched doctor shows every missing right",
            )
        self._denied_at = self.state
        self.denied.set()

    def _granted(self, *states: State) -> None:
        """What was refused in one of those states (none given: in any) is allowed now."""
        if self.denied.is_set() and (not states or self._denied_at in states):
            log.info("the missing right is there, this kind is followed", resource=str(self.res))
            self.denied.clear()

    # Reading everything

    async def _read_pages(self) -> None:
        pages = pages_of(self._client, self.res, self.namespace, limit=self._limit, **self._selectors)
        async with contextlib.aclosing(_ahead(pages)) as ahead:
            async for page in ahead:
                await self._take_items(page.items)
                self._version = page.resource_version

    def _do_without(self, why: str) -> None:
        """The server has no initial events to offer: remembered as long as we live."""
        log.info("the server offers no initial events, lists are read", resource=str(self.res), why=why)
        self._offers = False
        self.state = State.EMPTY

    async def _take_items(self, payloads: Sequence[Payload]) -> None:
        """Objects as they are now. Where pieces are taken, or all was told once, they are told at once."""
        handler = self._handler
        pieces = isinstance(handler, PieceHandler)
        for start in range(0, len(payloads), _PIECE):
            read = map(self._decoded, payloads[start : start + _PIECE])
            if not (pieces or self.synced.is_set()):
                self._listing.extend(obj for obj in read if obj is not None)
                continue
            piece = [obj for obj in read if obj is not None and self._list(obj)]
            if self.synced.is_set():
                for obj in piece:
                    handler.on_upsert(obj)
            elif piece and isinstance(handler, PieceHandler):
                handler.on_piece(piece)
            await asyncio.sleep(0)

    def _list(self, obj: T) -> bool:
        """Note an object that was listed; whether the handler must hear of it. A list is right about what exists."""
        identity = self._identify(obj)
        self._gone.pop(identity.uid, None)
        if self._fresh is not None:
            self._fresh.add(identity.uid)
        return self._note(identity, obj)

    async def _finish(self) -> None:
        """Everything was read: what was known and did not come is gone; the first list is complete."""
        listing, self._listing, self._limit = self._listing, [], self._page_size
        self._unfinished = 0
        if self._fresh is not None:
            missing = [one for named in self._known.values() for one in named.values() if one.uid not in self._fresh]
            self._fresh = None
            for count, identity in enumerate(missing, start=1):
                self._forget(identity)
                if count % _PIECE == 0:
                    await asyncio.sleep(0)
        if not self.synced.is_set():
            if isinstance(self._handler, PieceHandler):
                self._handler.on_piece([])
            else:
                for obj in listing:
                    self._list(obj)
                self._handler.on_replace(listing)
            self.synced.set()
        self.error = None
        self._granted(State.PAGING)  # that the watch is allowed too is seen when it brings something

    async def _stream(self) -> None:
        """The present objects as the beginning of a watch, which then goes on."""
        assert isinstance(self._client, InitialEventsPort)
        stream = self._client.watch_list(self.res, self.namespace, timeout=self._duration(), **self._selectors)
        async with _closing(stream):
            try:
                ended = not await self._initial(stream)
            except TimeoutError:
                self._do_without("it sent objects and not their end")
                return
            if ended:
                await self._trouble(ApiError(0, "Unfinished", "the stream ended before all objects were sent"))
                self.state = State.EMPTY
                return
            await self._finish()
            self._granted()
            self.state = State.WATCHING
            self._backoff.reset()
            await self._listen(stream)

    async def _initial(self, stream: AsyncIterator[WatchEvent]) -> bool:
        """Take events until the one that says that all present objects were sent; False when the stream ends first.

        Raises TimeoutError when nothing comes any more.
        """
        batch: list[Payload] = []
        now = asyncio.get_running_loop().time
        async with asyncio.timeout(_SILENCE) as silence:
            async for event in stream:
                if event.type == BOOKMARK:
                    if initial_events_end(event):
                        await self._take_items(batch)
                        self._version = identify(event.object).version
                        return True
                    continue
                batch.append(event.payload)
                if len(batch) == _PIECE:
                    await self._take_items(batch)
                    batch = []
                    silence.reschedule(now() + _SILENCE)
        return False

    def _decoded(self, payload: Payload) -> T | None:
        try:
            return self._decode(payload)
        except Exception as failure:  # one user's broken object must not stop everybody's
            text = bytes(payload[:200]).decode("utf-8", "replace") if isinstance(payload, bytes) else str(payload)[:200]
            log.warning(
                "object cannot be read and is left out", resource=str(self.res), error=str(failure), object=text
            )
            return None

    # Watching

    def _duration(self) -> float:
        """Seconds for a watch, so that many do not end together."""
        return self._timeout * (0.8 + 0.4 * self._random.random())

    def learn(self, payload: Payload) -> None:
        """Hand on an object that was read beside the stream, which may be behind.

        The stream goes on from where it is: what it still tells of the object may be older, and is handed on as ever.
        """
        obj = self._decoded(payload)
        identity = None if obj is None else self._identify(obj)
        if obj is None or identity is None or identity.uid in self._gone:
            return
        if self._fresh is not None:  # a list that began before does not prove that it is gone
            self._fresh.add(identity.uid)
        known = self._known.get(identity.namespace, {}).get(identity.name)
        if known is None or known.uid != identity.uid:
            self._note(identity._replace(version=""), obj)  # so that no version of the stream goes back behind it
        self._handler.on_upsert(obj)

    async def _follow(self) -> None:
        """One watch, from the last version to the stream's end."""
        stream = self._client.watch(
            self.res, self.namespace, resource_version=self._version, timeout=self._duration(), **self._selectors
        )
        async with _closing(stream):
            heard = await self._listen(stream)
        self.error = None
        self._granted()
        if not heard:  # a server that closes at once must not be asked again at once
            await self._sleep(self._backoff.least())

    async def _listen(self, stream: AsyncIterator[WatchEvent]) -> bool:
        """Take events until the stream ends or falls silent; whether it brought anything."""
        try:
            return await self._events(stream)
        except TimedOut as silence:  # the connection may be half open, or nothing happens: then bookmarks do not come
            log.info("watch resumed", resource=str(self.res), error=str(silence))
            return False

    async def _events(self, stream: AsyncIterator[WatchEvent]) -> bool:
        """Take what a watch brings until it ends; whether it brought anything."""
        heard = False
        async for event in stream:
            if not heard:
                heard = True
                self.error = None
                self._granted()
                self._refusals = 0
                self._backoff.reset()
            self._take(event)
        return heard

    def _take(self, event: WatchEvent) -> None:
        if event.type == BOOKMARK:
            self._version = identify(event.object).version or self._version
            return
        obj = self._decoded(event.payload)
        identity = identify(event.object) if obj is None else self._identify(obj)
        deleted = event.type == DELETED
        if self._repeated(identity, deleted):
            return
        if deleted:
            self._delete(identity, obj)
        elif obj is not None:
            self._upsert(identity, obj)
        self._version = identity.version or self._version

    def _repeated(self, identity: Identity, deleted: bool) -> bool:
        """Whether this very event came before; remembers it. An empty version proves nothing."""
        if not identity.version:
            return False
        mark = identity.uid, identity.version, deleted
        if mark in self._seen:
            return True
        _remember(self._seen, mark, None)
        return False

    def _delete(self, identity: Identity, obj: T | None) -> None:
        known = self._known.get(identity.namespace, {}).get(identity.name)
        mine = known is not None and known.uid == identity.uid
        if self._selected and known is not None and mine and goes_back(known.version, identity.version):
            raise _disorder(known, identity)  # it left the selection, and came back before
        _remember(self._gone, identity.uid, identity.version)
        if mine:
            self._forget(identity, obj)

    def _upsert(self, identity: Identity, obj: T) -> None:
        gone = self._gone.get(identity.uid)
        if gone is not None:
            if not self._selected:
                return  # what was deleted never comes back: this event is late
            if goes_back(gone, identity.version):
                raise _disorder(identity._replace(version=gone), identity)
            del self._gone[identity.uid]
        known = self._known.get(identity.namespace, {}).get(identity.name)
        if known is not None and (known.uid != identity.uid or goes_back(known.version, identity.version)):
            raise _disorder(known, identity)  # two of one name without a deletion between them: which came first?
        if self._note(identity, obj):
            self._handler.on_upsert(obj)

    def _note(self, identity: Identity, obj: T) -> bool:
        """Keep which version is known; whether it is another one than before."""
        named = self._known.setdefault(identity.namespace, {})
        known = named.get(identity.name)
        if known is not None:
            if known.uid != identity.uid:  # its deletion was in a piece of stream that we missed
                _remember(self._gone, known.uid, known.version)
                self._forget(known)
                named = self._known.setdefault(identity.namespace, {})
            elif identity.version and known.version == identity.version:
                return False
            else:  # the texts that are known already: one copy of each is enough
                identity = Identity(known.namespace, known.name, known.uid, identity.version)
        named[identity.name] = identity
        if self._objects is not None:
            self._objects[identity.namespace, identity.name] = obj
        return True

    def _forget(self, identity: Identity, obj: T | None = None) -> None:
        """The object is gone; `obj` is its last state where the server sent one."""
        named = self._known[identity.namespace]
        del named[identity.name]
        if not named:
            del self._known[identity.namespace]
        if self._objects is None:
            cast("IdentityHandler", self._handler).on_gone(identity)
            return
        last = self._objects.pop((identity.namespace, identity.name))
        self._handler.on_delete(last if obj is None else obj)


K = TypeVar("K")
V = TypeVar("V")


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    """Keep the newest few."""
    memory[key] = value
    if len(memory) > _REMEMBERED:
        del memory[next(iter(memory))]


def _disorder(known: Identity, late: Identity) -> Expired:
    where = f"{known.namespace}/{known.name}" if known.namespace else known.name
    told = f"{where}: {late.uid} at version {late.version} came after {known.uid} at {known.version}"
    return Expired(0, "OutOfOrder", f"{told}, all is read again")


@contextlib.asynccontextmanager
async def _closing(stream: AsyncIterator[WatchEvent]) -> AsyncIterator[None]:
    """Close a stream at the end: generators hold a connection until closed."""
    try:
        yield
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _ahead(pages: AsyncIterator[Page]) -> AsyncGenerator[Page, None]:
    """The same pages, each asked for while the one before is being worked on."""

    async def fetch() -> Page | None:
        return await anext(pages, None)

    following = asyncio.create_task(fetch())
    try:
        while (page := await following) is not None:
            following = asyncio.create_task(fetch())
            yield page
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        close = getattr(pages, "aclose", None)
        if close is not None:
            await close()
