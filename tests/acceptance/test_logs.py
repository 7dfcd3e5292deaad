"""`t9ksched logs` and the logs of the Python client, from outside."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from t9ksched.client import AsyncClient, Client
from tests.acceptance.conftest import Done, Up, environment, run, until

RUN, LINES = "devcluster.tensorstack.dev/run-seconds", "devcluster.tensorstack.dev/log-lines"
POD = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def gang(up: Up) -> Iterator[str]:
    """A job of two pods that have written two lines each."""
    words = ("--image", "i", "--replicas", "2", "--name", "talks", "--annotation", f"{LINES}=one\ntwo [red]")
    up.must("run", *words, "--", "train.py")
    up.must("wait", "pj/talks", "--for", "running")
    yield "pj/talks"
    up.must("cancel", "pj/talks", "--yes")
    until(lambda: up.pods() == [], "no pods")


def test_lines_of_one_pod_and_of_all(up: Up, gang: str) -> None:
    assert up.must("logs", gang) == "one\ntwo [red]\n"
    assert up.must("logs", gang, "--rank", "1", "--tail", "1") == "two [red]\n"
    assert up.must("logs", gang, "--all", "--tail", "1").splitlines() == ["  0 | two [red]", "  1 | two [red]"]
    assert up.must("logs", gang, "--rank", "0-1", "--tail", "1").splitlines() == ["  0 | two [red]", "  1 | two [red]"]
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ two \[red\]\n", up.must("logs", gang, "--timestamps", "--tail", "1")
    )
    assert up.must("logs", gang, "--since", "1h", "-c", "pytorch") == "one\ntwo [red]\n"
    told = [json.loads(line) for line in up.must("logs", gang, "--all", "--tail", "1", "-o", "json").splitlines()]
    assert [(one["pod"], one["rank"], one["text"]) for one in told] == [
        ("talks-worker-0", 0, "two [red]"),
        ("talks-worker-1", 1, "two [red]"),
    ]
    assert {tuple(one) for one in told} == {("pod", "rank", "time", "text")}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("pj/talks", "--rank", "7"), 1, "has no pod of that rank: it has the ranks 0 to 1"),
        (("pj/talks", "--rank", "x"), 2, "'x' is no rank"),
        (("pj/talks", "--rank", "3-1"), 2, "ends before it begins"),
        (("pj/talks", "--rank", "1", "--all"), 2, "contradict"),
        (("pj/talks", "-f", "--previous"), 2, "cannot be followed"),
        (("pj/talks", "--previous"), 1, "previous terminated container"),
        (("pj/talks", "--since", "yesterday"), 2, "--since yesterday"),
        (("pj/talks", "--container", "x"), 1, "--container: 'x' is no container"),
        (("pj/talks", "--tail", "-1"), 2, "--tail"),
        (("talks",), 2, "does not name an object"),
        (("pj/nope",), 1, "NotFound"),
        (("pj/nope", "-f"), 1, "NotFound"),
        (("pj/talks", "--token", "wrong"), 1, "Unauthenticated"),
        (("pj/talks", "--server", "http://127.0.0.1:1"), 1, "Nothing answers"),
    ],
)
def test_what_cannot_be_read_is_told(up: Up, gang: str, words: tuple[str, ...], code: int, told: str) -> None:
    done = up.cli("logs", *words)
    assert (done.code, done.out, told in done.err) == (code, "", True), done.err


def test_what_never_ran_says_why(up: Up) -> None:
    up.must("run", "--image", "registry.invalid/torch:1", "--name", "pulls", "--", "true")
    try:
        until(lambda: "ImagePullBackOff" in up.cli("logs", "job/pulls").err, "why there is no log")
        done = up.cli("logs", "job/pulls")
        assert (done.code, "no such host" in done.err, "t9ksched explain Job/pulls" in done.err) == (1, True, True)
        assert "ImagePullBackOff: pod pulls-" in up.must("explain", "job/pulls")
    finally:
        up.must("cancel", "job/pulls", "--yes")


def test_a_followed_log_goes_on_with_the_pod_that_takes_the_place_of_another(up: Up) -> None:
    up.must("run", "--image", "i", "--replicas", "2", "--name", "moves", "--annotation", f"{LINES}=begun", "--", "a.py")
    up.must("wait", "pj/moves", "--for", "running")
    command = [sys.executable, "-m", "t9ksched", "logs", "-f", "pj/moves", "--all"]
    process = subprocess.Popen(
        command, env=environment(up.data_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert sorted(process.stdout.readline() for _ in range(2)) == ["  0 | begun\n", "  1 | begun\n"]
        up.kube("DELETE", f"{POD}/moves-worker-1")
        assert process.stdout.readline() == "  1 | begun\n"
        up.must("cancel", "pj/moves", "--yes")
        rest, told = process.communicate(timeout=120)
        assert (rest, process.returncode) == ("", 0), told
        assert re.fullmatch(r"pod moves-worker-1 on \S+ takes the place of the one before\n", told), told
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_ends_a_followed_log_without_a_traceback(up: Up, gang: str) -> None:
    for words in (("-f",), ("-f", "--all")):
        process = subprocess.Popen(
            [sys.executable, "-m", "t9ksched", "logs", gang, *words],
            env=environment(up.data_dir),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert "Traceback" not in told
        assert process.returncode in (1, 130)


def test_the_python_client_follows_a_job_from_before_its_start_to_its_end(up: Up) -> None:
    waits: list[str] = []
    client = Client(up.server, up.token)
    job = client.run("true", image="i", name="sdk", annotations={RUN: "2"})
    try:
        lines = list(client.logs(job, follow=True, on_wait=lambda known, pod: waits.append(known.phase)))
        assert [line.text for line in lines] == ["simulated: true", "step 1"]
        assert [line.rank for line in lines] == [0, 0]
        assert lines[0].time is not None
        (pod,) = client.pods(job)
        assert (pod.phase, pod.finished, pod.rank) == ("Succeeded", True, 0)
        assert [str(line) for line in client.logs("job/sdk", tail=1)] == ["step 1"]

        async def again() -> list[str]:
            async with AsyncClient(up.server, up.token) as other:
                assert [one.name for one in await other.pods(job)] == [pod.name]
                return [line.text async for line in other.logs(job, follow=True)]

        assert asyncio.run(again()) == ["simulated: true", "step 1"]
    finally:
        client.cancel(job)
    assert waits


def by_kubeconfig(up: Up, *words: str) -> Done:
    """Without a service, as somebody has it who knows the cluster alone."""
    return run("logs", *words, also={"KUBECONFIG": str(up.kubeconfig), "HOME": "/nonexistent"})


def test_without_a_service_the_cluster_is_asked(up: Up, gang: str) -> None:
    assert by_kubeconfig(up, gang).out == "one\ntwo [red]\n"
    assert by_kubeconfig(up, gang, "--rank", "1", "--tail", "1", "-c", "pytorch").out == "two [red]\n"
    assert by_kubeconfig(up, gang, "--all", "--tail", "1").out.splitlines() == ["  0 | two [red]", "  1 | two [red]"]
    named = run(
        "logs", gang, "--kubeconfig", str(up.kubeconfig), data_dir=up.data_dir, also={"T9KSCHED_TOKEN": "wrong"}
    )
    assert (named.code, named.out) == (0, "one\ntwo [red]\n"), named.err
    words = ("--image", "i", "--name", "brief", "--annotation", f"{RUN}=2", "--annotation", f"{LINES}=begins")
    up.must("run", *words, "--", "x")
    try:
        done = by_kubeconfig(up, "job/brief", "-f")
        assert (done.code, done.out.splitlines()[0]) == (0, "begins"), done.err
        assert by_kubeconfig(up, "job/brief", "-f", "--all").out.startswith("  0 | begins")
    finally:
        up.must("cancel", "job/brief", "--yes")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pj/nope",), "there is no PyTorchTrainingJob/nope in the namespace 'default'"),
        (("pj/talks", "--rank", "7"), "it has the ranks 0 to 1"),
        (("pj/talks", "-c", "x"), "'x' is no container of pod talks-worker-0; these are pytorch"),
        (("pj/talks", "--previous"), "previous terminated container"),
        (("deployment/x",), "without a service logs of Deployment are not found"),
        (("pj/talks", "--kubeconfig", "/nowhere"), "There is no kubeconfig at /nowhere"),
        (("pj/talks", "--kubeconfig", "/dev/null"), "/dev/null"),
    ],
)
def test_what_the_cluster_cannot_tell(up: Up, gang: str, words: tuple[str, ...], told: str) -> None:
    done = by_kubeconfig(up, *words)
    assert (done.code, told in done.err, "Unclosed" in done.err) == (1, True, False), done.err


def test_without_a_service_and_a_kubeconfig(up: Up) -> None:
    done = run("logs", "pj/talks", also={"HOME": "/nonexistent"})
    assert (done.code, "No t9ksched service is known here" in done.err) == (1, True), done.err


def test_elements_of_an_array_and_what_is_not_there_without_a_service(up: Up) -> None:
    up.must("run", "--image", "i", "--name", "l-arr", "--array", "0-1", "--annotation", f"{LINES}=one", "--", "x")
    try:
        for element in ("l-arr-0", "l-arr-1"):
            up.must("wait", f"job/{element}", "--for", "running")
        assert by_kubeconfig(up, "job/l-arr", "--tail", "1").out == up.must("logs", "job/l-arr", "--tail", "1")
        again = up.must("resubmit", "job/l-arr-1", "--name", "l-own")
        assert "l-own" in again
        assert (
            "scheduler.tensorstack.dev/array" not in up.rest("GET", "/apis/v1/workloads/default/Job/l-own")[1]["labels"]
        )
    finally:
        up.must("cancel", "job/l-arr", "job/l-own", "--yes")
    for words in (("job/nope",), ("pj/nope",), ("job/l-arr-0", "-n", "elsewhere")):
        missing = by_kubeconfig(up, *words)
        assert (missing.code, missing.out) == (1, "")
        assert f"there is no {'Job' if words[0].startswith('job') else 'PyTorchTrainingJob'}/" in missing.err


def test_a_cluster_that_is_gone_ends_following_at_once(up: Up, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    text = up.kubeconfig.read_text()
    gone.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text))
    for words in (("job/x",), ("-f", "job/x")):
        done = run("logs", *words, "--kubeconfig", str(gone), also={"HOME": "/nonexistent"})
        assert (done.code, done.err.startswith(f"error: The cluster of {gone} does not answer")) == (1, True), done.err
