"""The terminal of this process, while what is typed goes to a command elsewhere."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final

_PART: Final = 65_536


@contextlib.contextmanager
def raw(tty: bool) -> Iterator[None]:
    """Let the terminal of this process pass on every key, and give it back as it was."""
    if not tty:
        yield
        return
    import termios
    from tty import setraw

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    setraw(descriptor, termios.TCSADRAIN)  # what was typed ahead stays
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def size() -> tuple[int, int]:
    """Its columns and rows: not what variables say, for they change."""
    found = os.get_terminal_size(sys.stdin.fileno())
    return found.columns, found.lines


def resized(take: Callable[[int, int], object]) -> None:
    """Have `take` told the columns and rows whenever they change, by a thread: what a signal interrupts may hold a lock
    that `take` needs, and a window that is dragged sends signals into each other.
    """
    changes: SimpleQueue[None] = SimpleQueue()
    signal.signal(signal.SIGWINCH, lambda *_: changes.put(None))

    def tell() -> None:
        while True:
            changes.get()
            with contextlib.suppress(RuntimeError, OSError):  # nobody takes it any more
                take(*size())

    threading.Thread(target=tell, name="size", daemon=True).start()


def typed(take: Callable[[bytes], object]) -> None:
    """Have standard input read by a thread, which does not keep the process from ending: each part goes to `take`, an
    empty one at the end.
    """

    def read() -> None:
        while True:
            try:
                part = os.read(sys.stdin.fileno(), _PART)
            except OSError:
                part = b""
            with contextlib.suppress(RuntimeError, OSError):  # nobody takes it any more
                take(part)
            if not part:
                return

    threading.Thread(target=read, name="stdin", daemon=True).start()
