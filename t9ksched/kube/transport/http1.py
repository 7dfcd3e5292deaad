"""HTTP/1.1 as far as small requests need it: one request in flight on a connection, bodies by length or in chunks.

An answer that cannot be understood counts as a broken connection, and an answer to no request ends it. Sources:
RFC 9112.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final, cast

from t9ksched.kube.errors import TimedOut, Unreachable
from t9ksched.kube.transport.message import Answer, Origin, Request

_LONGEST_HEAD: Final = 65_536
_LONGEST_LINE: Final = 1024
_UNTIL_CLOSED: Final = -1
_CHUNKED: Final = -2
_SUCCESS: Final = frozenset({b"HTTP/1.1 200 ", b"HTTP/1.1 201 ", b"HTTP/1.1 202 "})
_fields = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|retry-after):[ \t]*([^\r\n]*)", re.IGNORECASE
).findall
"""What is read of a head."""
_about_length = re.compile(rb"\r\n(content-length|transfer-encoding|connection):([^\r\n]*)").findall
"""What of a head in small letters says where the answer ends, and the connection with it."""


class _BrokenError(Exception):
    """The server's bytes are not an HTTP response."""


class Writer:
    """Turns requests to one server into bytes."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._known: dict[tuple[str, str | None], tuple[bytes, bytes]] = {}
        """By method and content type: the bytes before and after the target."""
        self._authorization: str | None = None
        """That of what is known."""

    def bytes_of(self, request: Request) -> bytes:
        """The whole request."""
        body = request.body
        if request.authorization != self._authorization:
            self._known.clear()
            self._authorization = request.authorization
        key = (request.method, None if body is None else request.content_type)
        before, after = self._known.get(key) or self._learn(key)
        target = request.target.encode("ascii")
        if body is None:
            return b"%s%s%s\r\n" % (before, target, after)
        return b"%s%s%sContent-Length: %d\r\n\r\n%s" % (before, target, after, len(body), body)

    def _learn(self, key: tuple[str, str | None]) -> tuple[bytes, bytes]:
        method, content_type = key
        fields = [("Host", self._origin.authority), *self._origin.fields(self._authorization)]
        if content_type is not None:
            fields.append(("Content-Type", content_type))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        self._known[key] = known = f"{method} ".encode("ascii"), f" HTTP/1.1\r\n{lines}".encode("ascii")
        return known


class Http1Connection(asyncio.Protocol):
    """One connection: `begin` a request, await its answer, then the next. `deadline` is the present request's."""

    __slots__ = (
        "_answer",
        "_at",
        "_buffer",
        "_head",
        "_pieces",
        "_size",
        "_transport",
        "deadline",
        "reusable",
        "used",
    )

    def __init__(self) -> None:
        self.deadline = self.used = 0.0
        self.reusable = True
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[Answer] | None = None
        self._buffer = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._head: tuple[int, str, str] | None = None
        self._size = 0
        self._at = 0
        self._pieces: list[bytes] = []

    # Requests

    @property
    def open(self) -> bool:
        """Whether another request may be sent."""
        return self.reusable and not self._transport.is_closing()

    def begin(self, request: bytes, deadline: float) -> asyncio.Future[Answer]:
        """Send these bytes; the answer to them. The connection is open."""
        self.deadline = deadline
        self._answer = answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return answer

    def abort(self) -> None:
        """Close at once, without waiting for the other side."""
        self.reusable = False
        self._transport.abort()

    def expire(self) -> None:
        """The request's time is over."""
        self._fail(TimedOut("no answer in time"))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        self.reusable = False
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _done(self, content: bytes) -> None:
        assert self._head is not None
        answer, self._answer = self._answer, None
        status, reason, retry_after = self._head
        if self._buffer:  # more bytes than one answer: they cannot be attributed to a request
            self.reusable = False
        self._begin()
        if answer is not None and not answer.done():
            answer.set_result(Answer(status, reason, retry_after, content))

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._head is not None and self._size == _UNTIL_CLOSED and exc is None:
            content = bytes(self._buffer)
            self._buffer.clear()
            self._done(content)
        self._fail(Unreachable(f"the connection broke: {exc or 'the server closed it'}", sent=True))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._answer is None:  # nothing was asked: such a connection cannot be trusted
            self.abort()
            return
        if self._head is None and not self._buffer and (content := _simple(data)) is not None:
            answer, self._answer = self._answer, None
            if not answer.done():
                answer.set_result(Answer(int(data[9:12]), "", "", content))
            return
        self._buffer += data
        try:
            if self._head is None and not self._read_head():
                return
            self._read_body()
        except _BrokenError as fault:
            self._fail(Unreachable(f"the answer cannot be understood: {fault}", sent=True))
            self.abort()

    # Reading an answer

    def _read_head(self) -> bool:
        """Take the head off the buffer; False while it is not whole."""
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _LONGEST_HEAD:
                    raise _BrokenError("its head does not end")
                return False
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            status = _status(head)
            if status == 101:
                raise _BrokenError("the server changes the protocol")
            if status >= 200:  # before that, it only says that an answer is to come
                break
        fields: dict[bytes, bytes] = {}
        for name, value in _fields(head):
            name, value = name.lower(), value.rstrip(b" \t")
            if name in fields and name in (b"content-length", b"transfer-encoding"):
                raise _BrokenError("it has two lengths")
            fields[name] = b"%s, %s" % (fields[name], value) if name in fields else value
        self._size = _size(status, fields)
        connection = fields.get(b"connection", b"").lower()
        old = head.startswith(b"HTTP/1.0")
        if b"close" in connection or (old and b"keep-alive" not in connection) or self._size == _UNTIL_CLOSED:
            self.reusable = False
        reason = head[13:].split(b"\r\n", 1)[0].decode("latin-1")
        self._head = status, reason, fields.get(b"retry-after", b"").decode("latin-1")
        return True

    def _read_body(self) -> None:
        size = self._size
        if size >= 0:
            if len(self._buffer) >= size:
                content = bytes(self._buffer[:size])
                del self._buffer[:size]
                self._done(content)
        elif size == _CHUNKED:
            self._read_chunks()

    def _read_chunks(self) -> None:
        """Take whole chunks off the buffer; the last one and its trailer end the answer."""
        buffer, at = self._buffer, self._at
        while (end := buffer.find(b"\r\n", at)) >= 0:
            size = _chunk_size(bytes(buffer[at:end]))
            start = end + 2
            if size == 0:
                while (line_end := buffer.find(b"\r\n", start)) > start:  # trailer fields say nothing we need
                    start = line_end + 2
                if line_end < 0:
                    break
                del buffer[: line_end + 2]
                self._done(b"".join(self._pieces))
                return
            if len(buffer) < start + size + 2:
                break
            if buffer[start + size : start + size + 2] != b"\r\n":
                raise _BrokenError("a chunk is not as long as it says")
            self._pieces.append(bytes(buffer[start : start + size]))
            at = start + size + 2
        else:
            if len(buffer) - at > _LONGEST_LINE:
                raise _BrokenError("a chunk's size does not end")
        self._at = at


