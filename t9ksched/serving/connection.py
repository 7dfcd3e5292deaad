"""One accepted connection, between its transport and the HTTP library that answers on it.

It is *waiting* until the first head of a request is complete, or from the first byte of a further one; *serving* while
a request is answered; *idle* in between. The library says nothing of this, so the first thing that our code does with a
request is to enter `answering()`, which finds the connection of the running task.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol, cast

State = Literal["waiting", "serving", "idle"]
_current: ContextVar["Connection | None"] = ContextVar("connection", default=None)
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Pool:
    """Connections counted together: those of one address, or all. `total` counts those that serve too.

    `waiting` and `idle` are in the order in which they became so.
    """

    __slots__ = ("idle", "total", "waiting")

    def __init__(self) -> None:
        self.total = 0
        self.waiting: dict[Connection, None] = {}
        self.idle: dict[Connection, None] = {}

    def to_end(self) -> "Connection | None":
        """The least useful connection: the one that has been waiting longest, else idle longest."""
        return next(iter(self.waiting), None) or next(iter(self.idle), None)


class Owner(Protocol):
    """Called when a connection is gone."""

    def left(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """Passes everything on to the library's protocol, and knows since when the connection is in its state.

    Args:
        inner: the library's protocol.
        pools: those that count it.
        reserved: whether it was accepted beyond the limit, for health alone.
        clock: the acceptor's, in seconds.
    """

    def __init__(
        self, owner: Owner, inner: asyncio.BaseProtocol, pools: tuple[Pool, ...], *, reserved: bool, clock: Any
    ) -> None:
        self.reserved = reserved
        self.requests = 0
        """Requests that were begun."""
        self.transport: asyncio.Transport | None = None
        self.since: float = clock()
        self.state: State = "waiting"
        self._owner, self._inner, self.pools, self._clock = owner, cast(Any, inner), pools, clock
        self._begun = 0
        self._doomed = False
        self._unread = 0
        self._unread_since = 0.0
        self._resumed = False
        """Whether the transport got rid of what it had too much of, since the last look."""
        for pool in pools:
            pool.total += 1
            pool.waiting[self] = None

    # ---- states

    def _become(self, state: State) -> None:
        self._leave()
        self.state, self.since = state, self._clock()
        for pool in self.pools:
            if state == "waiting":
                pool.waiting[self] = None
            elif state == "idle":
                pool.idle[self] = None

    def _leave(self) -> None:
        for pool in self.pools:
            pool.waiting.pop(self, None)
            pool.idle.pop(self, None)

    def begin(self) -> None:
        """One of its requests is being answered from now on."""
        self.requests += 1
        self._begun += 1
        if self._begun == 1 and self.pools:
            self._become("serving")

    def end(self) -> None:
        """The answer is written, as far as the program is concerned."""
        self._begun -= 1
        if self._begun == 0 and self.pools:
            self._become("idle")

    def gone(self) -> None:
        """Stop counting the connection."""
        self._leave()
        for pool in self.pools:
            pool.total -= 1
        self.pools = ()

    # ---- ending it

    def overdue(self, now: float, head: float, idle: float, write: float) -> str:
        """Why the connection is to be ended: `head`, `idle` or `unread`; empty if it may go on."""
        if self._stuck(now, write):
            return "unread"
        if self.state == "waiting" and now - self.since >= head:
            return "head"
        if self.state == "idle" and now - self.since >= idle:
            return "idle"
        return ""

    def _stuck(self, now: float, write: float) -> bool:
        """Whether bytes are to be sent and none were taken for so long."""
        unread = self.transport.get_write_buffer_size() if self.transport is not None else 0
        # A full buffer has the same size at each look although bytes leave it.
        if self._resumed or not unread or not self._unread or unread < self._unread:
            self._unread_since = now
        self._unread, self._resumed = unread, False
        return bool(unread) and now - self._unread_since >= write

    def drop(self, why: str = "") -> None:
        """End it at once; a client that sent half a head gets an answer that says so."""
        if self.transport is None:
            self._doomed = True
            return
        if why == "head" and not self.transport.get_write_buffer_size():
            self.transport.write(_LATE)
            if not self.transport.get_write_buffer_size():
                self.transport.close()
                return
        self.transport.abort()

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        with self._current():
            self._inner.connection_made(transport)
        if self._doomed:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.state == "idle":
            self._become("waiting")
        token = _current.set(self)
        try:
            self._inner.data_received(data)
        finally:
            _current.reset(token)

    def eof_received(self) -> bool | None:
        with self._current():
            return cast("bool | None", self._inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone()
        self._owner.left(self)
        with self._current():
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._resumed = True
        self._inner.resume_writing()

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Tasks that the library starts meanwhile find this connection."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


@contextmanager
def answering() -> Iterator["Connection | None"]:
    """The block answers a request of the connection that it yields; None where no acceptor accepted it (in tests)."""
    connection = _current.get()
    if connection is None:
        yield None
        return
    connection.begin()
    try:
        yield connection
    finally:
        connection.end()
