"""Snapshots of a live cluster, and what policies make of them. Times are hours."""

import json
from pathlib import Path

import pytest

from t9ksched.engine.policy import Planning
from t9ksched.model.errors import Invalid
from t9ksched.simulation.policies import named
from t9ksched.simulation.snapshot import Played, Snapshot, capacity, load, play, sums, write
from tests.acceptance.conftest import run
from tests.ahead import Pool
from tests.presents import present

HOUR = 3600.0


def snapshot(planning: Planning | None = None, **expected: float) -> Snapshot:
    """Ten nodes of one card. Job a has six until hour 10; b needs eight for five hours, c four for twelve, and d two
    for as long as is expected.
    """
    pool = Pool(planning=planning)
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.submit("c", 4, 12)
    pool.submit("d", 2)
    return Snapshot(present(pool, 1), {name: hours * HOUR for name, hours in expected.items()})


def starts(played: Played) -> dict[str, float]:
    """Hours since the snapshot."""
    return {run.job.name.rpartition("/")[2]: run.started / HOUR for run in played.runs}


def test_it_is_read_as_it_was_written() -> None:
    text = b"".join(write(snapshot(d=2)))
    assert b"".join(write(load(text, dict))) == text


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, {"c": 0, "b": 12}, id="its own"),
        pytest.param("besteffort", {"c": 0, "b": 12}, id="besteffort"),
        pytest.param("fcfs", {"b": 9, "c": 14}, id="fcfs"),
        pytest.param("easy", {"b": 9, "c": 14}, id="easy"),
    ],
)
def test_what_waits_starts_as_the_policy_says(policy: str | None, expected: dict[str, float]) -> None:
    """Job d would run for ever where nothing is expected of it; it starts beside the others and is not counted."""
    played = play(snapshot(), named(policy) if policy else None)
    assert starts(played) == expected
    assert (played.never, played.endless) == (0, 1)


def test_a_job_without_a_limit_runs_as_long_as_is_expected() -> None:
    played = play(snapshot(d=2), named("easy"))
    assert (starts(played)["d"], played.endless) == (0, 0)
    assert next(run for run in played.runs if run.job.cards == 2).job.runs == 2 * HOUR


def test_figures_count_what_runs_already() -> None:
    known = snapshot(d=3)
    played = play(known, named("fcfs"))
    assert starts(played) == {"b": 9, "c": 14, "d": 14}
    found = sums(played, capacity(known.present), slice(None))
    held = 6 * 9 + 8 * 5 + 4 * 12 + 2 * 3
    assert (capacity(known.present), found.jobs) == (10, 3)
    assert found.utilisation == pytest.approx(held / (10 * 26))


def test_what_cannot_be_read_is_told() -> None:
    text = json.loads(b"".join(write(snapshot())))
    for broken, said in (
        (b"nonsense", "it is no snapshot"),
        (b'{"snapshot": 1}', "it is no snapshot"),
        (json.dumps(text | {"snapshot": 2}).encode(), "its version is 2"),
        (json.dumps(text | {"present": {}}).encode(), "it is no snapshot"),
    ):
        with pytest.raises(Invalid, match=said):
            load(broken, dict)
    with pytest.raises(Invalid, match="for traces, not for snapshots"):
        play(snapshot(), named("srsf"))


def test_the_command_replays_it(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(b"".join(write(snapshot(d=3))))
    given = ("simulate", "replay", "--jobs", str(path), "--format", "snapshot", "-o", "json")
    done = run(*given, "--policy", "current", "--policy", "fcfs")
    assert done.code == 0, done.err
    policies = json.loads(done.out)["policies"]
    assert [(name, one["jobs"], one["never"]) for name, one in policies.items()] == [("current", 3, 0), ("fcfs", 3, 0)]
    assert policies["fcfs"]["makespan"] > policies["current"]["makespan"] - 1
    done = run(*given, "--cluster", "1x4")
    assert done.code == 2
    assert "a snapshot has its own nodes" in done.err
