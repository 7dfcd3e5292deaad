"""A line on the terminal about what lasts longer than a second: what is waited for, since when, and how far it is.

It is shown on standard error, if that is a terminal, in place of nothing, and is wiped out in the end. Commands show it
from their main thread; of several at once the outermost is shown.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 1.0
"""What ends before is not told."""
_EACH_SECONDS: Final = 0.25
_WIPE: Final = "\r\x1b[K"
_shown = threading.Lock()


class _Clock:
    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> int:
        return int(time.monotonic() - self._began)


class Steps:
    """How many things of how many are done."""

    def __init__(self) -> None:
        self.done = 0

    def step(self) -> None:
        """One more is done."""
        self.done += 1


@contextmanager
def waiting(where: str) -> Iterator[None]:
    """Show that an answer is waited for, and how long already."""
    since = _Clock()
    with _line(lambda: f"waiting for {where}, {since.seconds} s"):
        yield


@contextmanager
def working() -> Iterator[None]:
    """Show that something is done, and how long already."""
    since = _Clock()
    with _line(lambda: f"at work for {since.seconds} s"):
        yield


@contextmanager
def counting(total: int) -> Iterator[Steps]:
    """Show how many things are done."""
    steps = Steps()
    with _line(lambda: f"{steps.done} of {total} done"):
        yield steps


@contextmanager
def _line(text: Callable[[], str]) -> Iterator[None]:
    here = threading.current_thread() is threading.main_thread()
    if not here or not sys.stderr.isatty() or not _shown.acquire(blocking=False):
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(text, over), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _shown.release()


def _show(text: Callable[[], str], over: threading.Event) -> None:
    from t9ksched.cli.output import console  # most commands end before it is needed

    out, pause, shown = console(sys.stderr), PATIENCE_SECONDS, False
    while not over.wait(pause):
        pause, shown = _EACH_SECONDS, True
        out.file.write(_WIPE)
        out.print(text(), end="", style="dim", no_wrap=True, overflow="ellipsis", highlight=False)
        out.file.flush()
    if shown:
        out.file.write(_WIPE)
        out.file.flush()
