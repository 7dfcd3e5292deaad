"""HTTP/2 as far as small requests need it: many in flight on one connection, and what is sent or received together
costs one system call and one TLS record.

A general library spends a quarter of a millisecond on a request and its answer; this protocol a tenth of that, because
it keeps the header fields that all requests share in the server's table and reads of an answer's fields only the status
unless that says no. Header compression is the library `hpack`. Windows are kept as the server asks, answers come in a
window larger than any object. A server that goes away (GOAWAY) answers what it took and is asked nothing new. Sources:
RFC 9113 (frames, streams, windows), RFC 7541 (header compression).
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

import hpack

from t9ksched.kube.errors import TimedOut, Unreachable
from t9ksched.kube.transport.fields import FieldWriter, StatusReader
from t9ksched.kube.transport.http2_frames import (
    HEAD_SIZE,
    STREAM,
    Code,
    Flag,
    Kind,
    ProtocolError,
    Setting,
    frame,
    frame_head,
    settings,
    unpadded,
)
from t9ksched.kube.transport.message import Answer, Origin, Request

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_LAST_STREAM: Final = STREAM - 2
_LARGEST_FRAME: Final = 16_384
"""What each side may send unless the other allowed more; we do not."""
_WINDOW: Final = 16 * 2**20
"""Bytes that the server may send on a stream, and on the connection, before it hears that we took some."""
_FIRST_WINDOW: Final = 65_535
_STREAMS: Final = 100
"""How many streams to begin at once when the server names no limit."""
_LONGEST_FIELDS: Final = 65_536


class Stream:
    """One request under way. `deadline` is a time of the event loop's clock."""

    __slots__ = (
        "_connection",
        "answer",
        "content",
        "deadline",
        "fields",
        "head",
        "number",
        "taken",
        "unsent",
        "window",
    )

    def __init__(self, connection: Http2Connection, number: int, deadline: float, window: int) -> None:
        self._connection = connection
        self.number = number
        self.deadline = deadline
        self.window = window
        """Bytes that it may still send."""
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.head: tuple[int, str] | None = None
        """Status and Retry-After, once known."""
        self.fields = b""
        """The beginning of a field block that is not whole yet."""
        self.content: list[bytes] = []
        self.unsent = b""
        """What is left of its body while a window is closed."""
        self.taken = 0
        """Bytes received and not yet acknowledged with a window update."""

    def expire(self) -> None:
        """The request's time is over. A connection that was silent for so long is not trusted with another one."""
        self._connection.retire()
        self._connection.give_up(self, TimedOut("no answer in time"))

    def abort(self) -> None:
        """No caller waits for the answer any more."""
        self._connection.give_up(self, None)


