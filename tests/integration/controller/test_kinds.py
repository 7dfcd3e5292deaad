"""Kinds of jobs over HTTP: from YAML to their end, edits that are refused, and fields that the definitions refuse."""

import base64
import json
from typing import Any

import pytest

from t9ksched.controller.service import Controllers
from t9ksched.kube.errors import Unprocessable
from t9ksched.kube.resources import CONFIGMAPS, PODGROUPS, PODS, SECRETS, SERVICES, of
from t9ksched.workloads.registry import KINDS
from tests.integration.controller.conftest import Cluster
from tests.integration.world import World
from tests.unit.workloads.builders import (
    colossal_v1,
    colossal_v2,
    container,
    deepspeed,
    experiment,
    generic,
    template,
    tensorboard,
    tensorflow,
    xgboost,
)

Object = dict[str, Any]
RUN, EXIT = "devcluster.tensorstack.dev/run-seconds", "devcluster.tensorstack.dev/exit-code"
PORTS: Object = {"ports": [{"name": "rpc", "port": 7000}]}
PAUSED, NEVER = "only while the job is paused", "never change"
RESUME_SPECS = {"runMode": {"pause": {"resumeSpecs": [{"type": "worker", "command": ["x"]}]}}}


def ending(job: Object, role: str, exit_code: str = "0", seconds: str = "0.2") -> Object:
    """The job with replicas of one type that end by themselves."""
    for entry in job["spec"]["replicaSpecs"]:
        if entry["type"] == role:
            entry["template"]["metadata"] = {"annotations": {RUN: seconds, EXIT: exit_code}}
    return job


@pytest.mark.cluster
async def test_a_generic_job_ends_by_its_rules_and_has_services(cluster: Cluster, controllers: Controllers) -> None:
    words = {"command": ["echo", "$(service.lead[0].host):$(service.port[rpc])", "$(HOME)"]}
    rules: Object = {"successRules": [{"helper": [0, 1]}], "cleanUpPolicy": "All"}
    job = await cluster.submit(ending(generic(helper=words, service=PORTS, **rules), "helper", seconds="1"))
    await cluster.until(PODS, "pair-lead-0", lambda pod: pod["status"].get("phase") == "Running")
    assert await cluster.names(SERVICES) == ["pair-helper-0", "pair-helper-1", "pair-lead-0"]
    pod = await cluster.client.get(PODS, "pair-helper-1", cluster.namespace)
    assert pod["spec"]["containers"][0]["command"] == ["echo", "pair-lead-0:7000", "$(HOME)"]
    assert (await cluster.client.get(PODGROUPS, "pair", cluster.namespace))["spec"]["minMember"] == 3
    done = await cluster.phase(job, "Succeeded")
    told = {each["type"]: each["message"] for each in done["status"]["conditions"]}
    assert told["Completed"] == 'by the rule {"helper": [0, 1]} of successRules'
    await cluster.until_gone(PODS)


@pytest.mark.cluster
async def test_a_generic_job_fails_by_its_rules(cluster: Cluster, controllers: Controllers) -> None:
    job = await cluster.submit(ending(generic(failureRules=[{"helper": [1]}]), "helper", "3"))
    done = await cluster.phase(job, "Failed")
    told = {each["type"]: each["message"] for each in done["status"]["conditions"]}
    assert told["Failed"].startswith('by the rule {"helper": [1]} of failureRules: pod pair-helper-1 ended')


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("job", "leader"),
    [(tensorflow(chief=1, worker=1, ps=1), "chief"), (xgboost(master=1, worker=2), "master")],
    ids=["TensorFlowTrainingJob", "XGBoostTrainingJob"],
)
async def test_a_training_job_ends_as_its_leader(
    cluster: Cluster, controllers: Controllers, job: Object, leader: str
) -> None:
    made = await cluster.submit(ending(job, leader, seconds="1"))
    await cluster.phase(made, "Running", "Succeeded")
    name = job["metadata"]["name"]
    pod = await cluster.client.get(PODS, f"{name}-worker-0", cluster.namespace)
    env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
    if leader == "chief":
        assert json.loads(env["TF_CONFIG"])["cluster"]["chief"] == [f"{name}-chief-0.{name}:2222"]
    else:
        assert (env["MASTER_ADDR"], env["RANK"]) == (f"{name}-master-0.{name}", "1")
    done = await cluster.phase(made, "Succeeded")
    assert done["status"]["backoffCount"] == 0


