"""Lines out of chunks: a watch stream is one JSON document a line, cut by the network wherever it likes.

Lines may be of any length (a ConfigMap event can have megabytes), and the work stays linear in the bytes received:
parts of an unfinished line are kept as they came and joined once.
"""

from __future__ import annotations


class LineSplitter:
    """Feed chunks, get the lines that became complete, without their line ends; empty lines are dropped."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, in order."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        return [line for line in lines if line and not line.isspace()]

    @property
    def rest(self) -> bytes:
        """What came after the last line end: not empty at the end of a stream that was cut inside a line."""
        return b"".join(self._parts)
