"""Text that `simulate` reads: a byte order mark in front is no part of it, and no path of a fault has an empty part."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import run
from tests.acceptance.test_fill import NODES as FILL_NODES
from tests.acceptance.test_fill import PODS
from tests.acceptance.test_simulate import CONF, HEADER, JOBS, NODES
from tests.unit.simulation.test_records import SHAPE
from tests.unit.simulation.test_snapshot import snapshot, write

MARK = b"\xef\xbb\xbf"
CONFIGURATION = CONF.format(actions="allocate")
SWF = "1 0 0 50 1 -1 -1 1 60 -1 1 1 1 1 1 -1 -1 -1\n"
MURI = "job_id,num_gpu,submit_time,iterations,iteration_time\na,1,0,10,1000\n"
PHILLY = HEADER + JOBS
FORMS = {
    "philly": PHILLY,
    "muri": MURI,
    "swf": SWF,
    "history": json.dumps({"items": [SHAPE]}),
    "history-lines": "\n".join(map(json.dumps, [SHAPE, SHAPE])),
}


def marked(path: Path, text: str | bytes) -> str:
    path.write_bytes(MARK + (text.encode() if isinstance(text, str) else text))
    return str(path)


@pytest.mark.parametrize("form", FORMS)
def test_jobs(tmp_path: Path, form: str) -> None:
    jobs = marked(tmp_path / "jobs", FORMS[form])
    asked = ("--format", form.partition("-")[0], "--cluster", "1x4", "--policy", "fcfs", "-o", "json")
    done = run("simulate", "replay", "--jobs", jobs, *asked)
    assert done.code == 0, done.err
    assert json.loads(done.out)["policies"]["fcfs"]["jobs"] >= 1


def test_a_snapshot(tmp_path: Path) -> None:
    path = marked(tmp_path / "snapshot.json", b"".join(write(snapshot(d=3))))
    done = run("simulate", "replay", "--jobs", path, "--format", "snapshot")
    assert done.code == 0, done.err


@pytest.mark.parametrize("nodes", [NODES, json.dumps({"items": []})])
def test_nodes_and_policies(tmp_path: Path, nodes: str) -> None:
    (tmp_path / "jobs.csv").write_text(PHILLY)
    cluster, policy = marked(tmp_path / "nodes", nodes), marked(tmp_path / "conf", CONFIGURATION)
    given = ("--jobs", str(tmp_path / "jobs.csv"), "--format", "philly", "--cluster", cluster, "--policy", policy)
    done = run("simulate", "replay", *given)
    assert (done.code == 0) is (nodes is NODES), done.err
    assert nodes is NODES or "none of its nodes has a card" in done.err, "it was read"


def test_what_fill_reads(tmp_path: Path) -> None:
    nodes, pods = marked(tmp_path / "nodes.csv", FILL_NODES), marked(tmp_path / "pods.csv", PODS)
    policy = marked(tmp_path / "conf", CONFIGURATION)
    done = run("simulate", "fill", "--nodes", nodes, "--pods", pods, "--policy", policy, "--seeds", "1")
    assert done.code == 0, done.err


@pytest.mark.parametrize("what", ["--cluster", "--policy"])
def test_the_path_of_a_fault_of_the_whole_file_is_its_name(tmp_path: Path, what: str) -> None:
    (tmp_path / "jobs.csv").write_text(PHILLY)
    bad = tmp_path / "bad"
    bad.write_text("3")
    given = ("--jobs", str(tmp_path / "jobs.csv"), "--format", "philly", "--cluster", "1x4", what, str(bad))
    told = "".join(run("simulate", "replay", *given).err.split("\n"))
    assert f"{bad}: it must be" in told.replace("  ", " ") or f"{bad}: line 1" in told
    assert ": :" not in told


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(PHILLY)
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff\xfe")
    for what in ("--cluster", "--policy"):
        given = ("--jobs", str(tmp_path / "jobs.csv"), "--format", "philly", "--cluster", "1x4", what, str(bad))
        done = run("simulate", "replay", *given)
        assert done.code != 0
        assert "cannot be read: it is no text in UTF-8" in " ".join(done.err.split())