@pytest.mark.cluster
@pytest.mark.parametrize("make", [colossal_v1, colossal_v2])
async def test_a_colossalai_job_ends_as_its_launcher(cluster: Cluster, controllers: Controllers, make: Any) -> None:
    job = make(2, runPolicy={"cleanUpWorkers": True})
    ends = {"metadata": {"annotations": {RUN: "1"}}}
    if make is colossal_v2:
        job["spec"]["replicaSpecs"][0]["template"] |= ends
    else:
        job["spec"]["worker"]["template"] |= ends
    made = await cluster.submit(job)
    done = await cluster.phase(made, "Succeeded", "Failed")
    launcher = await cluster.client.get(PODS, "palm-launcher-0", cluster.namespace)
    assert launcher["spec"]["containers"][0]["command"][:2] == ["colossalai", "run"]
    assert (await cluster.client.get(PODGROUPS, "palm", cluster.namespace))["spec"]["minMember"] == 3
    hosts = (await cluster.client.get(CONFIGMAPS, "palm-colossalai", cluster.namespace))["data"]["hostfile"]
    assert hosts == "palm-worker-0.palm\npalm-worker-1.palm\n"
    assert done["status"]["phase"] == "Succeeded"
    await cluster.client.delete(of(job), "palm", cluster.namespace)
    await cluster.until_gone(PODS)


@pytest.mark.cluster
async def test_a_deepspeed_job_has_its_hosts_and_ends_as_worker_0(cluster: Cluster, controllers: Controllers) -> None:
    elastic = {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 3}
    job = await cluster.submit(deepspeed(gpu=0, elastic=elastic))
    await cluster.phase(job, "Running")
    assert await cluster.names(PODS) == ["llm-worker-0", "llm-worker-1", "llm-worker-2"]
    assert (await cluster.client.get(PODGROUPS, "llm", cluster.namespace))["spec"]["minMember"] == 1
    with pytest.raises(Unprocessable, match="within minReplicas and maxReplicas"):
        await cluster.patch(job, {"spec": {"elastic": {"expectedReplicas": 4}}})
    first = (await cluster.client.get(PODS, "llm-worker-0", cluster.namespace))["metadata"]["uid"]
    await cluster.patch(job, {"spec": {"elastic": {"expectedReplicas": 2}}})
    await cluster.world.gone(PODS, "llm-worker-2")
    await cluster.until(PODS, "llm-worker-0", lambda pod: pod["metadata"]["uid"] != first)
    config = await cluster.until(CONFIGMAPS, "llm-deepspeed", lambda each: "worker-2" not in each["data"]["hostfile"])
    assert config["data"]["hostfile"] == "llm-worker-0.llm slots=1\nllm-worker-1.llm slots=1\n"
    pod = await cluster.client.get(PODS, "llm-worker-1", cluster.namespace)
    (keys,) = (each for each in pod["spec"]["volumes"] if "projected" in each)
    secret = keys["projected"]["sources"][0]["secret"]["name"]
    assert secret == f"llm-{pod['metadata']['ownerReferences'][0]['uid']}-ssh"
    found = await cluster.client.get(SECRETS, secret, cluster.namespace)
    assert base64.b64decode(found["data"]["ssh-publickey"]).startswith(b"ssh-ed25519 ")
    await cluster.phase(job, "Running")


@pytest.mark.cluster
async def test_a_tensorboard_lives_until_it_is_suspended(cluster: Cluster, controllers: Controllers) -> None:
    name = "managed-tensorboard-board"
    board = tensorboard()
    await cluster.submit(board)
    pod = await cluster.until(PODS, f"{name}-0", lambda pod: pod["spec"].get("volumes"))
    assert pod["spec"]["containers"][0]["command"][:3] == ["tensorboard", "--logdir", "/t9k/logs"]
    assert await cluster.names(SERVICES) == [name]
    await cluster.patch(board, {"spec": {"suspend": True}})
    await cluster.phase(board, "Paused")
    await cluster.until_gone(PODS)
    await cluster.patch(board, {"spec": {"suspend": False, "image": "example/board:1"}})
    again = await cluster.until(PODS, f"{name}-0", lambda each: each["metadata"]["uid"] != pod["metadata"]["uid"])
    assert again["spec"]["containers"][0]["image"] == "example/board:1"


