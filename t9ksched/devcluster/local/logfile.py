"""The log of a container on this machine, as its supervisor wrote it: lines with the time of each, in CRI's format.

A log that grew large was put aside as `log.1` and begun anew; both are read, the older one first.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from t9ksched.devcluster.controllers.timers import to_seconds
from t9ksched.devcluster.local.supervisor import LOG, OLD_LOG

_BLOCK: Final = 1 << 16


class LogLine(NamedTuple):
    """When a line was written, as it stands in the log, and its text with its end."""

    stamp: str
    text: bytes


class LogReader:
    """Reads on from where it stopped; `close` it in the end.

    Args:
        folder: where the container is kept.
        tail: begin with so many of the last lines; None begins with the first.
        since: leave out what was written before that moment.
    """

    def __init__(self, folder: Path, tail: int | None = None, since: float | None = None) -> None:
        self._folder = folder
        self._since = since
        self._rest = b""
        self._file = -1
        self._ahead = [path for path in (folder / OLD_LOG, folder / LOG) if path.exists()]
        if tail is not None:
            self._skip(tail)

    def _skip(self, tail: int) -> None:
        """Go to the last lines."""
        for place in range(len(self._ahead) - 1, -1, -1):
            missing, start = _last_lines(self._ahead[place], tail)
            if not missing or place == 0:
                self._ahead = self._ahead[place:]
                self._open()
                os.lseek(self._file, start, os.SEEK_SET)
                return
            tail = missing

    def _open(self) -> bool:
        if not self._ahead:
            return False
        try:
            self._file = os.open(self._ahead.pop(0), os.O_RDONLY)
        except FileNotFoundError:
            return False
        return True

    def lines(self) -> Iterator[LogLine]:
        """What is there and was not read yet."""
        while self._file >= 0 or self._open():
            data = os.read(self._file, _BLOCK)
            if data:
                *whole, self._rest = (self._rest + data).split(b"\n")
                yield from (line for raw in whole if (line := self._line(raw)) is not None)
                continue
            if not self._ahead and not self._replaced():
                return
            os.close(self._file)
            self._file = -1

    def _replaced(self) -> bool:
        """Whether the log was put aside while it was read: then there is a new one."""
        try:
            newest = os.stat(self._folder / LOG)
        except FileNotFoundError:
            return False
        if os.path.samestat(newest, os.fstat(self._file)):
            return False
        self._ahead = [self._folder / LOG]
        return True

    def _line(self, raw: bytes) -> LogLine | None:
        stamp, _, tag, text = (*raw.split(b" ", 3), b"", b"", b"")[:4]
        if self._since is not None and (to_seconds(stamp[:26].decode() + "+00:00") or 0.0) < self._since:
            return None
        return LogLine(stamp.decode(), text if tag == b"P" else text + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _last_lines(path: Path, count: int) -> tuple[int, int]:
    """Where the last lines of a file begin, and how many of them it has not."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        found = 0
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            block = file.read(end - start)
            place = len(block)
            while (place := block.rfind(b"\n", 0, place)) >= 0:
                found += 1
                if found > count:
                    return 0, start + place + 1
            end = start
    return count - found, 0


def last_words(folder: Path, most_bytes: int = 2048, most_lines: int = 80) -> str:
    """The end of a log, as a kubelet quotes it for a container that failed."""
    reader = LogReader(folder, most_lines)
    try:
        text = b"".join(line.text for line in reader.lines())
    finally:
        reader.close()
    return text[-most_bytes:].decode(errors="replace").strip("\n")
