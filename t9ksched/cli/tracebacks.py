"""Which tracebacks a log gets: one of a sort in full, and how many more there were in its minute.

One fault that repeats with every request or every look at an object would otherwise fill a disk with one text. Two
tracebacks are of one sort when the same logger (or event) wrote them, with the same type of error, from the same line.
Lines of libraries without a traceback are counted in the same way.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import msgspec

QUIET_SECONDS: Final = 60.0
_MOST_SORTS: Final = 200


class Sort(NamedTuple):
    """What tracebacks of one sort have in common: the logger, the type of the error, and `file:line` of its last frame.

    A line without a traceback has no error, and is written at `file:line`.
    """

    source: str
    error: str
    at: str


_OTHERS: Final = Sort("lines of many sorts", "", "")


class _Written(msgspec.Struct):
    at: float
    more: int = 0


class Tracebacks:
    """Counts tracebacks.

    Args:
        tell: is given a sort and how many more of it there were, once its minute is over.
        clock: monotonic seconds.
    """

    def __init__(self, tell: Callable[[Sort, int], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._written: dict[Sort, _Written] = {}
        self._lock = threading.Lock()

    def wanted(self, source: str, error: BaseException) -> bool:
        """Whether to write this one in full; if not, it has been counted."""
        return self._first(_sort(source, error))

    def wanted_line(self, source: str, at: str) -> bool:
        """The same for a line without a traceback, which `source` writes at a place in the code."""
        return self._first(Sort(source, "", at))

    def _first(self, sort: Sort) -> bool:
        self.tell_due()
        with self._lock:
            if sort not in self._written and len(self._written) >= _MOST_SORTS:
                sort = _OTHERS
            now, known = self._clock(), self._written.get(sort)
            if known is None:
                self._written[sort] = _Written(now)
                return True
            known.more += 1
            first, left = known.more == 1, known.at + QUIET_SECONDS - now
        if first:
            self._remind(left)
        return False

    def tell_due(self) -> None:
        """Report the counts whose minute is over."""
        with self._lock:
            now = self._clock()
            due = {sort: written for sort, written in self._written.items() if now - written.at >= QUIET_SECONDS}
            for sort in due:
                del self._written[sort]
        for sort, written in due.items():
            if written.more:
                self._tell(sort, written.more)

    def _remind(self, seconds: float) -> None:
        """Report in time; in a thread without an event loop the next traceback does it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(max(0.0, seconds) + 0.01, self.tell_due)


def given(exc_info: Any) -> BaseException | None:
    """The error that a log line is about, from what callers pass as `exc_info`."""
    if isinstance(exc_info, tuple):
        exc_info = exc_info[1]
    elif exc_info and not isinstance(exc_info, BaseException):
        exc_info = sys.exc_info()[1]
    return exc_info if isinstance(exc_info, BaseException) else None


def _sort(source: str, error: BaseException) -> Sort:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frame, at = error.__traceback__, ""
    while frame is not None:
        at = f"{PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return Sort(source, type(error).__name__, at)