@pytest.mark.cluster
async def test_a_training_job_makes_its_tensorboard(cluster: Cluster, controllers: Controllers) -> None:
    asked = {"image": "example/board:1", "trainingLogFilesets": ["t9k://pvc/runs/log"]}
    job = await cluster.submit(tensorflow({"tensorboardSpec": asked}, worker=1))
    made = await cluster.until(of(job), "wide", lambda each: "tensorboard" in (each.get("status") or {}))
    board = await cluster.client.get(of(tensorboard()), "wide-tensorboard", cluster.namespace)
    assert made["status"]["tensorboard"]["dependent"]["uid"] == board["metadata"]["uid"]
    pod = "managed-tensorboard-wide-tensorboard-0"
    assert (await cluster.until(PODS, pod, bool))["spec"]["containers"][0]["image"] == "example/board:1"
    await cluster.patch(job, {"spec": {"tensorboardSpec": {"image": "example/board:2"}}})
    await cluster.until(PODS, pod, lambda each: each["spec"]["containers"][0]["image"] == "example/board:2")
    await cluster.patch(job, {"spec": {"tensorboardSpec": None}})
    await cluster.world.gone(of(tensorboard()), "wide-tensorboard")
    await cluster.world.gone(PODS, pod)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("job", "edit", "why"),
    [
        (generic(), {"service": PORTS}, PAUSED),
        (generic(), {"replicaSpecs": generic()["spec"]["replicaSpecs"][:1]}, PAUSED),
        (generic(), {"runMode": {"debug": {"enabled": True}}}, PAUSED),
        (generic(), {"scheduler": None}, "keeps its scheduler"),
        (generic(), RESUME_SPECS, NEVER),
        (tensorflow(worker=2), {"replicaSpecs": tensorflow(worker=3)["spec"]["replicaSpecs"]}, PAUSED),
        (tensorflow(worker=2), RESUME_SPECS, NEVER),
        (xgboost(master=1), {"replicaSpecs": xgboost(master=1, worker=3)["spec"]["replicaSpecs"]}, PAUSED),
        (xgboost(master=1), {"scheduler": None}, "keeps its scheduler"),
        (colossal_v1(), {"worker": {"replicas": 5}}, PAUSED),
        (colossal_v1(), {"launcher": {"image": "x"}}, PAUSED),
        (colossal_v2(), {"torchConfig": {"procPerWorker": 5}}, PAUSED),
        (colossal_v2(), {"ssh": {"sshdPath": "/x"}}, PAUSED),
        (deepspeed(), {"worker": {"replicas": 5}}, PAUSED),
        (deepspeed(), {"config": {"slotsPerWorker": 5}}, PAUSED),
        (deepspeed(), {"disableCustomEnv": True}, PAUSED),
        (deepspeed(), {"elastic": {"enabled": True}}, NEVER),
    ],
)
async def test_edits_that_are_refused(world: World, job: Object, edit: Object, why: str) -> None:
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    made = await cluster.submit(job)
    with pytest.raises(Unprocessable, match=why):
        await cluster.patch(made, {"spec": edit})


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("job", "edit"),
    [
        (generic(), {"successRules": [{"lead": [0]}], "failureRules": [], "cleanUpPolicy": "All"}),
        (generic(), {"runMode": {"pause": {"enabled": True}}, "service": PORTS}),
        (tensorflow(worker=2), {"runPolicy": {"backoffLimit": 9}, "tensorboardSpec": {"image": "x"}}),
        (xgboost(master=1), {"runPolicy": {"cleanUpPolicy": "All"}}),
        (deepspeed(), {"runPolicy": {"cleanUpPolicy": "All"}}),
        (deepspeed(), {"runMode": {"pause": {"enabled": True}}, "worker": {"replicas": 5}}),
    ],
)
async def test_edits_that_are_taken(world: World, job: Object, edit: Object) -> None:
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    made = await cluster.submit(job)
    assert (await cluster.patch(made, {"spec": edit}))["metadata"]["generation"] == 2


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("job", "told"),
    [
        (generic(successRules=[{"lead": ["0"]}]), r"spec\.successRules\[0\]\.lead\[0\].*integer"),
        (generic(failureRules=[{}]), r"spec\.failureRules\[0\].*at least 1"),
        (generic(failureRules=[{"lead": []}]), r"spec\.failureRules\[0\]\.lead.*at least 1"),
        (generic(service={"ports": [{"name": "a"}]}), r"spec\.service\.ports\[0\]\.port.*[Rr]equired"),
        (generic(service={"ports": [{"port": 70000}]}), r"spec\.service\.ports\[0\]\.port.*65535"),
        (generic(service={}), r"spec\.service\.ports.*[Rr]equired"),
        (generic(cleanUpPolicy="Some"), r"spec\.cleanUpPolicy.*Unfinished"),
        (generic(replicaSpecs=[]), r"spec\.replicaSpecs.*at least 1"),
        (xgboost(worker=2), r"spec\.replicaSpecs.*has no entry of type master"),
        (xgboost(master=2), r"spec\.replicaSpecs.*there is exactly one master"),
        (xgboost(master=1, chief=1), r"spec\.replicaSpecs\[1\]\.type.*master.*worker"),
        (tensorflow(ps=1), r"spec\.replicaSpecs.*has no entry of type chief or worker"),
        (tensorflow(chief=2), r"spec\.replicaSpecs.*there is exactly one chief"),
        (tensorflow(boss=1, worker=1), r"spec\.replicaSpecs\[0\]\.type.*evaluator"),
        (colossal_v2(torchConfig=None), r"spec\.torchConfig.*says not what to start"),
        (colossal_v2(replicaSpecs=None), r"spec\.replicaSpecs.*is missing"),
        (colossal_v2(torchConfig={"script": "x"}), r"spec\.torchConfig\.script.*array"),
        (colossal_v2(worker={"type": "helper"}), r"spec\.replicaSpecs\[1\]\.type.*launcher.*worker"),
        (colossal_v1(launcher={"image": 1}), r"spec\.launcher\.image.*string"),
        (deepspeed(config={"run": {"python": "a.py"}}), r"spec\.config\.run\.python.*array"),
        (deepspeed(config={"run": {"python": ["a"], "exec": ["b"]}}), r"spec\.config\.run.*exactly one of python"),
        (deepspeed(config={}), r"spec\.config.*says not what to start"),
        (deepspeed(config={"run": {"exec": []}}), r"spec\.config.*says not what to start"),
        (deepspeed(config={"customCommand": ["x"]}), r"spec\.config\.customCommand.*string"),
        (deepspeed(config={"run": {"exec": ["x"]}, "autotune": "yes"}), r"spec\.config\.autotune.*tune"),
        (tensorboard(logDir={"pvc": [{}]}), r"spec\.logDir\.pvc\[0\]\.name.*[Rr]equired"),
        (tensorboard(suspend="no"), r"spec\.suspend.*boolean"),
        (tensorboard(trainingLogFilesets="x"), r"spec\.trainingLogFilesets.*array"),
        (tensorflow({"runPolicy": {"backoffLimit": -1}}, worker=1), r"spec\.runPolicy\.backoffLimit.*0"),
    ],
)
async def test_the_definitions_say_what_is_wrong_and_where(world: World, job: Object, told: str) -> None:
    cluster = Cluster(world, None)  # type: ignore[arg-type]
    with pytest.raises(Unprocessable, match=told):
        await cluster.submit(job)


