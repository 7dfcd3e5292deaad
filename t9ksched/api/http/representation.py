"""How answers travel: a tag by which an unchanged one need not be sent again, and gzip for those who take it.

A GET that is answered 200 with JSON gets a weak `ETag`, a hash of the answer; a request that sends it back as
`If-None-Match` is answered 304 while the answer is the same. An answer that has a tag of its own keeps it: that is a
revision for `If-Match`, and what it describes may change without it, so it is never answered 304.

Streams and files pass unchanged.
"""

import gzip
import hashlib
from functools import partial
from typing import Final

from anyio import to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from t9ksched.api.http.streams import is_stream

Headers = list[tuple[bytes, bytes]]
LEAST: Final = 1024
"""Bytes of the smallest answer that is compressed: a smaller one fits into one packet anyhow."""
_ASIDE: Final = 128 * 1024
"""Bytes from which an answer is hashed and compressed in a thread: about a millisecond."""
_LEVEL: Final = 1
"""Answers are made anew each time: higher levels save a tenth of the bytes for three times the work."""
_COMPRESSED: Final = (b"application/json", b"application/problem+json", b"text/")
_CACHED: Final = (b"cache-control", b"private, no-cache")
_VARY: Final = b"Authorization, Accept-Encoding"
_DROPPED: Final = (b"content-length", b"content-type")
"""Headers that an answer without a body does not have."""


class Representation:
    """Around the app: tags and compresses answers that are sent in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = dict(scope["headers"])
        gzipped = takes_gzip(asked.get(b"accept-encoding", b""))
        known = asked.get(b"if-none-match", b"")
        start: Message | None = None

        async def whole(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and not is_stream(message):
                start = message
                return
            if start is not None:
                begun, start = start, None
                if not message.get("more_body"):
                    begun, message = await _represented(scope["method"], begun, message, known, gzipped)
                await send(begun)
            await send(message)

        await self._app(scope, receive, whole)


def takes_gzip(accepted: bytes) -> bool:
    """Whether an Accept-Encoding header names gzip and does not refuse it."""
    for part in accepted.lower().split(b","):
        name, _, weight = part.partition(b";")
        if name.strip() == b"gzip":
            return weight.strip().removeprefix(b"q=").strip() not in (b"0", b"0.0", b"0.00", b"0.000")
    return False


async def _represented(
    method: str, start: Message, last: Message, known: bytes, gzipped: bool
) -> tuple[Message, Message]:
    """The answer with its tag and in its encoding, or 304."""
    body, headers = last.get("body", b""), list(start["headers"])
    said = dict(headers)
    media = said.get(b"content-type", b"")
    tagged = (
        method == "GET"
        and start["status"] == 200
        and media.startswith(b"application/json")
        and b"etag" not in said
        and b"no-store" not in said.get(b"cache-control", b"")
    )
    packed = (
        gzipped and len(body) >= LEAST and media.startswith(_COMPRESSED) and b"content-encoding" not in said
    )  # headers only grow here, so the size of what is sent does not exceed that of the answer
    if not tagged and not packed:
        return start, last
    work = partial(_made, body, known, tagged, packed)
    tag, small = await to_thread.run_sync(work) if len(body) >= _ASIDE else work()
    if tagged:
        headers += [(b"etag", tag), *([] if b"cache-control" in said else [_CACHED])]
    if small is None:
        kept = [pair for pair in headers if pair[0] not in _DROPPED]
        headers = [*_varied(kept), (b"content-length", b"0")]
        return {**start, "status": 304, "headers": headers}, {**last, "body": b""}
    headers = _varied(headers)
    if packed:
        sized = [pair for pair in headers if pair[0] != b"content-length"]
        headers = [*sized, (b"content-encoding", b"gzip"), (b"content-length", str(len(small)).encode())]
    return {**start, "headers": headers}, {**last, "body": small}


def _made(body: bytes, known: bytes, tagged: bool, packed: bool) -> tuple[bytes, bytes | None]:
    """The tag of an answer, and what is sent of it: nothing if the tag is known."""
    tag = b'W/"%b"' % hashlib.blake2b(body, digest_size=12).hexdigest().encode() if tagged else b""
    if tagged and _matches(known, tag):
        return tag, None
    return tag, gzip.compress(body, _LEVEL, mtime=0) if packed else body


def _varied(headers: Headers) -> Headers:
    """The headers, with what the answer depends on."""
    others = [value for name, value in headers if name == b"vary"]
    rest = [pair for pair in headers if pair[0] != b"vary"]
    return [*rest, (b"vary", b", ".join([*others, _VARY]))]


def _matches(known: bytes, tag: bytes) -> bool:
    """Whether an If-None-Match header names the tag; weak and strong tags are compared as weak ones."""
    if known.strip() == b"*":
        return True
    return tag.removeprefix(b"W/") in {one.strip().removeprefix(b"W/") for one in known.split(b",")}
