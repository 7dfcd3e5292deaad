"""`t9ksched run`: jobs without YAML, from outside."""

import json
import re

import pytest

from tests.acceptance.conftest import Up, until

ENDS = ("--annotation", "devcluster.tensorstack.dev/run-seconds=1")


def test_a_command_runs_on_cards_and_is_followed_to_its_end(up: Up) -> None:
    words = ("run", "--image", "busybox", "--gpus", "2", "--name", "short", "--follow", "-e", "A=b", *ENDS)
    done = up.cli(*words, "--", "true")
    try:
        assert done.code == 0, done.err
        assert "Job/short submitted to queue default (namespace default)" in done.out
        assert re.search(r"^Job/short is Succeeded$", done.out, re.M), done.out
    finally:
        up.must("cancel", "job/short", "--yes")


def test_replicas_are_a_gang_that_starts_whole(up: Up) -> None:
    words = ("--replicas", "2", "--gpus", "4", "--priority", "7", "--time-limit", "2h")
    told = up.must(
        "run", *words, "--image", "i", "-o", "json", "--", "torchrun", "--nnodes", "2", "fit.py", "--lr", "1"
    )
    (job,) = json.loads(told)["items"]
    name = f"pj/{job['name']}"
    try:
        assert re.fullmatch(r"fit-[a-z2-9]{5}", job["name"])
        assert (job["kind"], job["priority"]) == ("PyTorchTrainingJob", 7)
        up.must("wait", name, "--for", "running")
        pods = up.pods()
        assert [pod["spec"]["containers"][0]["command"][0] for pod in pods] == ["torchrun"] * 2
        assert all(pod["spec"]["containers"][0]["args"][-3:] == ["fit.py", "--lr", "1"] for pod in pods)
        shown = json.loads(up.must("jobs", "-o", "json"))["items"]
        (mine,) = [one for one in shown if one["name"] == job["name"] and one["phase"] == "Running"]
        assert (mine["gpus"], mine["timeLimit"]["seconds"]) == (8, 7200)
    finally:
        up.must("cancel", name, "--yes")
        until(lambda: up.held() == 0, "free cards")


def test_a_dry_run_shows_the_object_and_creates_nothing(up: Up) -> None:
    words = ("run", "--dry-run", "--gpus", "1", "--image", "i", "--name", "x", "--time-limit", "4h")
    done = up.must(*words, "--", "sleep", "1")
    assert "kind: Job" in done
    assert done.count("scheduler.tensorstack.dev/time-limit: 4h") == 2
    assert "Job/x would start at once" in done
    told = json.loads(up.must(*words, "-o", "json", "--", "sleep", "1"))
    assert told["object"]["metadata"]["name"] == "x"
    assert told["simulation"]["jobs"][0]["verdict"] == "Starts"
    assert up.pods() == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--gpus", "1", "--", "true"), 2, "--image is missing"),
        (("--image", "i", "--gpus", "-1", "--", "true"), 2, "--gpus -1 is negative"),
        (("--image", "i", "--gpu-model", "A100", "--", "true"), 2, "--gpu-model is about cards"),
        (("--image", "i", "--mount", "data", "--", "true"), 2, "--mount: 'data' is no mount"),
        (("--image", "i", "--annotation", "a", "--", "true"), 2, "--annotation: 'a' is no annotation"),
        (("--image", "i", "--workdir", "sub", "--", "true"), 2, "--workdir 'sub' is not absolute: write it from / on"),
        (("--image", "i", "--env", "NOT_SET_HERE", "--", "true"), 2, "--env: NOT_SET_HERE is not set here"),
        (("--image", "i"), 2, "Missing argument"),
        (("--image", "i", "--memory", "8Gx", "--", "true"), 1, "--memory: '8Gx' is not a quantity"),
        (("--image", "i", "--time-limit", "4x", "--", "true"), 1, "--time-limit: '4x' is not a duration"),
        (("--image", "i", "--name", "A_B", "--", "true"), 1, "--name: 'A_B' is not a valid name"),
        (("--image", "i", "--queue", "nope", "--", "true"), 1, "--queue: queue 'nope' does not exist"),
        (("--image", "i", "--gpus", "1", "--name", "x" * 254, "--", "true"), 1, "--name"),
        (("--image", "i", "--name", "x" * 64, "--", "true"), 1, "as a label: use at most 63"),
        (("--image", "i", "--name", "x" * 62, "--array", "0-9", "--", "true"), 2, "would exceed 63: use at most 61"),
        (("--image", "i", "--after-cancel", "--", "true"), 1, "--after-cancel: is about what a job waits for"),
    ],
)
def test_words_that_make_no_job_are_refused_by_their_option(
    up: Up, words: tuple[str, ...], code: int, told: str
) -> None:
    done = up.cli("run", *words)
    assert (done.code, told in " ".join(done.err.split())) == (code, True), done.err
    assert up.pods() == []


def test_a_followed_job_that_fails_ends_the_command_with_1(up: Up) -> None:
    fails = ("--annotation", "devcluster.tensorstack.dev/exit-code=3")
    done = up.cli("run", "--image", "i", "--name", "lost", "--follow", *ENDS, *fails, "--", "x")
    try:
        assert (done.code, "Job/lost is Failed" in done.out) == (1, True), done.out
    finally:
        up.must("cancel", "job/lost", "--yes")