class Http2Connection(asyncio.Protocol):
    """One connection. `begin` requests while there is `room`."""

    def __init__(self, origin: Origin) -> None:
        self.used, self.reusable = 0.0, True
        self.told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the server has sent its settings: before that, the limit of concurrent requests is unknown."""
        self._writer = FieldWriter(origin)
        self._reader = StatusReader()
        self._transport: asyncio.Transport
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._most = _STREAMS
        self._window = _FIRST_WINDOW
        self._stream_window = _FIRST_WINDOW
        self._taken = 0
        self._rest = b""
        self._continued: Stream | None = None
        """The stream whose field block continues in the next frame."""
        self._ends = False
        """Whether that stream ends after the field block."""
        self._out: list[bytes] = []

    # Requests

    @property
    def room(self) -> bool:
        """Whether another request may begin."""
        return len(self._streams) < self._most and self._next < _LAST_STREAM and self.open

    @property
    def open(self) -> bool:
        """Whether the connection accepts requests at all."""
        return self.reusable and not self._transport.is_closing()

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._streams

    def begin(self, request: Request, deadline: float) -> Stream:
        """Send a request with whatever else is sent in this turn of the event loop. Raises Unreachable."""
        if not self.room:
            raise Unreachable("the connection broke before the request was sent")
        fields = self._writer.block(request)  # first, because it may raise
        stream = Stream(self, self._next, deadline, self._stream_window)
        self._next += 2
        self._streams[stream.number] = stream
        body = request.body
        flags = Flag.END_HEADERS if body else Flag.END_HEADERS | Flag.END_STREAM
        self._send_fields(stream.number, flags, fields)
        if body:
            if len(body) <= _LARGEST_FRAME and len(body) <= self._window and len(body) <= stream.window:
                self._window -= len(body)
                self._send(Kind.DATA, Flag.END_STREAM, stream.number, body)
            else:
                stream.unsent = body
                self._upload(stream)
        return stream

    def _send_fields(self, number: int, flags: int, block: bytes) -> None:
        if len(block) <= _LARGEST_FRAME:
            self._send(Kind.HEADERS, flags, number, block)
            return
        self._send(Kind.HEADERS, flags & ~Flag.END_HEADERS, number, block[:_LARGEST_FRAME])
        for at in range(_LARGEST_FRAME, len(block), _LARGEST_FRAME):
            last = Flag.END_HEADERS if at + _LARGEST_FRAME >= len(block) else 0
            self._send(Kind.CONTINUATION, last, number, block[at : at + _LARGEST_FRAME])

    def _upload(self, stream: Stream) -> None:
        """Send as much of a body as the windows allow."""
        while stream.unsent:
            size = min(len(stream.unsent), _LARGEST_FRAME, self._window, stream.window)
            if size <= 0:
                return
            piece, stream.unsent = stream.unsent[:size], stream.unsent[size:]
            self._window -= size
            stream.window -= size
            self._send(Kind.DATA, 0 if stream.unsent else Flag.END_STREAM, stream.number, piece)

    def _send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(frame(kind, flags, stream, payload))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def give_up(self, stream: Stream, error: Exception | None) -> None:
        """End one request; the server is told not to go on with it."""
        if self._streams.pop(stream.number, None) is None:
            return
        self._send(Kind.RST_STREAM, 0, stream.number, Code.CANCEL.to_bytes(4, "big"))
        if error is not None and not stream.answer.done():
            stream.answer.set_exception(error)
        self._rest_in_peace()

    def retire(self) -> None:
        """Take no more requests, and close after the last answer."""
        self.reusable = False
        self._rest_in_peace()

    def abort(self) -> None:
        """Close at once; requests under way end as Unreachable."""
        self.reusable = False
        self._transport.abort()

    def _rest_in_peace(self) -> None:
        if not (self.reusable or self._streams):
            self._flush()
            self._transport.close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        ours = {Setting.HEADER_TABLE_SIZE: 0, Setting.ENABLE_PUSH: 0, Setting.INITIAL_WINDOW_SIZE: _WINDOW}
        wider = frame(Kind.WINDOW_UPDATE, 0, 0, (_WINDOW - _FIRST_WINDOW).to_bytes(4, "big"))
        self._transport.write(PREFACE + settings({int(key): value for key, value in ours.items()}) + wider)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.reusable = False
        self._fail_all(f"the connection broke: {exc or 'the server closed it'}")

    def _fail_all(self, why: str, *, above: int = 0, sent: bool = True) -> None:
        if not self.told.done():
            self.told.set_exception(Unreachable(why))
            self.told.exception()  # marks the exception as retrieved: perhaps no caller waits for it
        for number in [number for number in self._streams if number > above]:
            answer = self._streams.pop(number).answer
            if not answer.done():
                answer.set_exception(Unreachable(why, sent=sent))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        try:
            while (start := at + HEAD_SIZE) <= end:
                size, kind, flags, number = frame_head(data, at)
                if size > _LARGEST_FRAME:
                    raise ProtocolError("a frame is longer than allowed")
                if start + size > end:
                    break
                at = start + size
                self._take(kind, flags, number, data[start:at])
        except (ProtocolError, hpack.HPACKError, ValueError) as fault:
            self._broken(str(fault) or type(fault).__name__)
            return
        self._rest = data[at:]

    def _broken(self, why: str) -> None:
        self._rest = b""
        self._fail_all(f"the answer cannot be understood: {why}")
        goodbye = (0).to_bytes(4, "big") + Code.PROTOCOL_ERROR.to_bytes(4, "big")
        self._transport.write(frame(Kind.GOAWAY, 0, 0, goodbye))
        self.abort()

    # Frames

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._continued is not None and (kind != Kind.CONTINUATION or number != self._continued.number):
            raise ProtocolError("a field block is cut by another frame")
        match kind:
            case Kind.DATA:
                self._data(flags, number, payload)
            case Kind.HEADERS:
                self._fields(flags, number, payload)
            case Kind.CONTINUATION:
                self._continuation(flags, payload)
            case Kind.WINDOW_UPDATE:
                self._wider(number, payload)
            case Kind.SETTINGS:
                self._settings(flags, payload)
            case Kind.PING:
                if not flags & Flag.ACK:
                    self._send(Kind.PING, Flag.ACK, 0, payload)
            case Kind.RST_STREAM:
                self._reset(number, payload)
            case Kind.GOAWAY:
                self._goes_away(payload)
            case Kind.PUSH_PROMISE:
                raise ProtocolError("the server pushes though it was asked not to")

    def _fields(self, flags: int, number: int, payload: bytes) -> None:
        if flags & (Flag.PADDED | Flag.PRIORITY):
            payload = unpadded(flags, payload)
            payload = payload[5:] if flags & Flag.PRIORITY else payload
        stream = self._streams.get(number)
        if stream is None:
            if not number % 2 or number >= self._next:
                raise ProtocolError("an answer to no request")
            stream = Stream(self, number, 0.0, 0)  # given up since: its fields are read past
        if flags & Flag.END_HEADERS:
            self._answer_fields(stream, payload, bool(flags & Flag.END_STREAM))
        else:
            stream.fields = payload
            self._continued, self._ends = stream, bool(flags & Flag.END_STREAM)

    def _continuation(self, flags: int, payload: bytes) -> None:
        stream = self._continued
        if stream is None:
            raise ProtocolError("a field block goes on that did not begin")
        stream.fields += payload
        if len(stream.fields) > _LONGEST_FIELDS:
            raise ProtocolError("its fields do not end")
        if flags & Flag.END_HEADERS:
            self._continued = None
            self._answer_fields(stream, stream.fields, self._ends)

    def _answer_fields(self, stream: Stream, block: bytes, ends: bool) -> None:
        if stream.head is None:  # else it is a trailer, which says nothing we need
            status, retry_after = self._reader.read(block)
            if status >= 200:  # before that, it only says that an answer is to come
                stream.head = status, retry_after
        if ends:
            self._done(stream)

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._taken += size
        if self._taken > _WINDOW // 2:
            self._send(Kind.WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4, "big"))
            self._taken = 0
        stream = self._streams.get(number)
        if stream is None:
            return  # given up since
        stream.content.append(unpadded(flags, payload) if flags & Flag.PADDED else payload)
        if flags & Flag.END_STREAM:
            self._done(stream)
            return
        stream.taken += size
        if stream.taken > _WINDOW // 2:
            self._send(Kind.WINDOW_UPDATE, 0, number, stream.taken.to_bytes(4, "big"))
            stream.taken = 0

    def _done(self, stream: Stream) -> None:
        if self._streams.pop(stream.number, None) is None:
            return
        if stream.unsent:  # answered before the whole body was sent: the rest is not sent
            self._send(Kind.RST_STREAM, 0, stream.number, Code.NO_ERROR.to_bytes(4, "big"))
        if not stream.answer.done():
            if stream.head is None:
                stream.answer.set_exception(Unreachable("the answer has no status", sent=True))
            else:
                content = stream.content
                whole = content[0] if len(content) == 1 else b"".join(content)
                stream.answer.set_result(Answer(stream.head[0], "", stream.head[1], whole))
        if not self.reusable:
            self._rest_in_peace()

    def _reset(self, number: int, payload: bytes) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        code = int.from_bytes(payload[:4], "big")
        if not stream.answer.done():
            unheard = code == Code.REFUSED_STREAM
            why = f"the server {'refused' if unheard else 'broke off'} the request (HTTP/2 code {code})"
            stream.answer.set_exception(Unreachable(why, sent=not unheard))
        self._rest_in_peace()

    def _goes_away(self, payload: bytes) -> None:
        """The server takes no more requests; those after the last one it names were not looked at."""
        self.reusable = False
        last = int.from_bytes(payload[:4], "big") & STREAM
        self._fail_all("the server goes away and did not look at the request", above=last, sent=False)
        self._rest_in_peace()

    def _settings(self, flags: int, payload: bytes) -> None:
        if flags & Flag.ACK:
            return
        for at in range(0, len(payload) - 5, 6):
            key, value = int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            match key:
                case Setting.HEADER_TABLE_SIZE:
                    self._writer.table_size(value)
                case Setting.MAX_CONCURRENT_STREAMS:
                    self._most = value
                case Setting.INITIAL_WINDOW_SIZE:
                    if value > STREAM:
                        raise ProtocolError("a window is larger than allowed")
                    for stream in self._streams.values():
                        stream.window += value - self._stream_window
                    self._stream_window = value
        self._send(Kind.SETTINGS, Flag.ACK, 0, b"")
        if not self.told.done():
            if self._most == 0:
                raise ProtocolError("it takes no requests at all")
            self.told.set_result(None)
        self._go_on()

    def _wider(self, number: int, payload: bytes) -> None:
        more = int.from_bytes(payload[:4], "big") & STREAM
        if number == 0:
            self._window += more
            self._go_on()
        elif (stream := self._streams.get(number)) is not None:
            stream.window += more
            self._upload(stream)

    def _go_on(self) -> None:
        """Send bodies that waited for a window, oldest first."""
        for stream in self._streams.values():
            if stream.unsent:
                self._upload(stream)
