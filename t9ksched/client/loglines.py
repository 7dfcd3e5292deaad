"""Takes a log with times apart into its lines, and keeps the place behind the last one: a log that broke off is read on
from there, and no line comes twice.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from t9ksched.client.models import LogLine, Pod

_LONGEST: Final = 1024 * 1024
"""Bytes of a line; a longer one is told in pieces."""


class LogReader:
    """Reads the log of one pod, each line of which begins with its time."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self._rest = b""
        self._last = ""
        self._alike = 0
        """Lines with the time of the last one."""
        self._skip = 0

    @property
    def since(self) -> str | None:
        """From which moment on to read further; None for all."""
        return self._last or None

    def begin(self) -> None:
        """Another connection: it begins with the lines of the last moment, which are known."""
        self._rest, self._skip = b"", self._alike

    def feed(self, part: bytes) -> list[LogLine]:
        """The lines that end in this part."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        return list(self._told(lines))

    def end(self) -> list[LogLine]:
        """What was written last without an end of line."""
        rest, self._rest = self._rest, b""
        return list(self._told([rest] if rest else []))

    def _told(self, lines: list[bytes]) -> Iterator[LogLine]:
        for line in lines:
            stamp, _, text = line.decode(errors="replace").partition(" ")
            time = _moment(stamp)
            if time is None:
                yield LogLine(pod=self.pod.name, rank=self.pod.rank, text=f"{stamp} {text}" if text else stamp)
                continue
            if stamp < self._last:
                continue
            if stamp == self._last and self._skip:
                self._skip -= 1
                continue
            self._skip = 0
            self._alike = self._alike + 1 if stamp == self._last else 1
            self._last = stamp
            yield LogLine(pod=self.pod.name, rank=self.pod.rank, time=time, text=text.removesuffix("\r"))


def _moment(stamp: str) -> datetime | None:
    """A time as Kubernetes writes it before a line, with nanoseconds."""
    if len(stamp) < len("2026-01-01T00:00:00Z") or stamp[4:5] != "-":
        return None
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return None
