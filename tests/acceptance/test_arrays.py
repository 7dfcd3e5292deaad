"""Job arrays, from outside: by command and REST, through a kill, and cancelled by one name."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.conftest import Json, Up, until

RUN = "devcluster.tensorstack.dev/run-seconds"
EXIT = "devcluster.tensorstack.dev/exit-code"
LABEL = "scheduler.tensorstack.dev/array"


def elements(up: Up, array: str) -> dict[str, Json]:
    listed = up.rest("GET", f"/apis/v1/workloads?label={LABEL}={array}&limit=1000")[1]["items"]
    return {job["name"]: job for job in listed}


def test_an_array_runs_a_few_at_a_time_and_is_followed_to_its_end(up: Up) -> None:
    words = ("run", "--image", "busybox", "--gpus", "1", "--annotation", f"{RUN}=1", "--array", "1,3,5-9:2%2")
    try:
        done = up.cli(*words, "--name", "a-sweep", "--follow", "--", "sh", "-c", "echo $(T9K_ARRAY_INDEX)")
        assert done.code == 0, done.err
        assert "5 jobs, Job/a-sweep-1 to a-sweep-9, submitted to queue default (namespace default)" in done.out
        assert "array a-sweep: 5 succeeded" in done.out
        jobs = elements(up, "a-sweep")
        assert sorted(jobs) == [f"a-sweep-{at}" for at in (1, 3, 5, 7, 9)]
        ran = sorted((job["startedAt"], job["finishedAt"]) for job in jobs.values())
        assert all(begun >= ran[at][1] for at, (begun, _) in enumerate(ran[2:])), "two at once"
        pods = {pod["metadata"]["name"].rpartition("-")[0]: pod for pod in up.pods()}
        env = pods["a-sweep-7"]["spec"]["containers"][0]["env"]
        assert env == [{"name": "T9K_ARRAY_INDEX", "value": "7"}]
    finally:
        up.must("cancel", "job/a-sweep", "--yes")
    until(lambda: not elements(up, "a-sweep"), "no elements")


def test_a_failed_element_fails_what_follows_and_what_waits_for_all(up: Up) -> None:
    words = ("run", "--image", "i", "--annotation", f"{RUN}=1", "--annotation", f"{EXIT}=3")
    try:
        done = up.cli(*words, "--name", "a-bad", "--array", "0-1", "--follow", "-o", "json", "--", "false")
        assert done.code == 1, done.err
        assert Counter(job["phase"] for job in done.json["items"]) == {"Failed": 2}
        told = up.cli("run", "--image", "i", "--name", "a-report", "--after", "job/a-bad", "--", "true")
        assert told.code == 0, told.err
        until(lambda: "it can never start" in up.must("explain", "job/a-report"), "the reason")
    finally:
        up.must("cancel", "job/a-bad", "job/a-report", "--yes")


def test_a_dry_run_shows_the_first_element_and_creates_nothing(up: Up) -> None:
    words = ("--dry-run", "--image", "i", "--name", "a-x", "--array", "5-104%3", "--", "true")
    done = up.must("run", *words)
    assert "# The first of 100; each has its index in T9K_ARRAY_INDEX" in done
    assert "name: a-x-5" in done
    assert f"{LABEL}: a-x[5]%3" in done
    assert [line for line in done.splitlines() if "would start at once" in line][-1].startswith("Job/a-x-7 ")
    assert not elements(up, "a-x")


@pytest.mark.parametrize(
    ("array", "code", "told"),
    [
        ("0-999999", 2, "--array: '0-999999' has 1000000 elements, and an array has 1000 at most"),
        ("soon", 2, "--array: 'soon' is no array: write indices such as 0-99"),
        ("0-9%0", 2, "is no number of 1 or more"),
    ],
)
def test_what_is_no_array_is_told_by_its_option(up: Up, array: str, code: int, told: str) -> None:
    done = up.cli("run", "--image", "i", "--array", array, "--", "true")
    assert (done.code, told in done.err) == (code, True), done.err


def test_a_file_becomes_an_array_whose_limit_a_kill_does_not_lift(tmp_path: Path) -> None:
    service = Up(tmp_path / "data")
    made = service.must(
        "run", "--dry-run", "--image", "i", "--name", "s", "--annotation", f"{RUN}=600", "-o", "json", "--", "true"
    )
    file = tmp_path / "s.json"
    file.write_text(json.dumps(json.loads(made)["object"]))

    def phases() -> Counter[str]:
        return Counter(job["phase"] for job in elements(service, "s").values())

    try:
        told = service.must("submit", str(file), "--array", "0-39%4")
        assert told.strip() == "40 jobs, Job/s-0 to s-39, submitted to queue default (namespace default)"
        until(lambda: phases() == {"Running": 4, "Pending": 36}, "four that run")
        running = {name for name, job in elements(service, "s").items() if job["phase"] == "Running"}
        service.kill()
        service = Up(tmp_path / "data")
        until(lambda: phases() == {"Running": 4, "Pending": 36}, "the same four")
        assert running == {name for name, job in elements(service, "s").items() if job["phase"] == "Running"}
        (waiting,) = [job for name, job in elements(service, "s").items() if name == "s-39"]
        assert waiting["reason"]["code"] == "ArrayLimit"
        service.must("cancel", f"job/{min(running)}", "--yes")
        until(lambda: phases() == {"Running": 4, "Pending": 35}, "another in its place")
        assert service.audit().ok
        service.must("cancel", "job/s", "--yes")
        until(lambda: not elements(service, "s"), "no elements")
    finally:
        service.stop()
