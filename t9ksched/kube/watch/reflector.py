"""A reflector keeps what a handler knows of one kind of object equal to the server's state: read everything once, then
watch.

It is a state machine, one transition a `step`: empty → streaming → watching where the server sends the present objects
as the beginning of a watch, else empty → paging → listed → watching. A watch that ends or breaks resumes after the last
version seen; a version the server forgot (410) goes back to empty, and then the handler hears only the differences.

What an event means to what is known, and what is done about a stream that is out of order, is in `known.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Generic, TypeVar, cast

import structlog

from t9ksched.kube.errors import ApiError, BadRequest, Expired, Forbidden, ServerError, TimedOut, Unprocessable
from t9ksched.kube.port import (
    BOOKMARK,
    DELETED,
    ClusterPort,
    InitialEventsPort,
    Payload,
    WatchEvent,
    initial_events_end,
    is_served,
    pages_of,
)
from t9ksched.kube.transport.backoff import Backoff
from t9ksched.kube.transport.lists import named
from t9ksched.kube.watch.handler import Handler, PieceHandler
from t9ksched.kube.watch.identity import identify
from t9ksched.kube.watch.known import KnownObjects
from t9ksched.kube.watch.streams import closing, read_ahead
from t9ksched.model.api_resource import Resource

log = structlog.get_logger(__name__)

T = TypeVar("T")

_PIECE = 100
"""Objects decoded and handed over before other tasks of the event loop run."""
_EVENTS = 50
"""Events of a watch that are taken before other tasks run: one read may bring a thousand."""
_SILENCE = 30.0
"""Seconds without an event after which a server is taken not to know about initial events."""
_TRIES = 2
"""Streams of initial events that may break in a row before pages are read instead."""
_UNSERVED = 30.0
"""Seconds after which a server is asked again for a kind that it does not serve, as it may once its CRD is applied."""
_REFUSALS = 3
"""Times in a row that a server may fail (5xx) to resume a watch before everything is read again."""


class State(Enum):
    """The state of a reflector."""

    EMPTY = "empty"
    STREAMING = "streaming"
    PAGING = "paging"
    LISTED = "listed"
    WATCHING = "watching"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Which objects are followed, and how.

    Attributes:
        label_selector, field_selector: as the API takes them; empty for every object.
        page_size: objects a page when everything is read.
        timeout: seconds that a watch goes on before it is asked for anew.
        initial_events: ask for the present objects as the beginning of a watch, where port and server offer it.
        optional: servers that do not serve the kind (404) are no trouble, and asked again now and then.
    """

    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 500
    timeout: float = 300.0
    initial_events: bool = False
    optional: bool = False


_DEFAULTS = WatchOptions()


