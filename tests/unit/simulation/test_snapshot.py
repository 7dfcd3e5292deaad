"""Snapshots of a live cluster, and what policies make of them. Times are hours."""

import json
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("present", "at"), 10**40, "present.at"),
        (("present", "at"), -5, "present.at"),
        (("present", "at"), 9 * 10**18, "present.at"),
        (("present", "resumes"), -1, "present.resumes"),
        (("present", "later"), {"b": 10**30}, "present.later.b"),
        (("present", "occupants", 0, "occupant", "ends"), 10**25, "present.occupants[0].occupant.ends"),
        (("present", "occupants", 0, "occupant", "started"), -1, "present.occupants[0].occupant.started"),
        (("present", "occupants", 0, "occupant", "grace"), -1, "present.occupants[0].occupant.grace"),
        (("present", "view", "gangs", 1, "gang", "lasts"), 10**30, "present.view.gangs[1].gang.lasts"),
        (("present", "view", "gangs", 1, "gang", "created"), 10**30, "present.view.gangs[1].gang.created"),
        (("expected",), {"d": -1}, "expected.d"),
        (("expected",), {"d": 0}, "expected.d"),
        (("expected",), {"d": 1e300}, "expected.d"),
    ],
)
def test_what_lies_beyond_the_calendar_is_a_fault(path: tuple[Any, ...], value: Any, told: str) -> None:
    raw = json.loads(b"".join(write(snapshot())))
    place = raw
    for part in path[:-1]:
        place = place[part]
    assert path[-1] in place
    place[path[-1]] = value
    with pytest.raises(Invalid) as error:
        load(json.dumps(raw).encode(), dict)
    assert [one.path for one in error.value.errors] == [told]


@pytest.mark.parametrize("what", ["present.view.gangs", "present.occupants", "present.occupants[].pods"])
def test_nothing_is_in_it_twice(what: str) -> None:
    raw = json.loads(b"".join(write(snapshot())))
    present = raw["present"]
    lists = {
        "present.view.gangs": present["view"]["gangs"],
        "present.occupants": present["occupants"],
        "present.occupants[].pods": present["occupants"][0]["pods"],
    }
    lists[what].append(lists[what][0])
    with pytest.raises(Invalid) as error:
        load(json.dumps(raw).encode(), dict)
    assert what in [one.path for one in error.value.errors]


def test_a_policy_that_is_none_is_told_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(b"".join(write(snapshot(d=3))))
    (tmp_path / "empty.conf").write_text("")
    given = ("simulate", "replay", "--jobs", str(path), "--format", "snapshot")
    assert "the policies are current, fcfs" in " ".join(run(*given, "--policy", "nope").err.split())
    assert "empty.conf: line 1" in "".join(run(*given, "--policy", str(tmp_path / "empty.conf")).err.split("\n"))


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
