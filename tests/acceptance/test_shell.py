"""`t9ksched run --pty` from outside, on a terminal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.acceptance.conftest import Up, until
from tests.acceptance.terminal import Terminal

RUN = ("run", "--pty", "--image", "i", "--gpus", "1", "--name")


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
