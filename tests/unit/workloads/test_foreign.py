"""Kinds of other projects, a row each: what starts together, which pod is what, how it is stopped and how it goes.

The shapes are those of the projects' own examples: fields, defaults and labels as their controllers write them.
"""

from typing import Any

import pytest
import yaml

from t9ksched.model.names import GANG_ANNOTATION, QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.workloads import runmode
from t9ksched.workloads.foreign import FOREIGN
from t9ksched.workloads.foreignstatus import phase_of
from t9ksched.workloads.gangs import asks_for_gang, at, gangs_of, like_part, place_of, staged
from t9ksched.workloads.queueing import with_queue
from t9ksched.workloads.read import read, validate
from t9ksched.workloads.registry import GANGS, KINDS, kind_of

Object = dict[str, Any]
POD = "{spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 1}}}]}}"


def obj(text: str, name: str = "train", **meta: Any) -> Object:
    found: Object = yaml.safe_load(text.replace("POD", POD))
    return found | {"metadata": {"name": name, "namespace": "lab", **meta}}


JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
spec:
  replicatedJobs:
  - {name: driver, template: {spec: {template: POD}}}
  - {name: workers, replicas: 2, template: {spec: {parallelism: 4, completions: 4, backoffLimit: 0, template: POD}}}
"""
JOBSET_LABELS = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  runPolicy: {activeDeadlineSeconds: 600}
  pytorchReplicaSpecs:
    Master: {restartPolicy: OnFailure, template: POD}
    Worker: {replicas: 3, restartPolicy: OnFailure, template: POD}
"""
ELASTIC = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  elasticPolicy: {rdzvBackend: c10d, minReplicas: 2, maxReplicas: 8, maxRestarts: 100}
  pytorchReplicaSpecs:
    Worker: {replicas: 4, template: POD}
"""
TENSORFLOW = """
apiVersion: kubeflow.org/v1
kind: TFJob
spec:
  tfReplicaSpecs:
    Chief: {template: POD}
    PS: {replicas: 2, template: POD}
    Worker: {replicas: 4, template: POD}
"""
XGBOOST = """
apiVersion: kubeflow.org/v1
kind: XGBoostJob
spec: {xgbReplicaSpecs: {Master: {replicas: 1, template: POD}, Worker: {replicas: 2, template: POD}}}
"""
PADDLE = """
apiVersion: kubeflow.org/v1
kind: PaddleJob
spec: {paddleReplicaSpecs: {Worker: {replicas: 2, template: POD}}}
"""
JAX = """
apiVersion: kubeflow.org/v1
kind: JAXJob
spec: {jaxReplicaSpecs: {Worker: {replicas: 3, template: POD}}}
"""
MPI_V2 = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  slotsPerWorker: 1
  runPolicy: {cleanPodPolicy: Running}
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: POD}
    Worker: {replicas: 2, template: POD}
"""
LWS = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  replicas: 2
  leaderWorkerTemplate: {size: 4, restartPolicy: RecreateGroupOnPodRestart, workerTemplate: POD}
"""
LWS_LABELS = {
    "leaderworkerset.sigs.k8s.io/name": "train",
    "leaderworkerset.sigs.k8s.io/group-index": "1",
    "leaderworkerset.sigs.k8s.io/worker-index": "0",
}
RAY_CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
spec:
  headGroupSpec: {rayStartParams: {}, template: POD}
  workerGroupSpecs:
  - {groupName: small-group, replicas: 3, minReplicas: 1, maxReplicas: 5, rayStartParams: {}, template: POD}
  - {groupName: tpu, replicas: 1, numOfHosts: 4, rayStartParams: {}, template: POD}
"""
RAY_LABELS = {"ray.io/cluster": "train", "ray.io/node-type": "head", "ray.io/group": "headgroup"}
MPI_V1 = MPI_V2.replace("v2beta1", "v1")


