"""Requests whose body goes on while they are answered: lines of JSON in both directions, over one connection."""

from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.types import Receive

from t9ksched.api.http.problems import Problem

NDJSON: Final = "application/x-ndjson"
_LONGEST: Final = 256 * 1024
"""Bytes of a line."""


class Left(Exception):
    """The client has left."""


class Lines:
    """The lines of a body as they come."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._rest = b""
        self._more = True

    async def next(self) -> dict[str, Any] | None:
        """The next object; None at the end of the body.

        Raises:
            Left: the client has left.
            Problem: a line is no object, or too long.
        """
        while b"\n" not in self._rest and self._more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Left
            self._rest += message.get("body", b"")
            self._more = bool(message.get("more_body"))
            if len(self._rest) > _LONGEST and b"\n" not in self._rest:
                raise Problem("Malformed", f"a line is longer than {_LONGEST // 1024} KiB", status=413)
        line, _, self._rest = self._rest.partition(b"\n")
        if not line.strip():
            return await self.next() if self._rest or self._more else None
        with suppress(msgspec.DecodeError):
            told: Any = msgspec.json.decode(line)
            if isinstance(told, dict):
                return told
        raise Problem("Malformed", "a line is no JSON object")

    async def end(self) -> None:
        """Read what is left, up to the end of the body or until the client leaves."""
        while self._more:
            message = await self._receive()
            self._more = message["type"] == "http.request" and bool(message.get("more_body"))

    async def gone(self) -> None:
        """Come back when the client has left."""
        while (await self._receive())["type"] == "http.request":
            continue
