"""Takes server-sent events apart, as HTML defines them: lines end with CR, LF or both, an empty one ends an event."""

import re
from typing import Final, NamedTuple

from t9ksched.client.errors import Misunderstood

_END: Final = re.compile(rb"\r\n|\n|\r")
_LONGEST: Final = 16 * 1024 * 1024
"""Bytes of one line."""


class Message(NamedTuple):
    """One event: its type, empty if it has none, and its data."""

    type: str
    data: str


class MessageReader:
    """Reads a stream part by part. `last` is the id of the last event that came whole, None before the first."""

    def __init__(self) -> None:
        self.last: str | None = None
        self._rest = b""
        self._id: str | None = None
        self._type = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> list[Message]:
        """The events that end in this part.

        Raises:
            Misunderstood: a line without an end.
        """
        text = self._rest + part
        found: list[Message] = []
        start = 0
        for end in _END.finditer(text):
            if end.group() == b"\r" and end.end() == len(text):
                break  # its line feed may be in the next part
            if (message := self._line(text[start : end.start()])) is not None:
                found.append(message)
            start = end.end()
        self._rest = text[start:]
        if len(self._rest) > _LONGEST:
            raise Misunderstood("a line of the stream of events has no end")
        return found

    def _line(self, line: bytes) -> Message | None:
        if not line:
            kind, data, self._type, self._data = self._type, self._data, "", []
            self.last = self._id
            return Message(kind, "\n".join(data)) if data else None
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