def _simple(data: bytes) -> bytes | None:
    """The body if these bytes are one whole answer of the usual kind: success, its length told once, the connection
    kept. None says nothing about them.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0 or data[:13] not in _SUCCESS:
        return None
    lengths = _about_length(data[: end + 2].lower())
    if len(lengths) != 1 or lengths[0][0] != b"content-length":
        return None
    length = lengths[0][1].strip(b" \t")
    if not length.isdigit() or len(data) != end + 4 + int(length):
        return None
    return data[end + 4 :]


def _status(head: bytes) -> int:
    digits = head[9:12]
    if head[:7] != b"HTTP/1." or head[8:9] != b" " or not digits.isdigit() or head[12:13] not in (b" ", b"\r", b""):
        raise _BrokenError("it does not begin with an HTTP/1 status")
    return int(digits)


def _size(status: int, fields: dict[bytes, bytes]) -> int:
    """Bytes of the body, or how else its end is known (RFC 9112, 6.3)."""
    if status in (204, 304):
        return 0
    coding = fields.get(b"transfer-encoding")
    if coding is not None:
        if coding.lower() != b"chunked" or b"content-length" in fields:
            raise _BrokenError("its length is not told in one known way")
        return _CHUNKED
    length = fields.get(b"content-length")
    if length is None:
        return _UNTIL_CLOSED
    if not length.isdigit():
        raise _BrokenError("its length is not a number")
    return int(length)


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";", 1)[0].strip(b" \t")
    if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
        raise _BrokenError("a chunk's size is not a number")
    return int(digits, 16)
