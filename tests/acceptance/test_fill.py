"""`t9ksched simulate fill`, as an engineer runs it on a list of nodes and pods."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import run

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,4,T4\nb,64000,262144,2,A10\nc,32000,131072,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,4000,8192,1,500,\nq,8000,8192,2,1000,T4\nr,1000,512,0,0,\n"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return "simulate", "fill", "--nodes", str(nodes), "--pods", str(pods)


def test_policies_are_compared(files: tuple[str, ...]) -> None:
    done = run(*files, "--seeds", "3", "-o", "json")
    assert done.code == 0, done.err
    policies = json.loads(done.out)["policies"]
    assert list(policies) == ["default", "fgd", "first-fit", "best-fit", "spread"]
    for told in policies.values():
        assert {"allocatedAt100", "allocatedAt130", "fragmentationAt100", "placementsPerSecond"} <= set(told)
        assert len(told["allocatedAt100"]) == 3
        pairs = zip(told["allocatedAt100"], told["allocatedAt130"], strict=True)
        assert all(0 < before <= after <= 100 for before, after in pairs)
    again = json.loads(run(*files, "--seeds", "3", "--policy", "default", "-o", "json").out)["policies"]["default"]
    assert again["allocatedAt130"] == policies["default"]["allocatedAt130"]


def test_a_table_for_people_a_policy_of_their_own_and_another_demand(files: tuple[str, ...], tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: basic\n  - name: predicates\n  - name: affinity\n'
    )
    done = run(*files, "--policy", str(conf), "--policy", "spread", "--demand", "2")
    assert done.code == 0, done.err
    assert "FRAGMENTED" in done.out
    assert "spread" in done.out


def test_pods_that_no_node_takes_are_named(files: tuple[str, ...]) -> None:
    whole = run(*files, "--policy", "first-fit", "-o", "json")
    assert json.loads(whole.out)["unplaceable"] == {"pods": 0, "unknownModels": {}, "tooLarge": 0}
    assert "warning" not in whole.err
    pods = Path(files[-1])
    # On the node with A10 are two GPUs; the one without GPUs has no model that could count.
    pods.write_text(PODS + "s,1,1,1,1000,H900|B300\nt,1,1,4,1000,A10\nu,65000,1,0,0,\nv,1,1,4,1000,T4|H900\n")
    done = run(*files, "--policy", "first-fit", "-o", "json")
    assert done.code == 0, done.err
    told = json.loads(done.out)["unplaceable"]
    assert told == {"pods": 3, "unknownModels": {"B300|H900": 1}, "tooLarge": 2}
    said = " ".join(done.err.split())
    assert "warning: --pods: 1 of 7 pods may use only models that no node with GPUs has (B300|H900)" in said
    assert "2 of 7 pods ask for more cores, memory or GPUs than any node has that they may use" in said


def test_bad_input_is_named(files: tuple[str, ...], tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.csv"
    faulty.write_text("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,many,T4\n")
    for change, says in (
        (("--policy", "best"), "'best' is unknown"),
        (("--demand", "0.5"), "--demand 0.5"),
        (("--nodes", str(faulty)), "line 2, gpu: 'many' must be a whole number"),
        (("--nodes", str(tmp_path / "none.csv")), "cannot be read"),
        (("--seeds", "0"), "--seeds"),
    ):
        done = run(*files, *change)
        assert done.code != 0
        assert says in done.err, done.err
        assert "Traceback" not in done.err
