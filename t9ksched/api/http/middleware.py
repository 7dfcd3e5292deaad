"""Around every request: an id, a line in the log, and an answer even when something unforeseen goes wrong.

HEAD is answered wherever GET is, with the headers of that answer and no body.

A body that the app did not read to its end, because it is too large or the caller unknown, is read and thrown away
before the answer goes out: a client that is still sending would find its connection reset, and the answer lost.

Query strings, headers and bodies never reach the log: they may hold secrets.
"""

import asyncio
import time
import uuid
from collections import Counter
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t9ksched.api.http.bodies import has_body
from t9ksched.api.http.overload import REFUSED
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.requestlines import RequestLines
from t9ksched.api.http.streams import is_stream
from t9ksched.api.meters import ApiMeters
from t9ksched.serving import EXEMPT_PATHS, answering
from t9ksched.serving.acceptor import address_of

log = structlog.get_logger("api")

_POLICY: Final = b"content-security-policy"
GUARDS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
"""Headers of every answer: browsers do not guess its type, and show it in no frame."""
NO_PAGE: Final = (_POLICY, b"default-src 'none'; frame-ancestors 'none'")
_CLOSE: Final = (b"connection", b"close")
HEAD: Final = "t9ksched.head"
"""Key in the scope of a HEAD request, which the app takes for a GET: an answer without an end would have none."""
TOLD: Final = "t9ksched.told"
"""Key in the scope of headers that the answer gets, whatever it is."""
_LONGEST_PATH: Final = 300
_MOST_THROWN_AWAY: Final = 16 * 1024 * 1024
"""Bytes; a client that sends more finds the connection reset."""
_LONGEST_SECONDS: Final = 5.0
_STALLED_SECONDS: Final = 0.5
"""A client that sends nothing for so long is not sending a body, so closing loses no answer."""
MOST_AN_ADDRESS: Final = 2
MOST_AT_ONCE: Final = 4
"""Bodies that are thrown away at the same time; others find the connection reset."""


class _Body:
    """The body of a request, and how far it was read."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        # A client that waits for "100 Continue" has not begun to send.
        self._asks = dict(scope["headers"]).get(b"expect", b"").lower() == b"100-continue"
        self._left = has_body(scope)

    async def read(self) -> Message:
        """The next part."""
        self._asks = False
        message = await self._receive()
        self._left = self._left and message["type"] == "http.request" and bool(message.get("more_body"))
        return message

    @property
    def left(self) -> bool:
        """Whether some of it was not read."""
        return self._left

    async def throw_away(self) -> None:
        """Read what is left, within bounds."""
        size = 0
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                while self._left and not self._asks and size < _MOST_THROWN_AWAY:
                    async with asyncio.timeout(_STALLED_SECONDS):
                        size += len((await self.read()).get("body", b""))
        except TimeoutError:
            pass


class _Bin:
    """Reads and discards the rest of bodies: of few at a time, and of fewer from one address, because unknown clients
    send them too.
    """

    def __init__(self) -> None:
        self._at_work: Counter[str] = Counter()

    async def take(self, body: _Body, address: str) -> bool:
        """Whether nothing is left."""
        if body.left and self._at_work.total() < MOST_AT_ONCE and self._at_work[address] < MOST_AN_ADDRESS:
            self._at_work[address] += 1
            try:
                await body.throw_away()
            finally:
                self._at_work[address] -= 1
                self._at_work += Counter()  # forget those without any
        return not body.left


def printable(text: str) -> str:
    """A text that may stand in a line of the log: no control characters, and not too long."""
    shown = "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text[:_LONGEST_PATH])
    return shown if len(text) <= _LONGEST_PATH else f"{shown}…"


class Envelope:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._bin = _Bin()
        self._lines = RequestLines()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with answering() as connection:
            await self._answer(scope, receive, send, reserved=connection is not None and connection.reserved)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, *, reserved: bool) -> None:
        request_id, started, status = uuid.uuid4().hex[:12], time.monotonic(), 0
        streams = False
        method, path = scope["method"], printable(scope["path"])
        told: list[tuple[bytes, bytes]] = []
        scope = {**scope, TOLD: told}
        if method == "HEAD":
            scope |= {"method": "GET", HEAD: True}

        body = _Body(scope, receive)

        async def watched(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                streams = is_stream(message)
                talks = body.left and streams  # what is left of the body belongs to a conversation
                whole = not talks and await self._bin.take(body, address_of(scope.get("client")))
                status = message["status"]
                message["headers"] = [*message["headers"], *told, *GUARDS, (b"x-request-id", request_id.encode())]
                if not whole and _CLOSE not in message["headers"]:
                    message["headers"].append(_CLOSE)
                if not any(name == _POLICY for name, _ in message["headers"]):
                    message["headers"].append(NO_PAGE)
            elif method == "HEAD" and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            try:
                if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
                    problem = Problem("Malformed", "the address holds a NUL character")
                    await problem.response()(scope, receive, watched)
                elif reserved and scope["path"] not in EXEMPT_PATHS:
                    await _too_many().response()(scope, receive, watched)
                else:
                    await self._app(scope, body.read, watched)
            except Exception:
                log.exception("request failed", method=method, path=path)
                if status:
                    raise  # the answer has begun: the connection can only be broken
                detail = f"the service made a mistake; its log tells more under {request_id}"
                await Problem("Internal", detail, id=request_id).response()(scope, receive, watched)
            finally:
                now = time.monotonic()
                _count(scope, method, status, now - started, streams=streams)
                if untold := self._lines.untold(now):
                    log.info("requests without a line", more=untold)
                quiet = scope["path"] in EXEMPT_PATHS or REFUSED in scope
                report = log.info if not quiet and self._lines.has_line(status, now - started, now) else log.debug
                report("request", method=method, path=path, status=status, ms=round((now - started) * 1000, 1))


def _count(scope: Scope, method: str, status: int, seconds: float, *, streams: bool) -> None:
    """Count a request that is over, by the template of its path: that of the route which took it, if any did."""
    if "app" in scope:
        meters: ApiMeters = scope["app"].state.services.meters
        meters.answered(method, getattr(scope.get("route"), "path", None), status, seconds, stream=streams)


def _too_many() -> Problem:
    return Problem(
        "Unavailable",
        "the service has as many connections as it may",
        remedy="repeat it a little later",
        headers={"Retry-After": "1", "Connection": "close"},
    )
