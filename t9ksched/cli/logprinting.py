"""Prints lines of logs as they are; where several pods write, each line behind the rank of its pod, a colour a rank."""

import sys
from typing import Any, Final

import msgspec
from rich.text import Text

from t9ksched.cli.output import console
from t9ksched.client.models import LogLine

_COLOURS: Final = (
    "cyan",
    "yellow",
    "green",
    "magenta",
    "blue",
    "bright_red",
    "bright_cyan",
    "bright_yellow",
    "bright_green",
    "bright_magenta",
    "bright_blue",
    "red",
)


class LinePrinter:
    """Prints on stdout.

    Args:
        prefixed: whether each line begins with the rank of its pod.
        timestamps: whether it then has its time.
        json: whether each line is a JSON object instead.
    """

    def __init__(self, *, prefixed: bool, timestamps: bool, json: bool) -> None:
        self._prefixed = prefixed
        self._timestamps = timestamps
        self._json = json
        self._out = console()
        self._prefixes: dict[tuple[int | None, str], str] = {}

    def print(self, line: LogLine, *, flush: bool) -> None:
        """One line, at once if it shall be."""
        file = self._out.file
        file.write(f"{self._encoded(line)}\n" if self._json else f"{self._shown(line)}\n")
        if flush:
            file.flush()

    def close(self) -> None:
        """Write what is left."""
        self._out.file.flush()

    def _encoded(self, line: LogLine) -> str:
        told: dict[str, Any] = line.to_dict()
        return msgspec.json.encode(told).decode()

    def _shown(self, line: LogLine) -> str:
        prefix = self._prefix(line) if self._prefixed else ""
        time = f"{line.time.isoformat().replace('+00:00', 'Z')} " if self._timestamps and line.time is not None else ""
        return f"{prefix}{time}{line.text}"

    def _prefix(self, line: LogLine) -> str:
        key = (line.rank, line.pod)
        if key not in self._prefixes:
            name = f"{line.rank:>3}" if line.rank is not None else line.pod
            colour = "bold" if line.rank is None else _COLOURS[line.rank % len(_COLOURS)]
            with self._out.capture() as shown:
                self._out.print(Text(f"{name} |", style=colour), end=" ")
            self._prefixes[key] = shown.get()
        return self._prefixes[key]


def plain_streams() -> None:
    """Let stdout take every character of a log, whatever the locale says."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
