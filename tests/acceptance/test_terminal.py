"""Commands on a terminal of 80 columns: what fits, what is told while one waits, and Ctrl-C."""

import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl

import pytest

from tests.acceptance.conftest import Up, environment, until

ENDS = ("--annotation", "devcluster.tensorstack.dev/run-seconds=1")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command on a terminal of 80 columns and 24 lines."""

    def __init__(self, up: Up, arguments: Sequence[str], **also: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        variables = environment(up.data_dir) | {"TERM": "xterm-256color"} | also
        variables.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "t9ksched", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=variables,
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.raw = ""

    @property
    def text(self) -> str:
        """What it wrote until now, without escapes."""
        try:
            while part := os.read(self._ours, 65_536):
                self.raw += part.decode(errors="replace")
        except OSError:
            pass  # nothing more for now, or ever
        return ESCAPES.sub("", self.raw).replace("\r", "")

    def shows(self, pattern: str) -> None:
        """Wait until it has written something."""
        until(lambda: re.search(pattern, self.text), f"{pattern!r} in {self.text!r}")

    def end(self) -> int:
        """Wait for its end, and read meanwhile what it writes: a terminal that nobody reads stops it. Its exit code."""
        until(lambda: (self.text, self.process.poll() is not None)[1], f"the end of {self.process.args}")
        assert "Traceback" not in self.text
        return int(self.process.returncode)

    def close(self) -> None:
        """End it anyhow."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def terminal(up: Up, *arguments: str, **also: str) -> Iterator[Terminal]:
    shown = Terminal(up, arguments, **also)
    try:
        yield shown
    finally:
        shown.close()


@pytest.fixture
def waiting(up: Up) -> Iterator[str]:
    """A job that waits, and one that runs."""
    up.must("run", "--image", "i", "--name", "a-name-that-is-longer-than-most-names-are", "--gpus", "4", "--", "x")
    up.must("run", "--image", "i", "--name", "later", "--begin", "2100-01-01T00:00:00Z", "--", "x")
    yield "job/later"
    up.cli("cancel", "job/later", "job/a-name-that-is-longer-than-most-names-are", "--yes")
    until(lambda: not up.pods() and up.held() == 0, "an empty cluster")


def test_the_list_fits_and_reasons_are_sentences(up: Up, waiting: str) -> None:
    with terminal(up, "jobs") as shown:
        assert shown.end() == 0
        text = shown.text
        assert max(map(len, text.splitlines())) <= 80
        assert "job/a-name-" in text
        assert "Job/later waits: StartTimeNotReached" in text
        assert "\x1b[3" in shown.raw
    with terminal(up, "jobs", NO_COLOR="1") as shown:
        assert shown.end() == 0
        assert "\x1b[3" not in shown.raw


def test_a_list_that_is_watched_changes_until_ctrl_c(up: Up, waiting: str) -> None:
    with terminal(up, "jobs", "--watch") as shown:
        shown.shows("job/later")
        up.must("run", "--image", "i", "--name", "new", *ENDS, "--", "x")
        shown.shows(r"job/new +\S+ +default.* Succeeded")
        shown.process.send_signal(signal.SIGINT)
        assert shown.end() == 130
    up.must("cancel", "job/new", "--yes")


@pytest.mark.parametrize("code", [0, 3])
def test_waiting_tells_the_reason_and_every_change(up: Up, code: int) -> None:
    fails = ("--annotation", f"devcluster.tensorstack.dev/exit-code={code}")
    begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6))
    up.must("run", "--image", "i", "--name", "soon", "--begin", begin, *ENDS, *fails, "--", "x")
    try:
        with terminal(up, "wait", "job/soon", "--for", "succeeded") as shown:
            ended = shown.end()
            assert "StartTimeNotReached" in shown.text
            assert "Job/soon is Running: 1 of 1 run" in shown.text
            assert (ended, "ended as Failed" in shown.text) == ((0, False) if code == 0 else (1, True)), shown.text
    finally:
        up.must("cancel", "job/soon", "--yes")
    until(lambda: not up.pods(), "an empty cluster")


def test_ctrl_c_ends_a_wait_and_top_without_a_traceback(up: Up, waiting: str) -> None:
    with terminal(up, "wait", waiting, "--for", "running") as shown:
        shown.shows("StartTimeNotReached")
        shown.process.send_signal(signal.SIGINT)
        assert shown.end() == 130
    with terminal(up, "top") as shown:
        shown.shows("nodes ready")
        os.write(shown._ours, b"q")
        assert shown.end() == 0


def test_top_says_what_is_wrong_before_it_begins(up: Up) -> None:
    with terminal(up, "top", "--token", "wrong") as shown:
        assert shown.end() == 1
        assert "Unauthenticated" in shown.text
    with terminal(up, "top", "--server", "http://127.0.0.1:9") as shown:
        assert shown.end() == 1
        assert "Nothing answers" in shown.text
