"""What the platform's published examples of each kind contain, told by their fields: every one is taken as it is, by
the definitions that the API server enforces and by the reader, or refused with the path and the sentence.
"""

from functools import cache
from typing import Any

import pytest

from t9ksched.admission import misspelt
from t9ksched.devcluster.apiserver import structural
from t9ksched.kube.setup.crds import read as read_definitions
from t9ksched.packaged import folder
from t9ksched.workloads.read import validate
from t9ksched.workloads.reconcile import expand
from tests.unit.workloads.builders import BATCH, PLATFORM, block, container, obj, template

Object = dict[str, Any]

DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
MEMORY = {"name": "shm", "emptyDir": {"medium": "Memory"}}
SIZED = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
KEY = {"key": "token", "path": "sub/token"}
SECRET = {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256, "items": [KEY]}}
DEVICE = {"name": "device", "hostPath": {"path": "/opt/driver"}}
MOUNT = {"name": "data", "mountPath": "/mnt", "subPath": "one/two", "readOnly": True}
PORT = {"containerPort": 9991, "name": "xgboost-port"}
LOCK = {"capabilities": {"add": ["IPC_LOCK"]}}
WHOLE = {"limits": {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": 2}}
FILESETS = ["t9k://pvc/shared/logs"]
BOARD = {"image": "example/tb:1", "trainingLogFilesets": FILESETS}


def one(name: str, asks: Object | None = None, *volumes: Object, pod: Object | None = None, **fields: Any) -> Object:
    """A template with one container; `asks` are its resources, `pod` fields of its pod."""
    made = container(name, **fields)
    made["resources"] = asks or {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 2, "memory": "2Gi"}}
    return template(made, **({"volumes": list(volumes)} if volumes else {}), **(pod or {}))


def equal(**amounts: Any) -> Object:
    """The same amounts as requests and as limits, as for resources of devices."""
    named = {name.replace("__", "/").replace("_dot_", "."): amount for name, amount in amounts.items()}
    both = {"cpu": 2, "memory": "4Gi", **named}
    return {"requests": dict(both), "limits": dict(both)}


def types(*entries: tuple[str, int, Any, Object]) -> list[Object]:
    """Replica types: name, number, restart policy (None: none is written), template."""
    return [
        {"type": role, "replicas": count, "template": pod, **({"restartPolicy": policy} if policy else {})}
        for role, count, policy, pod in entries
    ]


def pytorch(*entries: tuple[str, int, Any, Object], **spec: Any) -> Object:
    return obj("PyTorchTrainingJob", {"replicaSpecs": types(*entries), **spec}, BATCH)


def deepspeed(config: Object | None, pod: Object, *, worker: Object | None = None, **spec: Any) -> Object:
    whole = {"worker": {"replicas": 2, "template": pod, **(worker or {})}, **spec}
    return obj("DeepSpeedJob", whole | ({} if config is None else {"config": config}), BATCH)


def mpi(pod: Object, worker: Object | None = None, **spec: Any) -> Object:
    older = {"replicas": 2, "cmd": ["./all_reduce", "-b", "8"], "template": pod, **(worker or {})}
    return obj("MPIJob", {"worker": older, "ssh": {"sshdPath": "/usr/sbin/sshd"}, **spec}, BATCH)


def roles(kind: str, *entries: tuple[str, int, Any, Object], **spec: Any) -> Object:
    return obj(kind, {"replicaSpecs": types(*entries), **spec}, BATCH)


TORCHRUN = {"enabled": True, "maxRestarts": 3, "procPerNode": "4", "rdzvBackend": "c10d"}
DEBUG = {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True, "command": ["sh"]}]}}
LIMITED = {"policy": "OnFailure", "limit": 3}
SPARSE = {"policy": "Never", "limit": 0}

