"""`t9ksched exec` and `run --pty` on a machine of its own: commands in containers that are processes."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up, until
from tests.acceptance.terminal import Terminal, try_bash
from tests.acceptance.test_here import close, get, mine, pod, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs Linux")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """This machine."""
    up = Up(tmp_path_factory.mktemp("here") / "data", "--here", fresh=True)
    try:
        yield up
        assert up.process.poll() is None, up.log
    finally:
        close(up)


@pytest.fixture
def box(here: Up, tmp_path: Path) -> Iterator[str]:
    """A container with a directory of its own, and a file that its process made in it."""
    name = f"box-{tmp_path.name.rsplit('_')[-1][:8]}".lower().rstrip("-")
    obj = pod(
        name,
        "echo inside >/t9k-test/own/file; echo ready; sleep 10000",
        env=[{"name": "GREETING", "value": "hi"}],
        workingDir="/tmp",
        volumeMounts=[{"name": "own", "mountPath": "/t9k-test/own"}],
    )
    obj["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    start(here, obj)
    until(lambda: here.cli("logs", f"pod/{name}").out == "ready\n", "a process")
    yield name
    here.cli("cancel", f"pod/{name}", "--yes")
    until(lambda: get(here, name) == {}, "an end")


def test_a_command_has_what_the_container_has(here: Up, box: str) -> None:
    def told(*command: str, stdin: str = "") -> str:
        words = ("-i",) if stdin else ()
        return here.must("exec", f"pod/{box}", *words, "--", *command, stdin=stdin)

    assert told("sh", "-c", "echo $GREETING $PWD $CUDA_VISIBLE_DEVICES") == "hi /tmp\n"
    assert told("cat", "/t9k-test/own/file") == "inside\n"
    assert told("id", "-u") == f"{os.getuid()}\n"
    assert told("cat", stdin="typed\n" * 20_000) == "typed\n" * 20_000
    assert told("sh", "-c", "readlink /proc/self/ns/mnt; cat /proc/self/cgroup") == told(
        "sh", "-c", "p=$(pgrep -xf 'sleep 10000' | head -1); readlink /proc/$p/ns/mnt; cat /proc/$p/cgroup"
    )
    assert not Path("/t9k-test").exists()
    done = here.cli("exec", f"pod/{box}", "--", "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (done.code, done.out, done.err) == (9, "out\n", "err\n")
    done = here.cli("exec", f"pod/{box}", "--", "sh", "-c", "kill -9 $$")
    assert done.code == 137
    done = here.cli("exec", f"pod/{box}", "--", "no-such-command")
    assert (done.code, 'exec: "no-such-command": executable file not found in $PATH' in done.err) == (1, True), done.err


def test_a_terminal(here: Up, box: str) -> None:
    with closing(Terminal(here, "exec", f"pod/{box}", "-it", "--", "bash", "--norc", "-i")) as shell:
        try_bash(shell, lambda command: running(here, command))


def running(up: Up, command: str) -> list[int]:
    """The processes of jobs with that command line."""
    found = []
    for pid in mine(up):
        try:
            if Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")[:-1] == command.encode().split():
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_command_whose_client_is_gone_is_hung_up(here: Up, box: str) -> None:
    for words in (("-it",), ()):
        with closing(Terminal(here, "exec", f"pod/{box}", *words, "--", "sleep", "1234")) as one:
            until(lambda: running(here, "sleep 1234"), "a sleep")
            one.process.kill()
            until(lambda: not running(here, "sleep 1234"), "its end")


def test_a_command_ends_with_its_container(here: Up, box: str) -> None:
    with closing(Terminal(here, "exec", f"pod/{box}", "--", "sh", "-c", "trap '' HUP TERM; sleep 2345")) as one:
        until(lambda: running(here, "sleep 2345"), "a sleep")
        here.must("cancel", f"pod/{box}", "--yes")
        assert one.end() == 137, one.shown
        assert running(here, "sleep 2345") == []


def test_a_shell_that_is_a_job(here: Up) -> None:
    words = ("run", "--pty", "--image", "none", "--cpu", "1", "--name", "mine", "--", "bash", "--norc", "-i")
    with closing(Terminal(here, *words)) as shell:
        shell.until("$ ") if os.getuid() else shell.until("# ")
        shell.type(b"echo $HOSTNAME-$T9K_CONTAINER_ID\r")
        shell.until("-local://")
        shell.type(b"exit 3\r")
        assert shell.end() == 3, shell.shown
    until(lambda: here.pods() == [] and mine(here) == [], "nothing left")


def test_containers_of_an_earlier_service_take_commands(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--here", fresh=True)
    try:
        start(up, pod("stays", "sleep 10000"))
        until(lambda: get(up, "stays")["status"].get("phase") == "Running", "a process")
        up.kill()
        up = Up(up.data_dir, "--here", fresh=True)
        assert up.must("exec", "pod/stays", "--", "echo", "hi") == "hi\n"
        up.must("cancel", "pod/stays", "--yes")
        until(lambda: mine(up) == [], "an end")
    finally:
        close(up)
