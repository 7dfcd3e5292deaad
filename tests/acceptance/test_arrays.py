"""Job arrays, from outside: by command and REST, through a kill, and cancelled by one name."""

import json
import re
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
    assert "Job/a-x[5-7] would start at once" in done
    assert "Job/a-x[8-104] would wait: no start is found" in done, "jobs without a limit never end"
    assert "ArrayLimit: at most 3 elements of its array 'a-x' run at once" in done
    told = up.must("run", "--time-limit", "1h", *words)
    assert re.search(
        r"^Job/a-x\[5-7\] would start at once\nJob/a-x\[8-10\] would wait, and start at .* \(in 1h", told, re.M
    )
    assert "\n  … and 21 more\nJob/a-x[104] would wait, and start at " in told, told
    found = json.loads(up.must("run", "--time-limit", "1h", *words[:-2], "-o", "json", "--", "true"))["simulation"]
    assert len(found["jobs"]) == 100
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


def test_the_name_of_an_array_means_its_elements(up: Up) -> None:
    lines = "devcluster.tensorstack.dev/log-lines=one"
    words = ("--image", "i", "--annotation", f"{RUN}=3", "--annotation", lines)
    up.must("run", *words, "--name", "a-all", "--array", "0-3,8%2", "--", "true")
    try:
        until(lambda: "ArrayLimit" in up.cli("explain", "job/a-all").out, "elements that wait")
        told = up.must("explain", "job/a-all").splitlines()
        assert re.fullmatch(r"array a-all: .*\d wait.*", told[0]), told
        assert any(re.match(r"\d(-\d)?(,8)? +\d+ +Pending .* ArrayLimit", line) for line in told), told
        found = json.loads(up.must("explain", "job/a-all", "-o", "json"))
        assert (found["array"], len(found["items"])) == ("a-all", 5)
        short = up.cli("wait", "job/a-all", "--timeout", "0s")
        assert (short.code, "The array Job/a-all is not finished after 0s" in short.err) == (1, True), short.err
        followed = up.must("logs", "job/a-all", "-f").splitlines()
        assert sorted(line for line in followed if line.endswith(" one")) == [f"  {at} | one" for at in (0, 1, 2, 3, 8)]
        assert up.must("wait", "job/a-all") == "Job/a-all is finished\n"
        assert up.must("wait", "job/a-all", "--for", "succeeded", "-o", "json").count('"Succeeded"') == 5
        failed = up.cli("wait", "job/a-all", "--for", "failed")
        assert (failed.code, "ended as Succeeded" in failed.err) == (1, True), failed.err
        assert up.must("logs", "job/a-all", "--tail", "1").count(" | ") == 5
        rank = up.cli("logs", "job/a-all", "--rank", "0")
        assert (rank.code, "of its elements the first pods are shown" in rank.err) == (2, True), rank.err
    finally:
        up.must("cancel", "job/a-all", "--yes")
    assert up.must("wait", "job/a-all", "--for", "deleted") == "Job/a-all is deleted\n"
    for command in ("explain", "wait", "logs"):
        gone = up.cli(command, "job/a-all")
        assert (gone.code, "there is no Job/a-all" in gone.err) == (1, True), gone.err
