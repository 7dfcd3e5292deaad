"""Commands on a terminal, from outside."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping

import pytest

from tests.acceptance.conftest import TIMEOUT_SECONDS, Up, environment, until


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, up: Up, *words: str, also: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        variables = environment(up.data_dir) | {"COLUMNS": "200", "LINES": "50"} | dict(also or {})  # what is not so
        self.process = subprocess.Popen(
            [sys.executable, "-m", "t9ksched", *words],
            env=variables | {"TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.shown = b""

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> None:
        """Read until that is shown."""
        while text.encode() not in self.shown:
            self.shown += self._read() or pytest.fail(f"{text!r} is not shown: {self.shown!r}")

    def end(self) -> int:
        """Read to the end; the exit code."""
        while part := self._read():
            self.shown += part
        return self.process.wait(120)

    def _read(self) -> bytes:
        if not select.select([self._ours], [], [], TIMEOUT_SECONDS)[0]:
            return b""
        try:
            return os.read(self._ours, 4096)
        except OSError:  # nobody writes any more
            return b""

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def try_bash(shell: Terminal, runs: Callable[[str], object]) -> None:
    """Prompt, device, size, a change of that, Ctrl-C and the exit code of a `bash -i` on it; `runs` says whether such a
    command runs.
    """
    shell.until("# " if os.getuid() == 0 else "$ ")
    shell.type(b"stty size; echo $TERM; tty\r")
    shell.until("30 100\r\nxterm\r\n/dev/pts/")
    shell.resize(77, 22)
    for _ in range(100):  # as a window that is dragged
        shell.process.send_signal(signal.SIGWINCH)
    shell.type(b"until [ \"$(stty size)\" = '22 77' ]; do sleep 0.1; done; echo resized-$((40 + 2))\r")
    shell.until("resized-42")
    shell.type(b"sleep 4321\r")
    until(lambda: runs("sleep 4321"), "a sleep")
    shell.type(b"\x03")
    until(lambda: not runs("sleep 4321"), "its end")
    shell.type(b"exit 5\r")
    assert shell.end() == 5, shell.shown
