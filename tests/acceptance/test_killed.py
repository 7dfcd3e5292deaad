"""What a service did and did not live to write into history is written by the next one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import Json, Up, until

RUN = "devcluster.tensorstack.dev/run-seconds"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def history(up: Up, name: str) -> list[Json]:
    found: list[Json] = up.cli("history", f"job/{name}", "-o", "json").json["items"]
    return sorted(found, key=lambda one: str(one["at"]))


def events(up: Up, name: str) -> list[str]:
    return [str(one["event"]) for one in history(up, name)]


def counted(up: Up) -> set[str]:
    report = up.rest("GET", "/apis/v1/usage?by=job")[1]
    return {str(one["job"]) for one in report["items"] if one["gpuHours"] > 0}


def phases(up: Up) -> dict[str, str]:
    return {job["name"]: job["phase"] for job in up.rest("GET", "/apis/v1/workloads?limit=100")[1]["items"]}


@pytest.fixture
def lives() -> Iterator[list[Up]]:
    """Services of a test, of which the last is stopped."""
    found: list[Up] = []
    yield found
    found[-1].stop()


def test_jobs_that_end_soon_after_a_kill_have_their_whole_history(data: Path, lives: list[Up]) -> None:
    lives.append(up := Up(data, "--nodes", "small", fresh=True))
    names = [f"k{at}" for at in range(4)]
    for name in names:
        up.must("run", "--image", "i", "--name", name, "--gpus", "1", "--annotation", f"{RUN}=3", "--", "x")
    until(lambda: any(pod["status"].get("phase") == "Running" for pod in up.pods()), "a pod that runs")
    up.kill()
    lives.append(again := Up(data, "--nodes", "small", fresh=True))
    until(lambda: set(phases(again).values()) == {"Succeeded"}, "all jobs to end")
    until(lambda: counted(again) == {f"default/Job/{name}" for name in names}, "their card-hours")
    for name in names:
        told = until(lambda name=name: "finished" in (seen := events(again, name)) and seen, name)
        assert [told.count(one) for one in ("admitted", "bound", "started", "finished")] == [1, 1, 1, 1], (name, told)


def test_bindings_that_are_not_in_history_are_written_once(data: Path, lives: list[Up]) -> None:
    lives.append(up := Up(data, "--nodes", "small", fresh=True))
    for name, seconds in (("quick", 1), ("long", 600)):
        words = ("--annotation", f"{RUN}={seconds}")
        up.must("run", "--image", "i", "--name", name, "--gpus", "2", *words, "--", "x")
    until(lambda: phases(up) == {"quick": "Succeeded", "long": "Running"}, "one to end and one to run")
    until(lambda: "finished" in events(up, "quick") and "started" in events(up, "long"), "history")
    before = {
        name: next(one["detail"] for one in history(up, name) if one["event"] == "bound") for name in ("quick", "long")
    }
    up.kill()
    with closing(sqlite3.connect(data / "t9ksched.db")) as database, database:
        database.execute("DELETE FROM history WHERE event IN ('bound', 'admitted')")
    for _ in range(2):  # once, and not again
        lives.append(again := Up(data, "--nodes", "small", fresh=True))
        for name in ("quick", "long"):
            bound = until(lambda name=name: [one for one in history(again, name) if one["event"] == "bound"], name)
            assert [one["detail"] for one in bound] == [before[name]]
            assert events(again, name).count("admitted") == 1
        again.kill()
    lives.append(Up(data, "--nodes", "small", fresh=True))
