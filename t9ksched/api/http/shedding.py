"""Refuses what the limiter would refuse before HTTP's library has read it, so that a flood costs little.

Only a request that arrived whole, alone and in the plain form that clients send is examined; any other takes the usual
path, and is refused there if necessary. The decision and the answer are those of `t9ksched.api.http.overload`.
"""

import re
import time
import uuid
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI
from uvicorn.protocols.http import h11_impl
from uvicorn.protocols.http.h11_impl import H11Protocol

from t9ksched.api.http.middleware import GUARDS, NO_PAGE
from t9ksched.api.http.overload import caller_of, problem, tell
from t9ksched.api.services import Services
from t9ksched.serving import answering
from t9ksched.serving.overload import State

_IDLE: Final = h11_impl.h11.IDLE  # type: ignore[attr-defined]
_MOST: Final = 64 * 1024
_REQUEST: Final = re.compile(rb"(?:GET|POST|PUT|PATCH|DELETE) /apis/[!-$&-~]* HTTP/1\.1\r\n")
"""Without `%`: escaped addresses are left to the library."""
_ODD: Final = re.compile(rb"\r\n[ \t]|\r\n(?:transfer-encoding|expect|upgrade|connection)[ \t]*:", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_SECRET: Final = re.compile(rb"\r\nauthorization:[ \t]*[!-~]+[ \t]+([!-~]+)[ \t]*(?=\r\n)", re.IGNORECASE)
_BREAK: Final = b"\r\n"
_END: Final = b"\r\n\r\n"
_ID: Final = b"{id}"


def shedding(app: FastAPI) -> type[H11Protocol]:
    """Uvicorn's protocol, which asks the limiter of the app's services first."""

    class Shedding(H11Protocol):
        def data_received(self, data: bytes) -> None:
            services: Services = app.state.services
            if services.limiter.crowded and self._at_rest() and (secret := secret_of(data)) is not None:
                caller = caller_of(services, secret, self.client)
                state = services.limiter.refusal(caller, time.monotonic())
                if state is not None:
                    self._refuse(state)
                    return
            super().data_received(data)

        def _at_rest(self) -> bool:
            """Whether nothing is under way, in either direction."""
            conn = self.conn
            resting = conn.our_state is _IDLE and conn.their_state is _IDLE and not conn.trailing_data[0]
            return resting and not self.transport.get_write_buffer_size() and not self.transport.is_closing()

        def _refuse(self, state: State) -> None:
            self._unset_keepalive_if_required()
            with answering():
                self.transport.write(_ANSWERS[state].replace(_ID, uuid.uuid4().hex[:12].encode(), 1))
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            tell(app.state.services.limiter)

    return Shedding


def secret_of(data: bytes) -> str | None:
    """The token of a request that these bytes are, whole and alone, empty without one; None for any other bytes."""
    if len(data) > _MOST or not _REQUEST.match(data):
        return None
    at = data.find(_END)
    head = data[: at + 2]
    if at < 0 or head.count(b"\n") != head.count(_BREAK) or _ODD.search(head):
        return None
    lengths = _LENGTH.findall(head)
    if len(lengths) != head.lower().count(b"content-length") or len(lengths) > 1:
        return None
    if len(data) - at - len(_END) != (int(lengths[0]) if lengths else 0):
        return None
    found = _SECRET.findall(head)
    if len(found) != head.lower().count(b"\nauthorization") or len(found) > 1:
        return None
    return found[0].decode("latin-1") if found else ""


def _answer(state: State) -> bytes:
    """The whole answer, with a place for the request's id."""
    made = problem(state).response()
    headers = [*made.raw_headers, *GUARDS, NO_PAGE, (b"x-request-id", _ID)]
    lines = b"".join(name + b": " + value + _BREAK for name, value in headers)
    return (
        b"HTTP/1.1 %d %s\r\n" % (made.status_code, HTTPStatus(made.status_code).phrase.encode())
        + lines
        + _BREAK
        + bytes(made.body)
    )


_ANSWERS: Final = {state: _answer(state) for state in (State.SHARE, State.FULL)}
