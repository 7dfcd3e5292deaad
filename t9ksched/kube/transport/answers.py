"""From what a server answered, or did not, to a value or to one `ApiError`: nothing of an HTTP library passes here."""

from __future__ import annotations

import ssl
from typing import NoReturn

import aiohttp
import msgspec

from t9ksched.kube.errors import ApiError, TimedOut, Unreachable, error_from_status
from t9ksched.kube.port import ERROR, WatchEvent
from t9ksched.kube.transport.deep import shallow


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_EVENT = msgspec.json.Decoder(_Event)
_ANY = msgspec.json.Decoder()


def event(what: str, line: bytes) -> WatchEvent:
    """One line of a watch; the request's error where the server reports one within the stream."""
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
