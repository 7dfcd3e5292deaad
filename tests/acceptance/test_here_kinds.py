"""Replicas of each kind of job are processes that meet by exactly the environment that its controller gives them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Json, Up, run, until
from tests.acceptance.test_here import close, log

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a node of this machine needs Linux")
PROGRAM = [sys.executable, str(Path(__file__).with_name("meeting.py"))]
LEAD = "$(service.lead[0].host):$(service.port[rpc])"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """This machine."""
    up = Up(tmp_path_factory.mktemp("kinds") / "data", "--here", fresh=True)
    try:
        yield up
        assert up.process.poll() is None, up.log
    finally:
        close(up)


def job(kind: str, name: str, types: dict[str, tuple[int, list[str]]], **spec: Any) -> Json:
    """A job of small replicas: how many of each type, and with which arguments."""
    requests = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    entries = [
        {
            "type": role,
            "replicas": count,
            "template": {
                "spec": {
                    "containers": [
                        {"name": "main", "image": "none", "command": [*PROGRAM, *words], "resources": requests}
                    ]
                }
            },
        }
        for role, (count, words) in types.items()
    ]
    whole = {"scheduler": {"t9kScheduler": {"queue": "default"}}, "replicaSpecs": entries, **spec}
    head = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": kind}
    return {**head, "metadata": {"name": name, "namespace": "default"}, "spec": whole}


JOBS = [
    (job("TensorFlowTrainingJob", "wide", {"chief": (1, []), "worker": (2, [])}), "wide-chief-0", "met 2"),
    (job("XGBoostTrainingJob", "boost", {"master": (1, []), "worker": (3, [])}), "boost-master-0", "met 1 2 3"),
    (job("PyTorchTrainingJob", "net", {"node": (3, [])}), "net-node-0", "met 1 2"),
    (
        job(
            "GenericJob",
            "pair",
            {
                "lead": (1, ["$(type)", "$(replicas[helper])", LEAD]),
                "helper": (2, ["$(type)", "$(type)-$(rank)", LEAD]),
            },
            service={"ports": [{"name": "rpc", "port": 7001}]},
        ),
        "pair-lead-0",
        "met 2",
    ),
]


def test_nodes_meet_at_the_endpoint_of_torchrun(here: Up, tmp_path: Path) -> None:
    """A stand-in for torchrun, called with the options that the controller writes."""
    (tmp_path / "torchrun").write_text(f'#!/bin/sh\nexec {" ".join(PROGRAM)} "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    asked = job("PyTorchTrainingJob", "turn", {"node": (3, [])}, torchrunConfig={"enabled": True})
    (main,) = asked["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    main["env"] = [{"name": "PATH", "value": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"}]
    meets(here, tmp_path, asked, "turn-node-0", "met 2")


@pytest.mark.soak
def test_xgboost_meets_by_its_own_tracker(here: Up, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    asked = job("XGBoostTrainingJob", "real", {"master": (1, []), "worker": (2, [])})
    for entry in asked["spec"]["replicaSpecs"]:
        (main,) = entry["template"]["spec"]["containers"]
        main["command"] = [sys.executable, str(Path(__file__).with_name("tracked.py"))]
    meets(here, tmp_path, asked, "real-master-0", "the sum of 3 ranks is 3")


@pytest.mark.soak
def test_torch_meets_by_torchrun(here: Up, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = "import torch.distributed as d, torch; d.init_process_group('gloo'); t = torch.tensor([d.get_rank()]);"
    asked = job("PyTorchTrainingJob", "torch", {"node": (3, [])}, torchrunConfig={"enabled": True})
    (main,) = asked["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    (tmp_path / "train.py").write_text(f"{script} d.all_reduce(t); print('the sum of ranks is', int(t))\n")
    main["args"] = [str(tmp_path / "train.py")]
    main["env"] = [{"name": "PATH", "value": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"}]
    meets(here, tmp_path, asked, "torch-node-0", "the sum of ranks is 3")


@pytest.mark.parametrize(("asked", "leader", "said"), JOBS, ids=[each["kind"] for each, _, _ in JOBS])
def test_replicas_meet(here: Up, tmp_path: Path, asked: Json, leader: str, said: str) -> None:
    meets(here, tmp_path, asked, leader, said)


def meets(here: Up, tmp_path: Path, asked: Json, leader: str, said: str) -> None:
    """Submit a job, and wait until it has succeeded and its leader has said so."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(asked))
    made = run("submit", "-f", str(tmp_path / "job.yaml"), data_dir=here.data_dir)
    assert made.code == 0, made.err
    name = f"{asked['kind']}/{asked['metadata']['name']}"
    ended = run("wait", name, "--for", "succeeded", "--timeout", "50s", data_dir=here.data_dir)
    assert ended.code == 0, ended.err
    until(lambda: said in log(here, leader), said)


SENDS = """import json, os, urllib.request
parameters = json.loads(os.environ["T9KSCHED_TRIAL_PARAMETERS"])
def send(body):
    head = {"Authorization": "Bearer " + os.environ["T9KSCHED_RESULTS_TOKEN"], "Content-Type": "application/json"}
    url = os.environ["T9KSCHED_RESULTS_URL"]
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head), timeout=30).read()
send({"value": 100, "step": 1})
send({"value": parameters["x"] * 2})
"""


def test_trials_send_their_results(here: Up, tmp_path: Path) -> None:
    """The program of a trial finds address and token in its environment; the best trial is told, and no token is."""
    main = job("PyTorchTrainingJob", "x", {"worker": (1, [])})["spec"]["replicaSpecs"][0]
    main["template"]["spec"]["containers"][0]["command"] = [sys.executable, "-c", SENDS]
    config = {"type": "pytorch", "scheduler": {"t9kScheduler": {"queue": "default"}}, "tasks": [main]}
    space = '{"x": {"_type": "choice", "_value": [3, 7, 5]}}'
    spec = {"maxTrialNum": 3, "trialConcurrency": 2, "searchSpace": space, "trainingConfig": config}
    head = {"apiVersion": "tensorstack.dev/v1beta1", "kind": "AutoTuneExperiment", "metadata": {"name": "hpo"}}
    asked = {**head, "spec": {**spec, "tuner": {"builtinTunerName": "GridSearch"}}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(asked))
    made = run("submit", "-f", str(tmp_path / "job.yaml"), "-n", "default", data_dir=here.data_dir)
    assert made.code == 0, made.err
    ended = run("wait", "at/hpo", "--for", "succeeded", "--timeout", "50s", data_dir=here.data_dir)
    assert ended.code == 0, ended.err
    name = "/apis/tensorstack.dev/v1beta1/namespaces/default/autotuneexperiments/hpo"
    status = here.kube("GET", name)[1]["status"]
    assert [each["value"] for each in status["trials"]] == [6, 14, 10]
    assert (status["phase"], status["best"]["name"]) == ("DONE", "hpo-1")
    assert "t9kt_" not in here.log
    jobs = here.rest("GET", "/apis/v1/workloads?limit=100")[1]["items"]
    whose = {one["name"]: one["submitter"] for one in jobs if one["name"].startswith("hpo")}
    assert whose == dict.fromkeys(("hpo", "hpo-0", "hpo-1", "hpo-2"), "admin")
