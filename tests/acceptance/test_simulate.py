"""`t9ksched simulate replay`, as an engineer runs it on a trace: no service, no cluster, no account."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import run

HEADER = "job_id,user,num_gpu,submit_time,duration\n"
JOBS = "a,ann,3,100,50\n" "b,bob,2,101,50\n" "c,ann,1,102,50\n" "d,bob,9,103,50\n" "e,bob,0,104,50\n"  # fmt: skip

CONF = """actions: "{actions}"
tiers:
- plugins: [{{name: basic}}, {{name: resource}}, {{name: predicates}}, {{name: affinity}}]
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + JOBS)
    return str(path)


def replay(trace: str, *more: str) -> tuple[str, ...]:
    return "simulate", "replay", "--jobs", trace, "--format", "philly", "--cluster", "1x4", *more


def test_policies_are_compared(trace: str) -> None:
    """`c` passes `b`, which finds no room beside `a`, where that is allowed."""
    done = run(*replay(trace, "-o", "json"))
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["leftOut"] == 1
    assert list(told["policies"]) == ["fcfs", "besteffort", "priority", "sjf", "easy"]
    fcfs, besteffort = told["policies"]["fcfs"], told["policies"]["besteffort"]
    assert (fcfs["jobs"], fcfs["tooLarge"], fcfs["makespan"], fcfs["meanWait"]) == (3, 1, 100, 97 / 3)
    assert (besteffort["makespan"], besteffort["meanWait"]) == (100, 49 / 3)
    assert {
        "meanCompletion",
        "p99Completion",
        "meanBoundedSlowdown",
        "utilisation",
        "preemptions",
        "wallSeconds",
    } < set(fcfs)


def test_a_table_for_people_and_a_policy_of_their_own(trace: str, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: basic\n  - name: predicates\n  - name: affinity\n'
    )
    done = run(*replay(trace, "--policy", str(conf), "--policy", "sjf", "--window", "0:2"))
    assert done.code == 0, done.err
    assert "UTILISATION" in done.out
    assert "1 jobs have no cards or no run time: they are left out." in done.out
    assert "1 jobs need more cards than there are: they are left out." in done.out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--cluster", "4"), "cluster: '4' must be NxM, N nodes with M cards each such as 64x8, or a file"),
        (("--format", "pbs"), "format: 'pbs' is unknown: the formats are history, muri, philly, snapshot, swf"),
        (("--format", "swf"), "line 1: it has 1 fields: a job has 18"),
        (
            ("--policy", "magic"),
            "policy: 'magic' is unknown: the policies are fcfs, besteffort, priority, sjf, easy, conservative, "
            "sjf-easy, srtf, srsf, or a file",
        ),
        (("--window", "2"), "window: '2' must be START:END"),
        (("--window", "7:"), "no job is at these positions: there are 3"),
        (("--plot", "plot.pdf"), "--plot writes a PNG image: plot.pdf must end in .png"),
        (("--plot", "/nowhere/plot.png"), "/nowhere/plot.png cannot be written: there is no folder /nowhere"),
        (("--jobs", "/nowhere.csv"), "/nowhere.csv cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_is_said(trace: str, more: tuple[str, ...], said: str) -> None:
    done = run(*replay(trace, *more))
    assert done.code != 0
    assert said in " ".join(done.err.split())
    assert done.out == ""


def test_a_policy_that_is_not_simulated_is_refused(trace: str, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF.format(actions="allocate, preempt"))
    done = run(*replay(trace, "--policy", str(conf)))
    assert done.code == 2
    assert "preemption is not simulated yet" in done.err


NODES = """nodes:
- {name: big, allocatable: {cpu: "8", memory: 8Gi, nvidia.com/gpu: "3"}}
- {name: small, count: 2, allocatable: {cpu: "8", memory: 8Gi, nvidia.com/gpu: "2"}}
- {name: none, allocatable: {cpu: "8", memory: 8Gi}}
"""


def test_a_cluster_may_be_a_file_of_nodes(trace: str, tmp_path: Path) -> None:
    """Job `a` takes the three cards of one node, `b` both of another: there `c` finds one as well."""
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODES)
    done = run(*replay(trace, "--cluster", str(nodes), "--policy", "fcfs", "-o", "json"))
    assert done.code == 0, done.err
    fcfs = json.loads(done.out)["policies"]["fcfs"]
    assert (fcfs["jobs"], fcfs["tooLarge"], fcfs["meanWait"]) == (3, 1, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes: 3", "nodes: is required and must be a list of nodes"),
        ("[", "not YAML"),
        ("items: [3]", "items[0]: it is no node"),
        ("nodes: [{name: a, allocatable: {cpu: '1', memory: 1Gi}}]", "none of its nodes has a card"),
    ],
)
def test_what_is_wrong_in_a_file_of_nodes_is_said(trace: str, tmp_path: Path, text: str, said: str) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(text)
    done = run(*replay(trace, "--cluster", str(nodes)))
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_a_plot_is_drawn(trace: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = tmp_path / "plot.png"
    done = run(*replay(trace, "--policy", "fcfs", "--policy", "srtf", "--plot", str(image)))
    assert done.code == 0, done.err
    assert image.read_bytes().startswith(b"\x89PNG")