def trained(kind: str, role: str) -> dict[str, str]:
    label = "job-role" if kind == "MPIJob.kubeflow.org" else "replica-type"
    return {"training.kubeflow.org/job-name": "train", f"training.kubeflow.org/{label}": role}


# kind, object, roles that start together, labels of a pod, its role
TABLE: list[Any] = [
    ("JobSet", JOBSET, {"driver": 1, "workers": 8}, JOBSET_LABELS, "workers"),
    ("PyTorchJob", PYTORCH, {"master": 1, "worker": 3}, trained("PyTorchJob", "master"), "master"),
    ("PyTorchJob", ELASTIC, {"worker": 2}, trained("PyTorchJob", "worker"), "worker"),
    ("TFJob", TENSORFLOW, {"chief": 1, "ps": 2, "worker": 4}, trained("TFJob", "ps"), "ps"),
    ("XGBoostJob", XGBOOST, {"master": 1, "worker": 2}, trained("XGBoostJob", "Worker"), "worker"),
    ("PaddleJob", PADDLE, {"worker": 2}, trained("PaddleJob", "worker"), "worker"),
    ("JAXJob", JAX, {"worker": 3}, trained("JAXJob", "worker"), "worker"),
    (
        "MPIJob.kubeflow.org",
        MPI_V2,
        {"launcher": 1, "worker": 2},
        trained("MPIJob.kubeflow.org", "launcher"),
        "launcher",
    ),
    ("RayCluster", RAY_CLUSTER, {"headgroup": 1, "small-group": 3, "tpu": 4}, RAY_LABELS, "headgroup"),
    ("MPIJob.v1.kubeflow.org", MPI_V1, {"launcher": 1, "worker": 2}, trained("", "worker"), "worker"),
]
CASES = [(*row, number) for number, row in enumerate(TABLE)]
IDS = [f"{row[0]}-{number}" for number, row in enumerate(TABLE)]


def test_the_table_has_every_kind() -> None:
    assert {row[0] for row in TABLE} | {"LeaderWorkerSet"} == {
        kind.name for kind in FOREIGN if kind.gang is not None and not kind.gang.below
    }


@pytest.mark.parametrize(("kind", "text", "roles", "labels", "role", "number"), CASES, ids=IDS)
def test_what_starts_together(
    kind: str, text: str, roles: dict[str, int], labels: dict[str, str], role: str, number: int
) -> None:
    given = obj(text)
    found = kind_of(given)
    assert found is KINDS[kind]
    assert found.gang is not None
    assert read(given).scheduler == "default-scheduler"
    ours = with_queue(given, "q")
    workload = read(ours)
    assert (workload.scheduler, workload.queue, workload.kind) == (SCHEDULER_NAME, "q", kind)
    assert {one.role: one.min_replicas for one in workload.templates} == roles
    assert workload.min_totals["nvidia.com/gpu"] == sum(roles.values())
    (gang,) = gangs_of(found, ours, title="it")
    assert (gang.minimum, dict(gang.roles), gang.fault, gang.part) == (sum(roles.values()), roles, "", "")
    assert place_of(found.gang, ours, labels) == ("", role)


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.name)
def test_it_is_suspended_and_let_run_by_one_field(kind: Any) -> None:
    if kind.name in ("LeaderWorkerSet", "RayService"):
        assert not runmode.can_pause(kind)
        return
    assert runmode.can_pause(kind)
    path = ("spec", "runPolicy", "suspend") if kind.resource.group == "kubeflow.org" else ("spec", "suspend")
    assert (at(kind.stop.patch, path), at(kind.stop.resume, path)) == (True, False)
    assert runmode.is_paused(kind.stop.patch, kind)
    assert phase_of(kind.foreign, kind.stop.patch["spec"], {}) == "Paused"


