"""A request whose body goes on while it is answered: lines of JSON in both directions, by the standard library."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from t9ksched.client.calls import Answer, Call, problem
from t9ksched.client.sending import SILENCE_SECONDS, TIMEOUT_SECONDS, unreachable

NDJSON: Final = "application/x-ndjson"
_PART: Final = 65_536


class Conversation:
    """One request. `say` may be called by several threads; `close` it.

    Args:
        server: its address; no proxy is used.
        token: of the user.
        call: without a body.
    """

    def __init__(self, server: str, token: str, call: Call) -> None:
        self._server = server
        parts = urlsplit(server)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(str(parts.hostname), parts.port, timeout=TIMEOUT_SECONDS)
        self._address = call.url(server).removeprefix(f"{parts.scheme}://{parts.netloc}")
        self._headers = call.all_headers(token) | {"Content-Type": NDJSON, "Transfer-Encoding": "chunked"}
        self._method = call.method
        self._socket: socket.socket | None = None
        self._response: HTTPResponse | None = None
        self._lock = threading.Lock()

    def say(self, told: Mapping[str, Any]) -> None:
        """Send a line; nothing once the other side has closed."""
        self._chunk(json.dumps(told).encode() + b"\n")

    def _chunk(self, data: bytes) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def begin(self, first: Mapping[str, Any]) -> None:
        """Send the first line, and wait until the answer begins.

        Raises:
            Refused: it is no success.
            Unreachable: none came.
        """
        try:
            self._connection.putrequest(self._method, self._address)
            for name, value in self._headers.items():
                self._connection.putheader(name, value)
            self._connection.endheaders()
            self._socket = self._connection.sock
            self.say(first)
            self._response = self._connection.getresponse()
            if self._response.status != 200:
                headers = {name.lower(): value for name, value in self._response.headers.items()}
                raise problem(Answer(self._response.status, headers, self._response.read()))
        except (OSError, HTTPException) as error:
            raise unreachable(self._server, error) from None

    def answer(self) -> Iterator[dict[str, Any]]:
        """The lines of the answer as they come, without empty ones. Raises Unreachable when it breaks off."""
        assert self._response is not None
        rest = b""
        try:
            if self._socket is not None:
                self._socket.settimeout(SILENCE_SECONDS)
            while part := self._response.read1(_PART):
                *lines, rest = (rest + part).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        except (OSError, HTTPException) as error:
            raise unreachable(self._server, error) from None

    def close(self) -> None:
        """End the body, and the connection."""
        with suppress(OSError):
            self._chunk(b"")
        self._socket = None
        if self._response is not None:
            self._response.close()
        self._connection.close()
