"""One client's place in the stream: what it was told last, what it may see, and whether it waits.

A client that takes slowly what it is sent stays behind by itself: nothing is kept for it but its place.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from t9ksched.api.auth import Caller, caller_of_token
from t9ksched.api.events.hub import Hub
from t9ksched.api.events.known import PUBLIC, Known, Wanted
from t9ksched.api.events.sight import EventSight
from t9ksched.api.services import Services

BEAT_SECONDS: Final = 15.0
"""After so long without an event a client is told that the stream lives."""
NAMESPACES_SECONDS: Final = 60.0
"""How long it is believed that the same namespaces are the caller's."""
_AT_ONCE: Final = 500
"""Events that are looked at before other clients have their turn."""
_BEAT: Final = b":\n\n"
_encode = msgspec.json.Encoder().encode


class Listener:
    """A client that listens, from behind `after` (None: from now on)."""

    def __init__(self, services: Services, hub: Hub, sight: EventSight, wanted: Wanted, after: int | None) -> None:
        self._services = services
        self._hub = hub
        self._digest = sight.caller.digest
        self._wanted = wanted
        self._waiting = False
        self._event = asyncio.Event()
        self._over = False
        self._now = asyncio.get_running_loop().time
        self._namespaces_at = self._said_at = self._now()
        self._after = after
        self.sight = sight
        self.user = sight.caller.user
        self.public = PUBLIC
        self.position = 0

    def wake(self) -> None:
        """There may be something to tell."""
        self._event.set()

    def hear(self, news: Iterable[Known], position: int) -> None:
        """Something happened: a listener that waits and sees none of it stays asleep, and is past it."""
        if not self._waiting or self._event.is_set():
            return
        if any(self._tells(known) for known in news):
            self._event.set()
        else:
            self.position = max(self.position, position)

    def rights_changed(self) -> None:
        """People decided something: perhaps about what this client may see, or that its token is worth nothing."""
        caller = self._caller()
        if caller is None:
            self._over = True
            self._event.set()
        else:
            self.sight = EventSight(caller, self.sight.namespaces)

    def _caller(self) -> Caller | None:
        decided = self._hub.decided
        return self.sight.caller if decided is None else caller_of_token(decided, self._digest, datetime.now(UTC))

    def _tells(self, known: Known) -> bool:
        return self._wanted.passes(known) and self.sight.sees(known)

    async def told(self) -> AsyncIterator[bytes]:
        """What to send, until the client may not listen any more or the service stops. It has joined the hub."""
        hub = self._hub
        self.position = told = hub.position if self._after is None else self._after
        yield b"retry: 2000\nevent: ready\nid: %d\ndata: {}\n\n" % self.position
        self._said_at = self._now()
        while not self._ended():
            await self._namespaces()
            found, upto = await self._next()
            lines = [self._line(known) for known in found if self._tells(known)]
            self.position = upto
            if lines:
                told = self.position
                yield b"".join(lines)
                self._said_at = self._now()
            elif found:
                await asyncio.sleep(0)
            else:
                await self._wait()
            if self._now() - self._said_at >= BEAT_SECONDS:
                # An id without data moves a client's place, and is no event to it.
                yield b"id: %d\n\n" % self.position if self.position != told else _BEAT
                told, self._said_at = self.position, self._now()
        yield b"event: end\ndata: %b\n\n" % _encode(self._why())

    def _ended(self) -> bool:
        if self._hub.closed or self._over:
            return True
        expires = self.sight.caller.expires_at
        self._over = expires is not None and expires <= datetime.now(UTC)
        return self._over

    def _why(self) -> dict[str, str]:
        """Why the stream ends, with the code that a request would be refused with."""
        if self._over:
            return {"code": "Unauthenticated", "message": "the token was revoked, or its time is over"}
        return {"code": "Unavailable", "message": "the service stops: ask again, with the last id as `after`"}

    async def _next(self) -> tuple[list[Known], int]:
        """The next events, seen or not, and up to which id they are all."""
        kept = self._hub.since(self.position, _AT_ONCE)
        if kept is None:
            return await self._hub.past(self, _AT_ONCE)
        if kept:
            return list(kept), kept[-1].event.id
        return [], self.position

    async def _wait(self) -> None:
        """Until something happened, the client has to be told that the stream lives, or its token is over."""
        self._waiting = True
        try:
            if self._hub.since(self.position, 1) == ():
                async with asyncio.timeout(max(0.0, self._patience())):
                    await self._event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting = False
            self._event.clear()

    def _patience(self) -> float:
        """For how many seconds there may be nothing to do."""
        left = self._said_at + BEAT_SECONDS - self._now()
        expires = self.sight.caller.expires_at
        return left if expires is None else min(left, (expires - datetime.now(UTC)).total_seconds())

    async def _namespaces(self) -> None:
        """Ask again which namespaces are the caller's, if that was long ago."""
        now = self._now()
        if self.sight.caller.is_admin or now - self._namespaces_at < NAMESPACES_SECONDS:
            return
        self._namespaces_at = now
        self.sight = EventSight(self.sight.caller, await self._services.namespaces.owned_by(self.user))

    def _line(self, known: Known) -> bytes:
        return b"id: %d\ndata: %b\n\n" % (known.event.id, _encode(self.sight.shown(known)))
