"""`t9ksched exec`, from outside."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import Up, environment, until


@pytest.fixture(scope="module")
def gang(up: Up) -> Iterator[str]:
    up.must("run", "--image", "i", "--replicas", "2", "--gpus", "1", "--name", "works", "--", "train.py")
    up.must("wait", "pj/works", "--for", "running")
    yield "pj/works"
    up.must("cancel", "pj/works", "--yes")
    until(lambda: up.pods() == [], "no pods")


def test_a_command_in_a_pod_of_a_job(up: Up, gang: str) -> None:
    assert up.must("exec", gang, "--", "hostname") == "works-worker-0\n"
    assert up.must("exec", gang, "--rank", "1", "--", "hostname") == "works-worker-1\n"
    assert up.must("exec", gang, "-c", "pytorch", "--", "nvidia-smi", "-L").startswith("GPU ")
    assert up.cli("exec", gang, "-i", "--", "cat", stdin="typed").out == "typed"
    done = up.cli("exec", gang, "--", "sh", "-c", "echo out; nope; exit 9")
    assert (done.code, done.out, done.err) == (9, "out\n", "sh: nope: not found\n")


def test_a_shell_on_a_terminal(up: Up, gang: str) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "t9ksched", "exec", gang, "-it", "--", "sh"]
    process = subprocess.Popen(words, env=environment(up.data_dir), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"# " not in shown:
        shown += os.read(ours, 4096)
    os.write(ours, b"hostname\rexit 4\r")
    assert process.wait(120) == 4
    while b"exit 4" not in shown:
        shown += os.read(ours, 4096)
    os.close(ours)
    assert b"works-worker-0\r\n" in shown, shown


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("pj/works",), 2, "Missing argument"),
        (("pj/works", "-t", "--", "sh"), 2, "-t needs a terminal"),
        (("pj/works", "--rank", "7", "--", "ls"), 1, "has no pod of that rank: it has the ranks 0 to 1"),
        (("pj/works", "-c", "x", "--", "ls"), 1, "has none of that name: pytorch"),
        (("pj/works", "--kubeconfig", "/nowhere", "--", "ls"), 1, "There is no kubeconfig at /nowhere"),
        (("pj/works", "--", "nope"), 1, "executable file not found"),
        (("pj/nope", "--", "ls"), 1, "NotFound"),
        (("pj/works", "--token", "wrong", "--", "ls"), 1, "Unauthenticated"),
    ],
)
def test_what_cannot_be_run_is_told(up: Up, gang: str, words: tuple[str, ...], code: int, told: str) -> None:
    done = up.cli("exec", *words)
    assert (done.code, told in done.err) == (code, True), done.err


def test_a_limit_that_ends_a_job_at_once_is_asked_about(up: Up, gang: str) -> None:
    until(lambda: up.cli("update", gang, "--time-limit", "1s").code == 2, "a job that has run for a second")
    asked = up.cli("update", gang, "--time-limit", "1s")
    assert "is ended at once: 2 of 2 pods run on 2 cards" in asked.out
    assert "PyTorchTrainingJob/works has the time limit 9h now" in up.must("update", gang, "--time-limit", "9h")