class Reflector(Generic[T]):
    """Follows `res` and tells `handler`; `run` goes on until cancelled, whatever the server does.

    `decode` turns an object's JSON (or dict) into what the handler gets; without it, dicts that say their own kind. An
    object that cannot be decoded is reported in the log and left out. `synced` is set once the first list was handed
    over; `error` is the trouble of the last attempt, None while all is well. `denied` is set while the server refuses
    to list or watch (403): that is logged once, asked again in growing pauses, and taken up when the right is there.
    `absent` is set while the server does not serve a kind that is `optional`: once that lasts, its objects are gone.
    """

    def __init__(
        self,
        client: ClusterPort,
        res: Resource,
        handler: Handler[T],
        namespace: str | None = None,
        decode: Callable[[Payload], T] | None = None,
        *,
        options: WatchOptions = _DEFAULTS,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.res = res
        self.state = State.EMPTY
        self.synced = asyncio.Event()
        self.denied = asyncio.Event()
        self.absent = asyncio.Event()
        self.optional = options.optional
        self._denied_at = State.EMPTY
        self.error: ApiError | None = None
        self._client = client
        self._handler = handler
        self.namespace = namespace
        self._decode = decode or cast("Callable[[Payload], T]", lambda payload: named(res, payload))
        self._selectors = {"label_selector": options.label_selector, "field_selector": options.field_selector}
        self._page_size = self._limit = options.page_size
        self._timeout = options.timeout
        self._random = random or Random()
        self._sleep = sleep
        self._backoff = Backoff(self._random)
        self._offers = options.initial_events and isinstance(client, InitialEventsPort)
        self._unfinished = 0
        self._refusals = 0
        self._version = ""
        self._listing: list[T] = []
        self._known = KnownObjects(handler, selected=bool(options.label_selector or options.field_selector))

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
                    self._known.begin_list()
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
            # One that a server does not serve any more has other objects when it does again.
            if self.state is not State.WATCHING or self._refusals >= _REFUSALS or self.absent.is_set():
                self.state = State.EMPTY

    async def _trouble(self, failure: ApiError) -> None:
        self.error = failure
        if self.state is State.STREAMING:
            self._unfinished += 1
        pause = self._backoff.next(at_least=failure.retry_after)
        unserved = self.optional and not await is_served(self._client, self.res, failure)
        if isinstance(failure, Forbidden) and not unserved:
            self._deny(failure)
        elif unserved:
            pause = max(pause, _UNSERVED)
            if self.absent.is_set():  # nor was it the last time
                await self._known.forget_all()
            else:
                log.debug("the server does not serve this kind, it is left out", resource=str(self.res))
            self.absent.set()
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
        self.absent.clear()
        self.denied.set()

    def _granted(self, *states: State) -> None:
        """What was refused in one of those states (none given: in any) is allowed now."""
        if self.denied.is_set() and (not states or self._denied_at in states):
            log.info("the missing right is there, this kind is followed", resource=str(self.res))
            self.denied.clear()

    # Reading everything

    async def _read_pages(self) -> None:
        pages = pages_of(self._client, self.res, self.namespace, limit=self._limit, **self._selectors)
        async with contextlib.aclosing(read_ahead(pages)) as ahead:
            async for page in ahead:
                await self._take_items(page.items)
                self._version = page.resource_version

    def _do_without(self, why: str) -> None:
        """The server has no initial events to offer: remembered as long as the process runs."""
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
            piece = [obj for obj in read if obj is not None and self._known.listed(obj)]
            if self.synced.is_set():
                for obj in piece:
                    handler.on_upsert(obj)
            elif piece and isinstance(handler, PieceHandler):
                handler.on_piece(piece)
            await asyncio.sleep(0)

    async def _finish(self) -> None:
        """Everything was read: what was known and did not come is gone; the first list is complete."""
        if self.absent.is_set():
            log.info("the server serves this kind now, it is followed", resource=str(self.res))
            self.absent.clear()
        listing, self._listing, self._limit = self._listing, [], self._page_size
        self._unfinished = 0
        await self._known.forget_missing()
        if not self.synced.is_set():
            if isinstance(self._handler, PieceHandler):
                self._handler.on_piece([])
            else:
                for obj in listing:
                    self._known.listed(obj)
                self._handler.on_replace(listing)
            self.synced.set()
        self.error = None
        self._granted(State.PAGING)  # that the watch is allowed too is seen when it brings something

    async def _stream(self) -> None:
        """The present objects as the beginning of a watch, which then goes on."""
        assert isinstance(self._client, InitialEventsPort)
        stream = self._client.watch_list(self.res, self.namespace, timeout=self._duration(), **self._selectors)
        async with closing(stream):
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

    def _decoded(self, read: Payload | WatchEvent) -> T | None:
        try:
            return read.decoded(self._decode) if isinstance(read, WatchEvent) else self._decode(read)
        except ApiError:  # it is no event
            raise
        except Exception as failure:  # one user's broken object must not stop the others
            payload = read.payload if isinstance(read, WatchEvent) else read
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
        if obj is not None and self._known.learn(obj):
            self._handler.on_upsert(obj)

    async def _follow(self) -> None:
        """One watch, from the last version to the stream's end."""
        stream = self._client.watch(
            self.res, self.namespace, resource_version=self._version, timeout=self._duration(), **self._selectors
        )
        async with closing(stream):
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
        heard = 0
        async for event in stream:
            if not heard:
                self.error = None
                self._granted()
                self._refusals = 0
                self._backoff.reset()
            self._take(event)
            if (heard := heard + 1) % _EVENTS == 0:
                await asyncio.sleep(0)
        return bool(heard)

    def _take(self, event: WatchEvent) -> None:
        if event.type == BOOKMARK:
            self._version = identify(event.object).version or self._version
            return
        obj = self._decoded(event)
        identity = identify(event.object) if obj is None else identify(obj)
        deleted = event.type == DELETED
        if self._known.repeated(identity, deleted):
            return
        if deleted:
            self._known.delete(identity, obj)
        elif obj is not None:
            self._known.upsert(identity, obj)
        self._version = identity.version or self._version
