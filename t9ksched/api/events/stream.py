"""The answer to a client that listens, as server-sent events, and the parameters by which it says what it wants."""

from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Header, Query, Request
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from t9ksched.api.auth import Caller
from t9ksched.api.events.hub import Hub
from t9ksched.api.events.known import Wanted
from t9ksched.api.events.listener import Listener
from t9ksched.api.events.sight import EventSight
from t9ksched.api.http.middleware import HEAD
from t9ksched.api.http.problems import invalid
from t9ksched.api.http.streams import HEADERS
from t9ksched.api.services import Services
from t9ksched.model.errors import FieldError

MEDIA: Final = "text/event-stream"
_AHEAD: Final = 10_000
"""By how many ids another replica may be ahead of this one, and much more than that."""

_After = Annotated[
    int | None,
    Query(ge=0, lt=2**63, description="The last `id` seen: everything behind it is told first. Absent: from now on"),
]
_LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="As `after`, and wins over it: browsers send it when they come again"),
]
_Watch = Annotated[bool, Query(description="In place of a list a stream of what happens to what it would list")]
_OF_STREAMS: Final = ("watch", "after")
STREAM: Final[dict[str, Any]] = {
    MEDIA: {
        "schema": {"type": "string"},
        "example": 'id: 1005\ndata: {"id":1005,"type":"started","about":"job","name":"resnet"}\n\n',
    }
}
"""The content of an answer that may be a stream."""


def listed_or_streamed(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a list that can be watched."""
    return {200: {"model": model, "content": STREAM}}


class _EventStream(StreamingResponse):
    """A stream that leaves the hub, however it ends."""

    def __init__(self, hub: Hub, listener: Listener) -> None:
        super().__init__(listener.told(), headers=HEADERS, media_type=MEDIA)
        self._hub = hub
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self._listener)


async def streamed(request: Request, services: Services, caller: Caller, wanted: Wanted, place: int | None) -> Response:
    """The stream of the events that a caller wants and may see, from behind that place on.

    Raises:
        Problem: there is no such place, or there are too many streams.
    """
    if request.scope.get(HEAD):
        head = Response(status_code=200, headers=HEADERS, media_type=MEDIA)
        del head.headers["content-length"]
        return head
    hub = services.events
    namespaces = frozenset[str]() if caller.is_admin else await services.namespaces.owned_by(caller.user)
    listener = Listener(services, hub, EventSight(caller, namespaces), wanted, place)
    await hub.join(listener)
    if place is not None and place > hub.position + _AHEAD:
        hub.leave(listener)
        text = f"{place} is no event of this service: the last one is {hub.position}"
        raise invalid([FieldError("query.after", text)], remedy="list anew, and listen without after")
    return _EventStream(hub, listener)


async def _place(after: _After = None, last_event_id: _LastEventId = None) -> int | None:
    if not last_event_id:
        return after
    if not last_event_id.isdecimal() or not last_event_id.isascii() or len(last_event_id) > 18:
        raise invalid([FieldError("header.Last-Event-ID", f"{last_event_id[:40]!r} is no id of an event")])
    return int(last_event_id)


class Watching(msgspec.Struct, frozen=True):
    """A request for a list that wants a stream in its place."""

    request: Request
    place: int | None

    async def stream(self, services: Services, caller: Caller, wanted: Wanted, *filters: str) -> Response:
        """The stream; `filters` are the parameters that `wanted` has, others of the list cannot be asked of events.

        Raises:
            Problem: one of those is given, or as `streamed` says.
        """
        if unread := [name for name in self.request.query_params if name not in (*_OF_STREAMS, *filters)]:
            raise invalid([FieldError(f"query.{name}", "goes not with watch") for name in unread])
        return await streamed(self.request, services, caller, wanted, self.place)


async def _watching(
    request: Request, watch: _Watch = False, after: _After = None, last_event_id: _LastEventId = None
) -> Watching | None:
    return Watching(request, await _place(after, last_event_id)) if watch else None


Place = Annotated[int | None, Depends(_place)]
"""Behind which event a stream begins; None for what happens from now on."""
Watched = Annotated[Watching | None, Depends(_watching)]
"""Of a list that can be watched; None where the list itself is asked for."""
