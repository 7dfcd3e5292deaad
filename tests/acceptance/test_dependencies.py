"""Jobs that wait for others, from outside: by command and REST, and through a kill."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import Json, Up, until

RUN = "devcluster.tensorstack.dev/run-seconds"
EXIT = "devcluster.tensorstack.dev/exit-code"


def phases(up: Up) -> dict[str, str]:
    return {job["name"]: job["phase"] for job in json.loads(up.must("jobs", "-o", "json"))["items"]}


def reason(up: Up, name: str) -> Json:
    return dict(up.rest("GET", f"/apis/v1/workloads/default/Job/{name}")[1]["reason"] or {})


def test_a_chain_runs_in_order_and_what_can_never_start_says_so(up: Up) -> None:
    words = ("run", "--image", "busybox", "--annotation")
    made = ["d-prep", "d-train", "d-bad", "d-never", "d-ended", "d-report"]
    try:
        up.must(*words, f"{RUN}=2", "--name", "d-prep", "--", "true")
        up.must(*words, f"{RUN}=1", "--name", "d-train", "--after", "job/d-prep", "--", "true")
        told = up.must("explain", "job/d-train")
        assert "DependencyNotMet" in told
        up.must(*words, f"{RUN}=1", "--annotation", f"{EXIT}=3", "--name", "d-bad", "--", "false")
        up.must(*words, f"{RUN}=1", "--name", "d-never", "--after", "job/d-bad", "--", "true")
        up.must(*words, f"{RUN}=1", "--name", "d-ended", "--after", "job/d-bad", "--after-cancel", "--", "true")
        after = ("--after", "job/d-ended:any", "--after", "job/d-train")
        done = up.cli(*words, f"{RUN}=1", "--name", "d-report", *after, "--follow", "--", "true")
        assert done.code == 0, done.err
        assert "DependencyNotMet" in done.out
        shown = phases(up)
        assert [shown[name] for name in made] == ["Succeeded", "Succeeded", "Failed", "Pending", "Failed", "Succeeded"]
        assert reason(up, "d-never")["message"].startswith("it can never start")
        assert reason(up, "d-ended")["code"] == "DependencyNotMet"
        assert "t9ksched cancel Job/d-never" in up.must("explain", "job/d-never")
    finally:
        for name in made:
            up.cli("cancel", f"job/{name}", "--yes")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--after", "job/nope"), "--after: there is no Job/nope in the namespace 'default' that you may see"),
        (("--after", "nope"), "--after: 'nope' names no job: write KIND/NAME"),
        (("--after", "job/x:soon"), "--after: 'job/x:soon' ends in 'soon'"),
        (("--after", "nb/lab"), "a Notebook does not end by itself"),
        (("--name", "own", "--after", "job/own"), "--after: Job/own would wait for itself"),
    ],
)
def test_what_cannot_be_waited_for_is_told_by_its_option(up: Up, words: tuple[str, ...], told: str) -> None:
    for more in ((), ("--dry-run",)):
        done = up.cli("run", "--image", "i", *words, *more, "--", "true")
        assert (done.code, told in done.err) == (1, True), done.err


def test_a_dry_run_says_what_it_would_wait_for(up: Up) -> None:
    up.must("run", "--image", "i", "--name", "d-first", "--", "sleep")
    try:
        until(lambda: phases(up).get("d-first") == "Running", "the first job")
        done = up.must("run", "--dry-run", "--image", "i", "--name", "d-x", "--after", "job/d-first:any", "--", "true")
        assert "scheduler.tensorstack.dev/after: job/d-first:any" in done
        assert "DependencyNotMet: it waits for Job/d-first to end, which is Running" in done
    finally:
        up.must("cancel", "job/d-first", "--yes")


def test_a_kill_forgets_nothing_that_is_waited_for(tmp_path: Path) -> None:
    service = Up(tmp_path / "data")
    words = ("run", "--image", "i", "--annotation")
    try:
        service.must(*words, f"{RUN}=1", "--name", "a", "--", "true")
        service.must(*words, f"{RUN}=600", "--name", "b", "--", "true")
        service.must(*words, f"{RUN}=1", "--name", "c", "--after", "job/a", "--after", "job/b:any", "--", "true")
        until(lambda: "for Job/b to end, which is Running" in reason(service, "c").get("message", ""), "the wait")
        until(lambda: "Job/a" not in reason(service, "c")["message"], "the end of the first")
        service.must("cancel", "job/a", "--yes")
        until(lambda: "a" not in phases(service), "its deletion")
        service.kill()
        service = Up(tmp_path / "data")
        until(lambda: "for Job/b to end" in reason(service, "c").get("message", ""), "the wait again")
        assert "Job/a" not in reason(service, "c")["message"]
        service.must("cancel", "job/b", "--yes")
        service.must("wait", "job/c", "--for", "succeeded")
    finally:
        service.stop()
