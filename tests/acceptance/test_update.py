"""`t9ksched update` from outside: limit, priority, size and queue of jobs, and of elements of an array that wait."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import Up, until
from tests.acceptance.test_running_jobs import ELASTIC

RUN = ("run", "--image", "i", "--gpus", "4", "--gpu-model", "A100")


@pytest.fixture
def full(up: Up) -> Iterator[None]:
    """A queue that holds all that it may."""
    up.must("queues", "create", "tight", "--quota", "nvidia.com/gpu=8", "--everyone")
    up.must("queues", "create", "other", "--quota", "nvidia.com/gpu=8", "--everyone")
    yield
    for job in items(up, "tight") + items(up, "other"):
        up.cli("cancel", f"{job['kind']}/{job['name']}", "--yes")
    until(lambda: up.held() == 0, "free cards")
    for queue in ("tight", "other"):
        until(lambda queue=queue: up.cli("queues", "delete", queue, "--yes").code == 0, "its end")


def items(up: Up, queue: str) -> list[dict[str, Any]]:
    return list(json.loads(up.must("jobs", "--queue", queue, "-o", "json"))["items"])


def job(up: Up, name: str, kind: str = "Job") -> dict[str, Any]:
    return dict(up.rest("GET", f"/apis/v1/workloads/default/{kind}/{name}")[1])


def test_what_of_a_job_is_changed(up: Up, full: None) -> None:
    up.must(*RUN, "--queue", "tight", "--name", "runs", "--gpus", "8", "--", "x")
    up.must("wait", "job/runs", "--for", "running")
    up.must(*RUN, "--queue", "tight", "--name", "waits", "--", "x")
    until(lambda: job(up, "waits")["reason"], "a reason")
    told = up.must("update", "job/waits", "--priority", "60", "--time-limit", "3h")
    assert told == "Job/waits has the time limit 3h now\nJob/waits has priority 60 now\n"
    until(lambda: (seen := job(up, "waits"))["priority"] == 60 and seen["timeLimit"]["seconds"] == 10800, "both")
    late = up.cli("update", "job/runs", "--priority", "60")
    assert (late.code, "only a job that waits" in late.err) == (1, True), late.err
    asked = up.cli("update", "job/waits", "--queue", "other")
    assert (asked.code, "submitted again in queue other" in asked.out, "--yes" in asked.err) == (2, True, True), asked
    assert job(up, "waits")["queue"] == "tight"
    none = up.cli("update", "job/waits", "--queue", "nowhere", "--yes")
    assert (none.code, "'nowhere' does not exist" in none.err) == (1, True), none.err
    told = up.must("update", "job/waits", "--queue", "other", "--yes", "-o", "json")
    moved = json.loads(told)["name"]
    assert moved.startswith("waits-")
    assert (job(up, moved)["queue"], job(up, moved)["timeLimit"]["seconds"]) == ("other", 10800)
    until(lambda: up.rest("GET", "/apis/v1/workloads/default/Job/waits")[0] == 404, "its end")
    up.must("wait", f"job/{moved}", "--for", "running")
    told = up.must("update", "job/runs", "--queue", "tight", "--time-limit", "8h")
    assert told == "Job/runs is in queue tight already\nJob/runs has the time limit 8h now\n"
    stays = up.cli("update", "job/runs", "--queue", "other", "--yes")
    assert (stays.code, "only a job that waits gets another queue" in stays.err) == (1, True), stays.err


def test_the_size_of_an_elastic_job(up: Up) -> None:
    assert up.cli("submit", "-", stdin=ELASTIC).code == 0
    try:
        up.must("wait", "pj/stretch", "--for", "running")
        until(lambda: up.held() == 2, "two cards held")
        asked = up.cli("update", "pj/stretch", "--replicas", "1")
        assert (asked.code, "1 of 2 pods with 1 card is stopped" in asked.out) == (2, True), asked.out
        assert "is scaled to 3" in up.must("update", "pj/stretch", "--replicas", "3")
        until(lambda: up.held() == 3, "three cards held")
    finally:
        up.must("cancel", "pj/stretch", "--yes")
        until(lambda: up.held() == 0, "free cards")


def test_an_array_means_its_elements_that_wait(up: Up, full: None) -> None:
    up.must(*RUN, "--queue", "tight", "--name", "many", "--array", "0-4", "--", "x")
    until(lambda: sum(one["phase"] == "Running" for one in items(up, "tight")) == 2, "two that run")
    told = up.must("update", "job/many", "--priority", "33")
    assert told == "3 waiting jobs of the array Job/many are changed\n2 that do not wait are as before\n"
    until(lambda: sorted(one["priority"] for one in items(up, "tight")) == [0, 0, 33, 33, 33], "three of them")
    done = json.loads(up.must("update", "job/many", "--time-limit", "5h", "-o", "json"))["items"]
    assert len(done) == 3
    assert {one["timeLimitSeconds"] for one in done} == {18000}
    moved = up.cli("update", "job/many", "--queue", "other", "--yes")
    assert (moved.code, "keep their queue" in moved.err) == (2, True), moved.err


def test_another_job_of_that_name_is_not_changed(up: Up, full: None) -> None:
    up.must(*RUN, "--queue", "tight", "--name", "same", "--", "x")
    address = "/apis/v1/workloads/default/Job/same/actions"
    bodies = {"prioritise": {"priority": 1}, "update": {"timeLimit": "9h"}, "scale": {"replicas": 1}}
    for action, body in bodies.items():
        code, told = up.rest("POST", f"{address}/{action}", body | {"uid": "0-0"})
        assert (code, told["code"]) == (412, "PreconditionFailed"), (action, told)
        code, told = up.rest("POST", f"{address}/{action}", body | {"uid": 7})
        assert (code, told["errors"][0]["path"]) == (422, "uid"), (action, told)
    uid = job(up, "same")["uid"]
    assert up.rest("POST", f"{address}/update", {"timeLimit": "9h", "uid": uid})[0] == 200


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("job/x",), 2, "Nothing is to be changed"),
        (("job/x", "--priority", "101"), 2, "--priority"),
        (("job/nope", "--priority", "1"), 1, "there is no Job/nope"),
        (("nope", "--priority", "1"), 2, "does not name an object"),
    ],
)
def test_what_cannot_be_changed(up: Up, words: tuple[str, ...], code: int, told: str) -> None:
    done = up.cli("update", *words)
    assert (done.code, told in done.err) == (code, True), done.err


def test_of_several_jobs_each_is_changed_by_itself(up: Up, full: None) -> None:
    up.must(*RUN, "--queue", "tight", "--name", "runs", "--gpus", "8", "--", "x")
    up.must("wait", "job/runs", "--for", "running")
    for name in ("one", "two"):
        up.must(*RUN, "--queue", "tight", "--name", name, "--", "x")
        until(lambda name=name: job(up, name)["reason"], "a reason")
    told = up.cli("update", "job/one", "job/nope", "job/two", "--priority", "8", "-o", "json")
    assert told.code == 1
    assert [one["name"] for one in told.json["items"]] == ["one", "two"]
    assert "1 of 3 jobs were not changed: there is no Job/nope" in told.err
    until(lambda: [job(up, name)["priority"] for name in ("one", "two")] == [8, 8], "the priorities")
    assert "is in queue tight already" in up.must("update", "job/one", "--queue", "tight", "--yes")


def test_an_element_stays_in_the_queue_of_its_array(up: Up, full: None) -> None:
    """Elsewhere it would run beside as many as may run at once."""
    up.must(*RUN, "--queue", "tight", "--gpus", "8", "--name", "cap", "--array", "0-2%1", "--", "x")
    up.must("wait", "job/cap-0", "--for", "running")
    refused = up.cli("update", "job/cap-2", "--queue", "other", "--yes")
    assert (refused.code, "The elements of the array cap keep their queue" in refused.err) == (2, True)
    assert items(up, "other") == []
