"""Following events: one place in the stream, kept over connections that break and services that stop.

`Following` says what to ask, reads what comes, and decides what a break means. It does no input or output.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from t9ksched.client.calls import Call
from t9ksched.client.errors import Misunderstood, Refused, Unreachable
from t9ksched.client.models import Event
from t9ksched.client.sse import MessageReader

EVENTS: Final = "/apis/v1/events"
PATIENCE_SECONDS: Final = 120.0
"""How long the service may be away before a program is told."""
_FIRST_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 5.0
_LATER: Final = (429, 502, 503, 504)


class Following:
    """Follows from behind the event `after`, None for what happens from now on.

    Args:
        filters: of events, as the query has them.
        patience: seconds that the service may be away at a time.
        clock: gives seconds.
    """

    def __init__(
        self,
        after: int | None,
        filters: Mapping[str, Any],
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.after = after
        self._filters = filters
        self._patience = patience
        self._clock = clock
        self._heard = clock()
        self._breaks = 0
        self._reader = MessageReader()
        self._over: Refused | None = None

    def call(self) -> Call:
        """The request of the next connection, which goes on where the last one ended."""
        self._reader = MessageReader()
        self._over = None
        query = dict(self._filters) | {"after": self.after}
        return Call("GET", EVENTS, query, headers={"Accept": "text/event-stream"})

    def heard(self, part: bytes) -> list[Event]:
        """The events that end in a part of the stream.

        Raises:
            Misunderstood: it is no stream of events.
        """
        self._heard, self._breaks = self._clock(), 0
        found: list[Event] = []
        for message in self._reader.feed(part):
            if message.type == "end":
                self._over = _end(message.data)
            elif not message.type:
                found.append(_event(message.data))
        if (last := self._reader.last) is not None and last.isdecimal():
            self.after = int(last)
        return found

    def broken(self, error: Exception | None) -> float:
        """How many seconds to wait before the next connection, after one ended with that error or without any.

        Raises:
            ClientError: there is no use in another one.
        """
        error = self._over or error
        if isinstance(error, Refused) and error.status not in _LATER:
            raise error
        if isinstance(error, Misunderstood) or (isinstance(error, Unreachable) and not error.trusted):
            raise error
        if self._clock() - self._heard > self._patience:
            raise error or Unreachable("the service", "its streams end at once")
        pause = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0**self._breaks)
        self._breaks += 1
        told = error.retry_after if isinstance(error, Refused) else None
        return max(pause, min(told or 0.0, self._patience))


def _event(data: str) -> Event:
    try:
        return msgspec.json.decode(data, type=Event)
    except msgspec.DecodeError as error:
        raise Misunderstood(f"an event cannot be read: {error}") from None


def _end(data: str) -> Refused | None:
    """Why the service ended a stream: None if another connection may be made."""
    try:
        told = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    if told.get("code") != "Unauthenticated":
        return None
    return Refused(401, "Unauthenticated", str(told.get("message", "the stream ended")))
