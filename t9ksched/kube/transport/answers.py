"""From what a server answered, or did not, to a value or to one `ApiError`: nothing of an HTTP library passes here."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

import aiohttp
import msgspec

from t9ksched.kube.errors import ApiError, TimedOut, Unreachable, error_from_status
from t9ksched.kube.port import ADDED, DELETED, ERROR, MODIFIED, Object, Payload, WatchEvent
from t9ksched.kube.transport.deep import shallow

T = TypeVar("T")


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(_Event)
_ANY = msgspec.json.Decoder()
_HEADS: Final = tuple((b'{"type":"%s","object":' % name.encode(), name) for name in (MODIFIED, ADDED, DELETED))
"""How servers begin a line; what follows is the object, and the end of the line."""


class LineEvent(WatchEvent):
    """One line of a watch that begins as servers write it. That it ends so too, and is JSON, is seen by who decodes the
    object: to look for that before takes more than half as long again.
    """

    __slots__ = ("_at", "_line", "_what")

    def __init__(self, type: str, what: str, line: bytes, at: int) -> None:
        super().__init__(type)
        self._what = what
        self._line = line
        self._at = at

    @property
    def object(self) -> Object:
        self._split()
        return super().object

    @property
    def payload(self) -> Payload:
        self._split()
        return super().payload

    def decoded(self, decode: Callable[[Payload], T]) -> T:
        """What `decode` makes of the object. Raises ApiError for a line that is no event."""
        try:
            return decode(self._line[self._at : -1])
        except Exception:  # there is something else in the line, or the object is too deep, or it is really wrong
            return decode(self.payload)

    def _split(self) -> None:
        if self.raw is None:
            found = _careful(self._what, self._line)
            self.type, self.raw = found.type, found.raw


def event(what: str, line: bytes) -> WatchEvent:
    """One line of a watch; the request's error where the server reports one within the stream."""
    if line.endswith(b"}"):
        for head, name in _HEADS:
            if line.startswith(head):
                return LineEvent(name, what, line, len(head))
    return _careful(what, line)


def _careful(what: str, line: bytes) -> WatchEvent:
    """The same, read as JSON that may have its fields in any order."""
    try:
        found = _event(line)
        if found.type != ERROR:
            return WatchEvent(found.type, raw=bytes(found.object))
        status = msgspec.json.decode(found.object)
    except (msgspec.MsgspecError, RecursionError) as failure:
        raise Unreachable(f"{what}: an event cannot be read: {failure}", sent=True) from None
    status = status if isinstance(status, dict) else {}
    code = status.get("code")
    raise error_from_status(code if isinstance(code, int) else 500, status)


def _event(line: bytes) -> _Event:
    try:
        return _EVENT.decode(line)
    except RecursionError:
        return _EVENT.decode(shallow(line))


def refusal(what: str, status: int, reason: str, retry_after: str, content: bytes) -> ApiError:
    """The error of a response of 300 and above to `what`; without a Status body the beginning of its text tells."""
    try:
        body = _ANY.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        body = None
    if not isinstance(body, dict) or body.get("kind") != "Status":
        text = content[:200].decode("utf-8", "replace").strip()
        body = {"reason": reason, "message": f"{what}: {text or 'no explanation given'}"}
    return error_from_status(status, body, float(retry_after) if retry_after.isdecimal() else None)


def raise_unanswered(what: str, failure: BaseException) -> NoReturn:
    """One of our own errors for one of aiohttp's: sent or not, which decides whether a write may have happened."""
    unsent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL, ssl.SSLError)
    text = str(failure) or type(failure).__name__
    if isinstance(failure, unsent):
        raise Unreachable(f"{what}: cannot connect: {text}") from failure
    if isinstance(failure, TimeoutError):
        raise TimedOut(f"{what}: no answer in time") from failure
    raise Unreachable(f"{what}: the connection broke: {text}", sent=True) from failure