@pytest.mark.cluster
async def test_an_experiment_finds_the_best_of_its_trials(cluster: Cluster, controllers: Controllers) -> None:
    notes = {RUN: "0.2", "devcluster.tensorstack.dev/termination-message": '{"value": $(parameter.lr)}'}
    main = {"type": "worker", "template": template(container(), metadata={"annotations": notes})}
    space = {"lr": {"_type": "choice", "_value": [3, 9, 5]}}
    asked = experiment("GridSearch", space, trainingConfig={"tasks": [main]})
    made = await cluster.submit(asked)
    done = await cluster.phase(made, "DONE")
    assert done["status"]["best"] == {"number": 1, "name": "hpo-1", "parameters": {"lr": 9}, "value": 9}
    assert [each["value"] for each in done["status"]["trials"]] == [3, 9, 5]
    assert await cluster.names(KINDS["PyTorchTrainingJob"].resource) == ["hpo-0", "hpo-1", "hpo-2"]
    with pytest.raises(Unprocessable, match="never changes, because trials before would not be like those after"):
        await cluster.patch(made, {"spec": {"searchSpace": "{}"}})
    await cluster.client.delete(of(made), "hpo", cluster.namespace)
    await cluster.until_gone(PODS)
    assert await cluster.names(KINDS["PyTorchTrainingJob"].resource) == []
