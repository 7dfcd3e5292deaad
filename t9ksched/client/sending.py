"""Sends requests with the standard library alone, so that a command starts fast: importing an HTTP library takes longer
than most commands do. May be used by several threads.
"""

import ssl
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

from t9ksched.client.calls import Answer, Call, is_local, problem
from t9ksched.client.errors import Unreachable

TIMEOUT_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 45.0
"""A stream that brings nothing for so long is broken: the service says every 15 seconds that it lives."""
_PART: Final = 65_536


class _AsItIs(HTTPErrorProcessor):
    """Takes every answer as it is, whatever its status. No redirection is followed: whatever is there would be shown
    the token.
    """

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response


class Transport:
    """Sends to one server, as the owner of a token."""

    def __init__(self, server: str, token: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self.server = server
        self._token = token
        self._timeout = timeout
        self._opener = build_opener(_AsItIs, *([ProxyHandler({})] if is_local(server) else []))

    def send(self, call: Call) -> Answer:
        """The answer, whatever its status.

        Raises:
            Unreachable: none came.
        """
        try:
            with self._open(call, self._timeout) as response:
                return _read(response)
        except (OSError, HTTPException) as error:
            raise unreachable(self.server, error, len(call.body or b"")) from None

    def stream(self, call: Call) -> Iterator[bytes]:
        """The parts of an answer without an end, as they come.

        Raises:
            Refused: it is no success.
            Unreachable: none came, or it broke off.
        """
        try:
            with self._open(call, SILENCE_SECONDS) as response:
                if response.status != 200:
                    raise problem(_read(response))
                while part := response.read1(_PART):
                    yield part
        except (OSError, HTTPException) as error:
            raise unreachable(self.server, error) from None

    def _open(self, call: Call, timeout: float) -> Any:
        request = Request(
            call.url(self.server), data=call.body, method=call.method, headers=call.all_headers(self._token)
        )
        return self._opener.open(request, timeout=timeout)


def _read(response: HTTPResponse) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, response.read())


def unreachable(server: str, error: Exception, size: int = 0) -> Unreachable:
    """What an error of a connection means; `size` is that of the body that was sent."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLError):
        return Unreachable(server, str(reason.reason or reason), trusted=False)
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    cut_off = isinstance(reason, ConnectionResetError | BrokenPipeError)
    return Unreachable(server, text, sent=size if cut_off else 0)
