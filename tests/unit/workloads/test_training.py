"""TensorFlowTrainingJob and XGBoostTrainingJob: what replicas are told of each other, and how the jobs end."""

import json
from typing import Any

import pytest

from t9ksched.workloads.read import validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import World, tensorflow, xgboost

Object = dict[str, Any]


def env(pod: Object) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0].get("env", ())}


def pods(job: Object) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in expand(job).pods}


def started(job: Object) -> World:
    world = World(job)
    world.settle()
    world.run_all()
    world.settle()
    return world


def test_tf_config_lists_the_replicas_and_says_which_this_one_is() -> None:
    made = pods(tensorflow(worker=2, ps=1, chief=1))
    cluster = {
        "worker": ["wide-worker-0.wide:2222", "wide-worker-1.wide:2222"],
        "ps": ["wide-ps-0.wide:2222"],
        "chief": ["wide-chief-0.wide:2222"],
    }
    for name, (role, index) in {
        "wide-worker-1": ("worker", 1),
        "wide-ps-0": ("ps", 0),
        "wide-chief-0": ("chief", 0),
    }.items():
        told = json.loads(env(made[name])["TF_CONFIG"])
        assert told == {"cluster": cluster, "task": {"type": role, "index": index}}
    (service,) = expand(tensorflow(worker=2)).services
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("wide", "None")


def test_an_evaluator_is_told_of_the_others_alone() -> None:
    made = pods(tensorflow(chief=1, worker=1, evaluator=1))
    for name in made:
        assert "evaluator" not in json.loads(env(made[name])["TF_CONFIG"])["cluster"]
    assert json.loads(env(made["wide-evaluator-0"])["TF_CONFIG"])["task"] == {"type": "evaluator", "index": 0}


def test_a_port_that_the_container_declares_is_used() -> None:
    job = tensorflow(worker=1)
    first = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    first["ports"] = [{"containerPort": 80}, {"name": "tensorflow-port", "containerPort": 3333}]
    told = json.loads(env(pods(job)["wide-worker-0"])["TF_CONFIG"])
    assert told["cluster"] == {"worker": ["wide-worker-0.wide:3333"]}


def test_a_variable_that_the_user_set_stays() -> None:
    job = tensorflow(worker=1)
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"] = [{"name": "TF_CONFIG", "value": "{}"}]
    assert env(pods(job)["wide-worker-0"])["TF_CONFIG"] == "{}"


def test_xgboost_ranks_follow_the_master() -> None:
    made = pods(xgboost(worker=3, master=1))
    told = {name: env(pod) for name, pod in made.items()}
    assert {each["MASTER_ADDR"] for each in told.values()} == {"boost-master-0.boost"}
    assert {each["MASTER_PORT"] for each in told.values()} == {"9991"}
    assert {each["WORLD_SIZE"] for each in told.values()} == {"4"}
    assert {name: each["RANK"] for name, each in told.items()} == {
        "boost-master-0": "0", "boost-worker-0": "1", "boost-worker-1": "2", "boost-worker-2": "3"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("job", "leader"),
    [
        (tensorflow(worker=2, chief=1), "wide-chief-0"),
        (tensorflow(ps=1, worker=2), "wide-worker-0"),
        (xgboost(worker=2, master=1), "boost-master-0"),
    ],
)
def test_the_leader_ends_the_job(job: Object, leader: str) -> None:
    world = started(job)
    others = [name for name in world.pods() if name != leader]
    world.set_phase(others[0], "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Running"
    world.set_phase(leader, "Succeeded", 0)
    world.settle()
    assert world.status["phase"] == "Succeeded"

    world = started({**job, "spec": {**job["spec"], "runPolicy": {"backoffLimit": 0}}})
    world.set_phase(leader, "Failed", 1)
    world.settle()
    assert (world.status["phase"], world.status["backoffCount"]) == ("Failed", 0)


@pytest.mark.parametrize("make", [tensorflow, xgboost])
@pytest.mark.parametrize(("code", "again"), [(1, False), (137, True), (138, True)])
def test_exit_codes_decide_about_restarts(make: Any, code: int, again: bool) -> None:
    job = make(worker=2, **({"master": 1} if make is xgboost else {"chief": 1}))
    for entry in job["spec"]["replicaSpecs"]:
        entry["restartPolicy"] = "ExitCode"
    world = started(job)
    name = f"{job['metadata']['name']}-worker-1"
    world.set_phase(name, "Failed", code)
    world.settle()
    assert world.created.count(name) == 1 + again
    assert world.status["backoffCount"] == int(again)


@pytest.mark.parametrize(
    ("job", "path", "told"),
    [
        (xgboost(worker=2), "spec.replicaSpecs", "has no entry of type master"),
        (tensorflow(ps=2), "spec.replicaSpecs", "has no entry of type chief or worker"),
        (xgboost(master=2), "spec.replicaSpecs[0].replicas", "there is exactly one master: write 1"),
        (tensorflow(chief=0, worker=1), "spec.replicaSpecs[0].replicas", "there is exactly one chief"),
        (tensorflow(worker=0), "spec.replicaSpecs[0].replicas", "the first worker leads the job"),
        (tensorflow(boss=1, worker=1), "spec.replicaSpecs[0].type", "use one of chief, worker, ps, evaluator"),
        (xgboost(chief=1, master=1), "spec.replicaSpecs[0].type", "use one of master, worker"),
    ],
)
def test_roles_that_a_framework_does_not_have(job: Object, path: str, told: str) -> None:
    faults = {fault.path: fault.message for fault in validate(job)}
    assert told in faults[path]
    assert len(faults) == 1


@pytest.mark.parametrize("job", [tensorflow(chief=1, worker=1), xgboost(master=1, worker=1)])
def test_debugging_keeps_the_environment_and_runs_nothing(job: Object) -> None:
    debug = {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["/usr/bin/sshd"]}]}}
    made = pods({**job, "spec": {**job["spec"], "runMode": debug}})
    name = job["metadata"]["name"]
    worker = made.pop(f"{name}-worker-0")["spec"]["containers"][0]
    (leader,) = made.values()
    assert worker["command"] == ["/usr/bin/sshd"]
    assert leader["spec"]["containers"][0]["command"] == ["sleep", "inf"]
    assert env(leader)
