"""Jobs that run are paused, resumed, scaled and submitted again, and their history is told, from outside."""

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import Up, until

ELASTIC = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: stretch}
spec:
  scheduler: {t9kScheduler: {queue: default}}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
  torchrunConfig: {enabled: true}
  replicaSpecs:
  - type: node
    template:
      spec:
        containers: [{name: pytorch, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


@pytest.fixture
def stretch(up: Up) -> Iterator[str]:
    assert up.cli("submit", "-", stdin=ELASTIC).code == 0
    up.must("wait", "pj/stretch", "--for", "running")
    until(lambda: up.held() == 2, "two cards held")
    yield "pj/stretch"
    up.must("cancel", "pj/stretch", "--yes")
    until(lambda: up.held() == 0, "free cards")


def phase(up: Up, name: str) -> str:
    return str(next(job["phase"] for job in json.loads(up.must("jobs", "-o", "json"))["items"] if job["name"] == name))


def test_a_pause_is_asked_about_and_gives_the_cards_back(up: Up, stretch: str) -> None:
    asked = up.cli("pause", stretch)
    assert (asked.code, "2 of 2 pods run on 2 cards: all of them are stopped" in asked.out) == (2, True), asked.err
    assert "--yes" in asked.err
    assert up.must("pause", stretch, "--yes") == "PyTorchTrainingJob/stretch is paused\n"
    until(lambda: up.held() == 0 and phase(up, "stretch") == "Paused", "a paused job without cards")
    assert up.must("resume", stretch) == "PyTorchTrainingJob/stretch is resumed\n"
    until(lambda: up.held() == 2 and phase(up, "stretch") == "Running", "a job that runs on")

    def told() -> list[str]:
        return [one["event"] for one in json.loads(up.must("history", stretch, "-o", "json"))["items"]]

    # What was decided and what was bound may be written apart, by some moments.
    until(lambda: [told().count(one) for one in ("admitted", "bound")] == [2, 4], "places that are told of again")
    events = told()
    assert events.index("job-paused") < events.index("job-resumed")
    again = len(events) - 1 - events[::-1].index("admitted")
    assert events.index("job-paused") < again < len(events) - 1 - events[::-1].index("bound")


def test_an_elastic_job_is_scaled_within_its_range(up: Up, stretch: str) -> None:
    assert "2 more pods with 2 cards are made" in up.must("scale", stretch, "4")
    until(lambda: up.held() == 4, "four cards held")
    asked = up.cli("scale", stretch, "1")
    assert (asked.code, "3 of 4 pods with 3 cards are stopped" in asked.out) == (2, True)
    up.must("scale", stretch, "1", "--yes")
    until(lambda: up.held() == 1, "one card held")
    assert [pod["metadata"]["name"] for pod in up.pods()] == ["stretch-node-0"]
    far = up.cli("scale", stretch, "9")
    assert (far.code, "this job may have from 1 to 4" in far.err) == (1, True), far.err
    assert json.loads(up.must("scale", stretch, "1", "-o", "json"))["name"] == "stretch"


def test_a_job_that_has_ended_is_submitted_again_and_both_are_in_the_history(up: Up) -> None:
    ends = ("--annotation", "devcluster.tensorstack.dev/run-seconds=1")
    up.must("run", "--image", "i", "--gpus", "1", "--name", "once", *ends, "--", "true")
    up.must("wait", "job/once", "--for", "succeeded")
    try:
        ended = up.cli("pause", "job/once")
        assert (ended.code, "there is nothing to pause" in ended.err) == (1, True)
        assert "Job/once-" in up.must("resubmit", "job/once", "--dry-run")
        assert up.must("resubmit", "job/once", "--name", "twice").startswith("Job/twice submitted to queue default")
        up.must("wait", "job/twice", "--for", "succeeded")
        assert up.cli("resubmit", "job/once", "--name", "twice").code == 1
        until(lambda: "finished" in up.must("history", "job/twice"), "a record of the end")
    finally:
        up.must("cancel", "job/once", "job/twice", "--yes")
    until(lambda: up.pods() == [], "no pods")
    told = up.must("history", "--limit", "2").splitlines()
    assert told[0].split() == ["JOB", "USER", "GPUS", "SUBMITTED", "RAN", "END"]
    assert [line.split()[0] for line in told[1:]] == ["Job/twice", "Job/once"]
    assert all(line.rstrip().endswith("Succeeded") for line in told[1:]), told
    assert "finished" in up.must("history", "job/once")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("pause", "pj/nope"), 1, "NotFound"),
        (("pause", "nope"), 2, "does not name an object"),
        (("resume", "pj/nope", "--token", "wrong"), 1, "Unauthenticated"),
        (("scale", "pj/nope", "2"), 1, "NotFound"),
        (("scale", "pj/nope", "-2"), 2, "No such option"),
        (("scale", "pj/nope", "x"), 2, "valid int"),
        (("resubmit", "pj/nope"), 1, "NotFound"),
        (("resubmit", "pj/nope", "--server", "http://127.0.0.1:1"), 1, "Nothing answers"),
        (("history", "--since", "1x"), 2, "--since 1x"),
        (("history", "pj/x", "--queue", "q"), 2, "--queue is about a list"),
        (("history", "pj/nope"), 1, "NotFound"),
        (("history", "--phase", "X"), 1, "--phase"),
    ],
)
def test_what_cannot_be_done_is_told(up: Up, words: tuple[str, ...], code: int, told: str) -> None:
    done = up.cli(*words)
    assert (done.code, told in done.err) == (code, True), done.err