TAKEN: dict[str, tuple[Object, int]] = {
    "torchrun, its options as an empty list, volumes in memory": (
        pytorch(
            ("node", 2, "OnFailure", one("pytorch", WHOLE, DATA, MEMORY, volumeMounts=[MOUNT], args=["train.py"])),
            torchrunConfig={**TORCHRUN, "extraOptions": []},
        ),
        2,
    ),
    "torchrun takes as many processes as cards": (
        pytorch(("node", 1, "OnFailure", one("pytorch", WHOLE)), torchrunConfig={**TORCHRUN, "procPerNode": "gpu"}),
        1,
    ),
    "several types, weights, a board, a user, a policy": (
        pytorch(
            ("master", 1, "OnFailure", one("pytorch", pod={"securityContext": {"runAsUser": 1000}})),
            ("worker", 3, "OnFailure", one("pytorch", workingDir="/mnt", command=["python", "a.py"])),
            tensorboardSpec=BOARD,
            runPolicy={"cleanUpPolicy": "None", "backoffLimit": 0},
            scheduler=block("default", 50),
        ),
        4,
    ),
    "debug with and without commands": (pytorch(("worker", 1, "Never", one("pytorch")), runMode=DEBUG), 1),
    "cards of another vendor, devices of the host, privileges": (
        pytorch(
            (
                "worker",
                1,
                "OnFailure",
                one(
                    "pytorch",
                    equal(hygon_dot_com__dcu=4),
                    DEVICE,
                    SIZED,
                    securityContext={"privileged": True, **LOCK},
                    env=[{"name": "A", "value": "1"}],
                ),
            )
        ),
        1,
    ),
    "files of a Secret": (pytorch(("worker", 1, "OnFailure", one("pytorch", WHOLE, DATA, SECRET))), 1),
    "DeepSpeed, programs by python and by nothing in debug mode": (
        deepspeed(
            {"slotsPerWorker": 2, "run": {"python": []}}, one("worker", WHOLE), runMode={"debug": DEBUG["debug"]}
        ),
        2,
    ),
    "DeepSpeed without a config in debug mode": (deepspeed(None, one("worker", WHOLE), runMode=DEBUG), 2),
    "DeepSpeed with options, tuned, RDMA": (
        deepspeed(
            {
                "slotsPerWorker": 4,
                "localRank": False,
                "autotune": "run",
                "otherArgs": ["--force_multi"],
                "run": {"python": ["train.py"]},
            },
            one("worker", equal(rdma__rdma_shared_device_a=1, nvidia_dot_com__gpu=4), securityContext=LOCK),
            worker={"restartPolicy": "ExitCode"},
        ),
        2,
    ),
    "DeepSpeed, elastic": (
        deepspeed(
            {"run": {"python": ["train.py"]}, "slotsPerWorker": 1},
            one("worker", WHOLE),
            elastic={"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 2},
            runPolicy={"backoffLimit": 5},
        ),
        2,
    ),
    "ColossalAI, older, the template's own restart policy": (
        obj(
            "ColossalAIJob",
            {
                "runPolicy": {"cleanUpWorkers": True},
                "launcher": {"image": "example/cai:1", "workingDir": "/w"},
                "worker": {
                    "replicas": 2,
                    "procPerWorker": 1,
                    "command": ["train.py"],
                    "torchArgs": [],
                    "template": one("worker", WHOLE, pod={"restartPolicy": "OnFailure"}),
                },
            },
            BATCH,
        ),
        3,
    ),
    "ColossalAI, newer": (
        roles(
            "ColossalAIJob",
            ("launcher", 1, None, one("launcher", workingDir="/w")),
            ("worker", 4, None, one("worker", equal(nvidia_dot_com__gpu=1), imagePullPolicy="IfNotPresent")),
            ssh={"authMountPath": "/root/.ssh", "sshdPath": "/usr/sbin/sshd"},
            torchConfig={"procPerWorker": 1, "script": ["train.py", "--flag=True"]},
        ),
        5,
    ),
    "MPI, older, processes and parameters": (
        mpi(
            one("mpi-worker", WHOLE, MEMORY, env=[{"name": "A", "value": "b"}]),
            {"processesPerWorker": 1, "extraMPIArgs": ["-x", "A"]},
            mca={"btl": "^openib", "pml": "ob1"},
            mpiHome="/usr/local/mpi",
            runPolicy={"cleanUpWorkers": True},
        ),
        3,
    ),
    "MPI, newer, a launcher of which nothing is said": (
        roles(
            "MPIJob",
            ("launcher", 1, None, {}),
            ("worker", 2, None, one("worker", WHOLE, DATA)),
            ssh={"sshdPath": "/usr/sbin/sshd"},
            mpiConfig={"home": "/usr/local", "mca": {"btl": "self"}, "script": ["./a"], "extraArgs": ["-v"]},
        ),
        3,
    ),
    "GenericJob with rules, services and limits": (
        roles(
            "GenericJob",
            ("master", 1, LIMITED, one("main", command=["sh"], env=[{"name": "A", "value": "$(rank)"}])),
            ("worker", 2, SPARSE, one("main", pod={"restartPolicy": "OnFailure"})),
            successRules=[{"master": [0]}, {"worker": [0, 1]}],
            failureRules=[{"worker": [0]}],
            service={"ports": [{"name": "rpc", "port": 2222}]},
            cleanUpPolicy="None",
            scheduler=block("default", 5),
        ),
        3,
    ),
    "TensorFlow by chief, parameter servers and a board": (
        roles(
            "TensorFlowTrainingJob",
            ("chief", 1, "Never", one("tensorflow")),
            ("ps", 1, "OnFailure", one("tensorflow")),
            ("worker", 2, "OnFailure", one("tensorflow", WHOLE)),
            tensorboardSpec=BOARD,
        ),
        4,
    ),
    "XGBoost with its port": (
        roles(
            "XGBoostTrainingJob",
            ("master", 1, "Never", one("xgboost", ports=[PORT])),
            ("worker", 2, "ExitCode", one("xgboost", WHOLE, ports=[PORT])),
        ),
        3,
    ),
    "Notebook without type and queue": (
        obj("Notebook", {"template": one("notebook", None, DATA, volumeMounts=[MOUNT])}, PLATFORM),
        1,
    ),
    "TensorBoard with filesets": (obj("TensorBoard", {**BOARD, "resources": WHOLE}, PLATFORM), 1),
}

REFUSED: dict[str, tuple[Object, str, str]] = {
    "the published fragment without a container": (
        deepspeed({"run": {"python": ["a"]}}, {"spec": {}}),
        "spec.worker.template.spec.containers",
        "at least one container",
    ),
    "nothing says what to start": (
        deepspeed({"slotsPerWorker": 2, "run": {"python": []}}, one("worker", WHOLE)),
        "spec.config.run.python",
        "is empty",
    ),
    "a template that misses its spec": (
        roles("XGBoostTrainingJob", ("master", 1, "Never", {"containers": []})),
        "spec.replicaSpecs[0].template.spec.containers",
        "at least one container",
    ),
    "workers without a master": (
        roles("XGBoostTrainingJob", ("worker", 1, "Never", one("xgboost"))),
        "spec.replicaSpecs",
        "no entry of type master",
    ),
    "a host of a Service that is not there": (
        roles(
            "GenericJob",
            ("worker", 1, None, one("main", env=[{"name": "A", "value": "$(service.worker[0].host)"}])),
        ),
        "spec.replicaSpecs[0].template.spec.containers[0].env[0].value",
        "needs spec.service",
    ),
}


@cache
def schemas() -> dict[str, Object]:
    versions = {each["spec"]["names"]["kind"]: each["spec"]["versions"][0] for each in read_definitions(folder("crds"))}
    return {kind: version["schema"]["openAPIV3Schema"] for kind, version in versions.items()}


@pytest.mark.parametrize("what", TAKEN)
def test_taken_as_it_is(what: str) -> None:
    workload, pods = TAKEN[what]
    schema = schemas()[workload["kind"]]
    unknown: list[str] = []
    structural.prune(workload, schema, "", unknown, root=True)
    assert unknown == [], "kubectl, which is strict, would refuse it"
    assert structural.validate(workload, schema) == []
    assert list(misspelt.misspelt_fields(workload, schema)) == []
    assert validate(workload) == []
    assert len(expand(workload).pods) == pods


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_the_path_and_the_sentence(what: str) -> None:
    workload, path, says = REFUSED[what]
    assert [says in fault.message for fault in validate(workload) if fault.path == path] == [True]


def test_processes_of_each_worker_are_slots_of_the_hostfile() -> None:
    workload, _ = TAKEN["MPI, older, processes and parameters"]
    (config,) = expand(workload).configmaps
    assert [line.split()[1] for line in config["data"]["hostfile"].splitlines()] == ["slots=1", "slots=1"]
