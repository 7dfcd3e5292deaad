"""Refusing what cannot be answered in time: a limit of requests in work, a short queue, and a fair share a caller.

A caller is the owner of a token that is known; all others count by their address. Pages after health and for Prometheus
are never refused. See `t9ksched.serving.overload` for the rule.
"""

import asyncio
import contextlib
import time
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t9ksched.api.http.bodies import has_body
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.streams import is_stream
from t9ksched.api.services import Services
from t9ksched.serving import EXEMPT_PATHS
from t9ksched.serving.overload import MOST_SENDING, ConcurrencyLimiter, State, Ticket
from t9ksched.store import tokens

log = structlog.get_logger("api")

REFUSED: Final = "t9ksched.refused"
"""Key in the scope of a refused request: such a request gets no line of its own in the log."""
_PROMPT_SECONDS: Final = 0.1
"""A request whose body does not arrive, or whose answer the client does not take, for so long does not count as being
in work while it waits."""


class Overload:
    """Lets requests through to the app as its limiter says."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in EXEMPT_PATHS:
            await self._app(scope, receive, send)
            return
        limiter: ConcurrencyLimiter = scope["app"].state.services.limiter
        turn = asyncio.Event()
        kind = " ".join((scope["method"], *scope["path"].split("/")[1:4]))
        ticket = limiter.arrive(_caller(scope), kind, time.monotonic(), turn.set)
        passage = _Passage(limiter, ticket, receive, send, awaits_body=has_body(scope))
        try:
            if ticket.state is State.WAITING:
                try:
                    async with asyncio.timeout(ticket.patience):
                        await turn.wait()
                except TimeoutError:
                    passage.leave()
            if ticket.state is State.RUNNING:
                await self._app(scope, passage.receive, passage.send)
                return
        finally:
            passage.leave()
        scope[REFUSED] = True
        tell(limiter)
        await problem(ticket.state).response()(scope, receive, send)


class _Passage:
    """A request on its way through the app: knows how long it waited for its caller, and ends once."""

    def __init__(
        self, limiter: ConcurrencyLimiter, ticket: Ticket, receive: Receive, send: Send, *, awaits_body: bool
    ) -> None:
        self._limiter, self._ticket, self._receive, self._send = limiter, ticket, receive, send
        self._blocked = 0.0
        self._over = False
        self._awaits_body = awaits_body
        """Whether the caller has not sent all of the body yet, as far as it was read."""

    def leave(self) -> None:
        """The request does not count as being in work any more."""
        if not self._over:
            self._over = True
            self._limiter.leave(self._ticket, time.monotonic(), self._blocked)

    async def receive(self) -> Message:
        """The next part of the request.

        Raises:
            Problem: it does not come at once, and the caller sends other requests as slowly.
        """
        began = time.monotonic()
        try:
            message = await self._next()
        finally:
            self._blocked += time.monotonic() - began
        self._awaits_body = bool(message.get("more_body"))
        return message

    async def _next(self) -> Message:
        if self._over or not self._awaits_body:  # anything else says that the caller disconnected
            return await self._receive()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROMPT_SECONDS):
                return await self._receive()
        if not self._limiter.pause(self._ticket, time.monotonic()):
            raise _too_slow()
        try:
            return await self._receive()
        finally:
            self._limiter.resume(self._ticket)

    async def send(self, message: Message) -> None:
        """A part of the answer.

        A stream does not count as being in work, nor does reading the unread rest of a body, which may take
        seconds to arrive, nor an answer in parts of which the client does not take one at once, such as a file.
        """
        if message["type"] == "http.response.start" and (self._awaits_body or is_stream(message)):
            self.leave()
        began = time.monotonic()
        untaken = asyncio.get_running_loop().call_later(_PROMPT_SECONDS, self._leave_untaken, began)
        try:
            await self._send(message)
        finally:
            untaken.cancel()
            self._blocked += time.monotonic() - began

    def _leave_untaken(self, began: float) -> None:
        """The client does not take the answer: the request goes on, and its duration is not counted as the
        service's.
        """
        self._blocked += time.monotonic() - began
        self.leave()


def _caller(scope: Scope) -> str:
    """The caller whose share the request counts against."""
    secret = ""
    for name, value in scope["headers"]:
        if name == b"authorization":
            secret = value.decode("latin-1").partition(" ")[2].strip()
            break
    return caller_of(scope["app"].state.services, secret, scope.get("client"))


def caller_of(services: Services, secret: str, client: tuple[str, int] | None) -> str:
    """The caller whose share a request with this token, from this address, counts against.

    Only known tokens have a share of their own: a client could invent any number of others.
    """
    if secret and secret.isascii():
        owner = services.store.read_cache.owner(tokens.digest(secret))
        if owner is not None:
            return f"user {owner}"
    return f"address {client[0] if client else ''}"


def tell(limiter: ConcurrencyLimiter) -> None:
    """Write a line about refusals, at most once a minute."""
    if more := limiter.untold(time.monotonic()):
        log.warning("requests are refused", more=more, limit=int(limiter.limit))


def problem(state: State) -> Problem:
    """The answer to a refused request."""
    if state is State.SHARE:
        return Problem(
            "RateLimited",
            "you have more requests in work than your share of what the service can answer now",
            remedy="repeat it after a moment, and send fewer at once",
            headers={"Retry-After": "1"},
        )
    return Problem(
        "Unavailable",
        "the service has more requests than it can answer now",
        remedy="repeat it after a moment",
        headers={"Retry-After": "1"},
    )


def _too_slow() -> Problem:
    return Problem(
        "RateLimited",
        f"the bodies of {MOST_SENDING} other requests of yours are awaited",
        remedy="send whole requests, or fewer at once",
        headers={"Retry-After": "1", "Connection": "close"},
    )