@pytest.mark.parametrize(
    ("condition", "phase"),
    [
        ("Created", ""),
        ("Running", ""),
        ("Suspended", "Paused"),
        ("Succeeded", "Succeeded"),
        ("Completed", "Succeeded"),
        ("Failed", "Failed"),
    ],
)
def test_how_it_goes_is_said_by_conditions(condition: str, phase: str) -> None:
    status = {"conditions": [{"type": condition, "status": "True"}, {"type": "Restarting", "status": "False"}]}
    assert phase_of(KINDS["PyTorchJob"].foreign, {}, status) == phase  # type: ignore[arg-type]
    assert phase_of(KINDS["PyTorchJob"].foreign, {}, {"conditions": 1}) == ""  # type: ignore[arg-type]


def test_groups_that_start_one_after_the_other_are_gangs_of_their_own() -> None:
    ordered = with_queue(obj(JOBSET), "q")
    ordered["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    depending = with_queue(obj(JOBSET), "q")
    depending["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    form = KINDS["JobSet"].gang
    assert form is not None
    for one in (ordered, depending):
        assert [(gang.part, gang.minimum) for gang in gangs_of(KINDS["JobSet"], one, title="it")] == [
            ("driver", 1),
            ("workers", 8),
        ]
        assert place_of(form, one, JOBSET_LABELS) == ("workers", "workers")
    waiting = obj(MPI_V2)
    waiting["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    mpi = KINDS["MPIJob.kubeflow.org"].gang
    assert mpi is not None
    assert staged(mpi, waiting)
    assert not staged(mpi, obj(MPI_V2))


def test_the_smallest_number_that_the_user_names_counts() -> None:
    given = with_queue(obj(PYTORCH), "q")
    given["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": 2}
    (gang,) = gangs_of(KINDS["PyTorchJob"], given, title="it")
    assert (gang.minimum, gang.roles) == (2, ())
    given["spec"]["runPolicy"]["schedulingPolicy"] = {"minAvailable": 99}
    (gang,) = gangs_of(KINDS["PyTorchJob"], given, title="it")
    assert gang.minimum == 4


def test_only_pods_of_this_scheduler_are_waited_for() -> None:
    given = obj(PYTORCH, labels={QUEUE_LABEL: "q"})
    given["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    (gang,) = gangs_of(KINDS["PyTorchJob"], given, title="it")
    assert (gang.minimum, dict(gang.roles)) == (3, {"worker": 3})
    assert [one.role for one in read(given).templates] == ["worker"]


@pytest.mark.parametrize("place", ["labels", "annotations", "pods"])
def test_the_queue_is_named_by_label_or_annotation(place: str) -> None:
    given = with_queue(obj(PYTORCH), "q")
    del given["metadata"]["labels"]
    if place == "pods":
        pods = given["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        pods["metadata"] = {"labels": {QUEUE_LABEL: "mine"}}
    else:
        given["metadata"][place] = {QUEUE_LABEL: "mine"}
    assert read(given).queue == "mine"


def test_a_fault_has_its_path() -> None:
    given = obj(PYTORCH)
    given["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "three"
    given["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"] = []
    paths = {fault.path for fault in validate(given)}
    assert "spec.pytorchReplicaSpecs.Worker.replicas" in paths
    assert "spec.pytorchReplicaSpecs.Master.template.spec.containers" in paths


def test_each_group_of_a_leader_and_its_workers_is_a_gang() -> None:
    kind, given = KINDS["LeaderWorkerSet"], with_queue(obj(LWS), "q")
    form = kind.gang
    assert form is not None
    (gang,) = gangs_of(kind, given, title="it")
    assert (gang.minimum, dict(gang.roles)) == (4, {"leader": 1, "worker": 3})
    assert place_of(form, given, LWS_LABELS) == ("1", "leader")
    assert place_of(form, given, {**LWS_LABELS, "leaderworkerset.sigs.k8s.io/worker-index": "3"}) == ("1", "worker")
    workload = read(given)
    assert (workload.totals["nvidia.com/gpu"], workload.min_totals["nvidia.com/gpu"]) == (8, 4)
    given["spec"]["startupPolicy"] = "LeaderReady"
    assert [(one.part, one.minimum) for one in gangs_of(kind, given, title="it")] == [("leader", 1), ("worker", 3)]
    assert place_of(form, given, LWS_LABELS) == ("1.leader", "leader")
    found = like_part(gangs_of(kind, given, title="it"), "1.worker")
    assert found is not None
    assert found.minimum == 3


def test_a_ray_cluster_that_scales_itself_needs_its_smallest_size() -> None:
    given = with_queue(obj(RAY_CLUSTER), "q")
    given["spec"]["enableInTreeAutoscaling"] = True
    given["spec"]["workerGroupSpecs"][1]["minReplicas"] = 2
    (gang,) = gangs_of(KINDS["RayCluster"], given, title="it")
    assert dict(gang.roles) == {"headgroup": 1, "small-group": 1, "tpu": 8}
    given["spec"]["workerGroupSpecs"][1]["suspend"] = True
    (gang,) = gangs_of(KINDS["RayCluster"], given, title="it")
    assert dict(gang.roles) == {"headgroup": 1, "small-group": 1}


@pytest.mark.parametrize(("kind", "field"), [("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig")])
def test_what_owns_a_ray_cluster_is_read_as_one(kind: str, field: str) -> None:
    given = obj(RAY_CLUSTER)
    owner = with_queue({**given, "kind": kind, "spec": {field: given["spec"]}}, "q")
    workload = read(owner)
    assert (workload.kind, workload.queue, workload.replicas) == (kind, "q", 8)
    form = KINDS[kind].gang
    assert form is not None
    assert not asks_for_gang(form, {})


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({}, ""),
        ({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}, ""),
        ({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, "Succeeded"),
        ({"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}, "Failed"),
        ({"jobStatus": "FAILED", "jobDeploymentStatus": "Retrying"}, ""),
        ({"jobStatus": "STOPPED", "jobDeploymentStatus": "Complete"}, "Failed"),
        ({"jobDeploymentStatus": "Suspended"}, "Paused"),
    ],
)
def test_how_a_ray_job_goes(status: Object, phase: str) -> None:
    foreign = KINDS["RayJob"].foreign
    assert foreign is not None
    assert phase_of(foreign, {}, status) == phase


def test_a_train_job_is_ours_if_it_names_a_queue() -> None:
    text = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 4}}
"""
    assert read(obj(text)).scheduler == "default-scheduler"
    workload = read(with_queue(obj(text), "q"))
    assert (workload.scheduler, workload.queue, workload.replicas) == (SCHEDULER_NAME, "q", 0)


NATIVE = """
apiVersion: batch/v1
kind: Job
spec: {parallelism: 4, completions: 6, completionMode: Indexed, template: POD}
"""
SET = """
apiVersion: apps/v1
kind: StatefulSet
spec: {replicas: 3, podManagementPolicy: Parallel, selector: {matchLabels: {a: b}}, template: POD}
"""


@pytest.mark.parametrize(("text", "count", "field"), [(NATIVE, 4, "completionMode"), (SET, 3, "podManagementPolicy")])
def test_kinds_of_kubernetes_ask_for_it_by_annotation(text: str, count: int, field: str) -> None:
    given = obj(text)
    kind = kind_of(given)
    assert kind in GANGS
    assert kind is not None
    assert kind.gang is not None
    assert not asks_for_gang(kind.gang, {})
    assert asks_for_gang(kind.gang, {GANG_ANNOTATION: "true"})
    given["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    (gang,) = gangs_of(kind, given, title="the object lab/x")
    assert (gang.minimum, gang.roles, gang.fault) == (count, (), "")
    assert place_of(kind.gang, given, {}) == ("", "")
    del given["spec"][field]
    (gang,) = gangs_of(kind, given, title="the object lab/x")
    assert gang.fault.startswith(f"the object lab/x asks for a gang, but its spec.{field} is missing")
