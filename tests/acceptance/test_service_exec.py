"""Commands in pods that the service runs, from outside: for those who have no kubeconfig."""

import base64
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from t9ksched.client.calls import Call
from t9ksched.client.conversing import Conversation
from t9ksched.client.errors import Refused
from tests.acceptance.conftest import Done, Up, run, until
from tests.acceptance.terminal import Terminal, try_bash
from tests.acceptance.test_here import close, get, mine, pod
from tests.acceptance.test_here_exec import running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs Linux")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service on this machine that runs commands in its pods, one of which is there."""
    up = Up(tmp_path_factory.mktemp("served") / "data", "--here", fresh=True, also={"T9KSCHED_REST_EXEC": "1"})
    try:
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]}]
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "execs"}
        assert up.kube("POST", f"{rbac}/clusterroles", {"metadata": {"name": "execs"}, "rules": rules})[0] == 201
        binding = {"metadata": {"name": "execs"}, "roleRef": reference, "subjects": subjects}
        assert up.kube("POST", f"{rbac}/clusterrolebindings", binding)[0] == 201
        up.must("submit", "-", "--queue", "default", stdin=json.dumps(pod("box", "sleep 10000")))
        until(lambda: get(up, "box").get("status", {}).get("phase") == "Running", "a process")
        yield up
        up.must("cancel", "pod/box", "--yes")
    finally:
        close(up)


def elsewhere(up: Up) -> Mapping[str, str]:
    """The environment of a user who knows the service alone."""
    return {
        "T9KSCHED_DATA_DIR": "/nonexistent",
        "HOME": "/nonexistent",
        "T9KSCHED_SERVER": up.server,
        "T9KSCHED_TOKEN": up.token,
    }


def execute(up: Up, *words: str, stdin: str = "") -> Done:
    return run("exec", "pod/box", *words, also=elsewhere(up), stdin=stdin)


def test_streams_and_exit_codes(served: Up) -> None:
    done = execute(served, "--", "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (done.code, done.out, done.err) == (9, "out\n", "err\n")
    done = execute(served, "-i", "--", "cat", stdin="typed\n" * 50_000)
    assert (done.code, done.out) == (0, "typed\n" * 50_000), done.err
    done = execute(served, "-i", "--", "sh", "-c", "read x; echo got $x; exit 4", stdin="a\n" + "unread\n" * 50_000)
    assert (done.code, done.out) == (4, "got a\n"), done.err
    done = execute(served, "--", "no-such-command")
    assert (done.code, "executable file not found" in done.err) == (1, True), done.err


def test_a_terminal(served: Up) -> None:
    shell = Terminal(served, "exec", "pod/box", "-it", "--", "bash", "--norc", "-i", also=elsewhere(served))
    try:
        try_bash(shell, lambda command: running(served, command))
    finally:
        shell.close()
    (event,) = [
        one
        for one in served.rest("GET", "/apis/v1/admin/audit?event=job-exec")[1]["items"]
        if one["detail"]["program"] == "bash"
    ]
    assert (event["actor"], event["name"]) == ("admin", "box")


def test_a_client_that_leaves_ends_its_command(served: Up) -> None:
    one = Terminal(served, "exec", "pod/box", "-it", "--", "sleep", "5432", also=elsewhere(served))
    try:
        until(lambda: running(served, "sleep 5432"), "a sleep")
        one.process.kill()
        until(lambda: not running(served, "sleep 5432"), "its end")
    finally:
        one.close()


def test_a_shell_that_is_a_job(served: Up) -> None:
    words = ("run", "--pty", "--image", "none", "--cpu", "1", "--name", "mine", "--", "bash", "--norc", "-i")
    shell = Terminal(served, *words, also=elsewhere(served))
    try:
        shell.until("# " if os.getuid() == 0 else "$ ")
        shell.type(b"exit 3\r")
        assert shell.end() == 3, shell.shown
    finally:
        shell.close()
    until(lambda: len(mine(served)) == len(running(served, "sleep 10000")), "nothing but the box")


def test_what_is_said_wrongly_is_told(served: Up) -> None:
    def said(*lines: object) -> list[dict[str, object]]:
        talk = Conversation(served.server, served.token, Call("POST", "/apis/v1/workloads/default/Pod/box/exec"))
        try:
            talk.begin(lines[0])  # type: ignore[arg-type]
            for line in lines[1:]:
                talk.say(line)  # type: ignore[arg-type]
            return list(talk.answer())
        finally:
            talk.close()

    cat = {"command": ["cat"]}
    typed = {"stdin": base64.b64encode(b"x").decode()}
    assert [one.get("exitCode") for one in said(cat, typed, {"end": True})] == [None, 0]
    for line, told in (({"stdin": "§"}, "base64"), ({"nope": 1}, "'nope' is unknown"), ([1], "no JSON object")):
        assert told in str(said(cat, line)[-1]["error"])
    for first in (cat | {"terminal": "x"}, cat | {"columns": 0, "rows": 1}, cat | {"stdin": "x"}, {}):
        with pytest.raises(Refused) as refused:
            said(first)
        assert refused.value.status == 422


def test_a_service_that_runs_no_commands_says_so_before_a_job_is_made(up: Up, tmp_path: Path) -> None:
    shell = Terminal(up, "run", "--pty", "--image", "i", "--name", "none", "--", "sh", also=elsewhere(up))
    try:
        assert shell.end() == 1
        assert b"this service runs no commands in pods" in shell.shown, shell.shown
    finally:
        shell.close()
    assert up.pods() == []
    refused = run("exec", "pod/box", "-i", "--", "sh", also=elsewhere(up))
    assert refused.code == 1
