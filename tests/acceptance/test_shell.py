"""`t9ksched run --pty` from outside, on a terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.acceptance.conftest import TIMEOUT_SECONDS, Up, environment, until

RUN = ("run", "--pty", "--image", "i", "--gpus", "1", "--name")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, up: Up, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        variables = {key: value for key, value in environment(up.data_dir).items() if key != "COLUMNS"}
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


@contextmanager
def terminal(up: Up, *words: str) -> Iterator[Terminal]:
    """A command on a terminal; afterwards no job is left."""
    one = Terminal(up, *words)
    try:
        yield one
    finally:
        one.close()
        until(lambda: up.pods() == [] and up.rest("GET", f"/apis/v1/workloads/default/Job/{words[-3]}")[0] == 404, "")


def job(up: Up, name: str) -> dict[str, Any]:
    return dict(up.rest("GET", f"/apis/v1/workloads/default/Job/{name}")[1])


def test_a_shell_in_the_pod_of_a_job_that_ends_with_it(up: Up) -> None:
    with terminal(up, *RUN, "shell", "--", "sh") as shell:
        shell.until("# ")
        pods = up.pods()
        assert (len(pods), up.held()) == (1, 1)
        shell.type(b"hostname\r")
        shell.until(f"{pods[0]['metadata']['name']}\r\n")
        shell.type(b"sleep 60\x03")  # Ctrl-C is for the shell
        shell.until("^C")
        assert shell.process.poll() is None
        shell.type(b"exit 7\r")
        assert shell.end() == 7, shell.shown
        assert b"Job/shell is being deleted" in shell.shown, shell.shown


def test_waiting_tells_why_and_ctrl_c_ends_the_job(up: Up) -> None:
    words = [*RUN, "vast", "--", "sh"]
    words[words.index("--gpus") + 1] = "8"
    words[words.index("--gpus") : words.index("--gpus")] = ["--gpu-model", "A40"]
    with terminal(up, *words) as shell:
        shell.until("NeverFits")
        assert job(up, "vast")["phase"] == "Pending"
        shell.type(b"\x03")
        assert shell.end() == 130, shell.shown
        assert b"Job/vast is being deleted" in shell.shown
        assert b"Traceback" not in shell.shown


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_the_job_ends_with_a_command_that_is_killed(up: Up, number: int) -> None:
    with terminal(up, *RUN, f"killed-{number}", "--", "sh") as shell:
        shell.until("# ")
        shell.process.send_signal(number)
        assert shell.process.wait(120) == -number


def test_a_job_that_is_ended_meanwhile_is_told(up: Up) -> None:
    with terminal(up, *RUN, "limited", "--", "sh") as shell:
        shell.until("# ")
        up.must("cancel", "job/limited", "--yes")
        assert shell.end() == 1, shell.shown
        assert b"The command was ended with its pod" in shell.shown, shell.shown
        assert b"Job/limited was deleted" in shell.shown or b"Terminating" in shell.shown, shell.shown


def test_what_cannot_be_run_ends_the_job_too(up: Up) -> None:
    with terminal(up, *RUN, "none", "--", "nope") as shell:
        assert shell.end() == 1
        assert b"executable file not found" in shell.shown, shell.shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--pty needs a terminal"),
        (("--array", "0-3"), "an array has many"),
        (("--replicas", "2"), "--replicas 2 makes more"),
        (("--torchrun",), "torchrun starts processes of its own"),
        (("--retries", "1"), "is not made again"),
        (("--follow",), "follows the job already"),
        (("-o", "json"), "there is no JSON"),
    ],
)
def test_what_is_no_shell_is_refused(up: Up, words: tuple[str, ...], told: str) -> None:
    done = up.cli("run", "--pty", "--image", "i", *words, "--", "sh")
    assert (done.code, told in done.err) == (2, True), done.err
    assert up.pods() == []


def test_a_dry_run_needs_no_terminal(up: Up) -> None:
    assert "would start at once" in up.must("run", "--pty", "--image", "i", "--dry-run", "--", "sh")
