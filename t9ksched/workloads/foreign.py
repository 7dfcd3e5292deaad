"""Kinds of jobs of other projects: a row for each, with everything that is known of it here.

Their own controllers turn them into pods. Pods of them that name this scheduler start whole: the object above them says
how many belong together. Nothing of these objects is ever written but the field by which they are suspended.
"""

from typing import Final

from t9ksched.model.api_resource import Resource
from t9ksched.workloads.gangform import Bounds, Foreign, GangForm, Groups, Keys, Needed, Project
from t9ksched.workloads.kind import Kind, Stop

JOBSET: Final = Project("jobset", "JobSet")
TRAINING: Final = Project("kubeflow-training", "Kubeflow Training Operator v1")
MPI: Final = Project("kubeflow-mpi", "Kubeflow MPI Operator")
TRAINER: Final = Project("kubeflow-trainer", "Kubeflow Trainer v2")
LWS: Final = Project("lws", "LeaderWorkerSet")
RAY: Final = Project("kuberay", "KubeRay")

_JOB_NAME: Final = "training.kubeflow.org/job-name"
_RUN_POLICY: Final = ("spec", "runPolicy")
_DEADLINE: Final = (*_RUN_POLICY, "activeDeadlineSeconds")
_REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
_MIN_AVAILABLE: Final = (*_RUN_POLICY, "schedulingPolicy", "minAvailable")

BATCH_JOB: Final = GangForm(
    groups=(Groups(("spec",), "one", "", replicas=("",), job=()),),
    annotated=True,
    needed=(
        Needed(
            ("spec", "completionMode"),
            "Indexed",
            "pods without an index may be made anew in any number; set completionMode: Indexed",
        ),
    ),
)
"""An Indexed Job that asks for it by annotation."""
STATEFUL_SET: Final = GangForm(
    groups=(Groups(("spec",), "one", ""),),
    annotated=True,
    needed=(
        Needed(
            ("spec", "podManagementPolicy"),
            "Parallel",
            "its pods are made one after the other, each when the one before is ready, so that they never wait"
            " together; set podManagementPolicy: Parallel",
        ),
    ),
)
"""A StatefulSet that asks for it by annotation."""


def _row(
    resource: Resource,
    *,
    gang: GangForm,
    foreign: Foreign,
    short: tuple[str, ...] = (),
    stop: Stop | None = None,
    endless: bool = False,
) -> Kind:
    """What all these kinds have in common."""
    return Kind(
        resource,
        pod=None,
        block=(),
        short=short,
        submitted=True,
        followed="job",
        stop=stop,
        endless=endless,
        gang=gang,
        foreign=foreign,
    )


def _suspended(path: Keys) -> Stop:
    """By the flag at that path."""

    def patch(value: bool) -> dict[str, object]:
        body: object = value
        for key in reversed(path):
            body = {key: body}
        assert isinstance(body, dict)
        return body

    return Stop(patch(True), patch(False))


def _training(kind: str, field: str, *short: str, elastic: bool = False) -> Kind:
    """A job of the training operator: a mapping from role to replicas."""
    bounds = Bounds(("spec", "elasticPolicy", "minReplicas"), "worker") if elastic else None
    return _row(
        Resource("kubeflow.org", "v1", f"{kind.partition('.')[0].lower()}s", kind),
        short=short,
        stop=_suspended((*_RUN_POLICY, "suspend")),
        gang=GangForm(
            groups=(Groups(("spec", field), "mapping"),),
            role="training.kubeflow.org/replica-type",
            minimum=_MIN_AVAILABLE,
            bounds=bounds,
        ),
        foreign=Foreign(TRAINING, deadline=_DEADLINE, selector=_JOB_NAME, index=_REPLICA_INDEX),
    )


_JOBSET: Final = _row(
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    short=("js",),
    stop=_suspended(("spec", "suspend")),
    gang=GangForm(
        groups=(
            Groups(
                ("spec", "replicatedJobs"),
                template=(("template", "spec", "template"),),
                job=("template", "spec"),
                after=("dependsOn",),
            ),
        ),
        role="jobset.sigs.k8s.io/replicatedjob-name",
        staged=((("spec", "startupPolicy", "startupPolicyOrder"), "InOrder"),),
    ),
    foreign=Foreign(
        JOBSET,
        selector="jobset.sigs.k8s.io/jobset-name",
        direct=False,
        apart=("jobset.sigs.k8s.io/job-index",),
        index="batch.kubernetes.io/job-completion-index",
    ),
)

_MPI_V2: Final = _row(
    Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob.kubeflow.org"),
    stop=_suspended((*_RUN_POLICY, "suspend")),
    gang=GangForm(
        groups=(Groups(("spec", "mpiReplicaSpecs"), "mapping"),),
        role="training.kubeflow.org/job-role",
        minimum=_MIN_AVAILABLE,
        staged=(
            (("spec", "launcherCreationPolicy"), "WaitForWorkersReady"),
            (("spec", "waitForWorkers"), True),
        ),
    ),
    foreign=Foreign(MPI, deadline=_DEADLINE, selector=_JOB_NAME, direct=False, index=_REPLICA_INDEX),
)

_LWS: Final = _row(
    Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    short=("lws",),
    endless=True,
    gang=GangForm(
        groups=(
            Groups(
                ("spec", "leaderWorkerTemplate"),
                "one",
                "leader",
                template=(("leaderTemplate",), ("workerTemplate",)),
                replicas=("",),
            ),
            Groups(
                ("spec", "leaderWorkerTemplate"),
                "one",
                "worker",
                template=(("workerTemplate",),),
                replicas=("size",),
                added=-1,
            ),
        ),
        role="leaderworkerset.sigs.k8s.io/worker-index",
        roles=(("0", "leader"), ("", "worker")),
        part="leaderworkerset.sigs.k8s.io/group-index",
        parts=("spec", "replicas"),
        staged=((("spec", "startupPolicy"), "LeaderReady"),),
    ),
    foreign=Foreign(
        LWS,
        selector="leaderworkerset.sigs.k8s.io/name",
        direct=False,
        apart=("leaderworkerset.sigs.k8s.io/group-index",),
        index="leaderworkerset.sigs.k8s.io/worker-index",
    ),
)


def _ray(kind: str, cluster: Keys, *, below: bool, stop: Stop | None, foreign: Foreign, endless: bool = False) -> Kind:
    """A kind of Ray, by where it describes the cluster: a head, and groups of workers."""
    return _row(
        Resource("ray.io", "v1", f"{kind.lower()}s", kind),
        endless=endless,
        stop=stop,
        gang=GangForm(
            groups=(
                Groups((*cluster, "headGroupSpec"), "one", "headgroup", replicas=("",)),
                Groups(
                    (*cluster, "workerGroupSpecs"),
                    name="groupName",
                    default=0,
                    times=("numOfHosts",),
                    least=("minReplicas",),
                    off=("suspend",),
                ),
            ),
            role="ray.io/group",
            elastic=(*cluster, "enableInTreeAutoscaling"),
            below=below,
        ),
        foreign=foreign,
    )


_RAY_CLUSTER: Final = "ray.io/cluster"
_TRAIN_JOB: Final = _row(
    Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    stop=_suspended(("spec", "suspend")),
    gang=GangForm(role="jobset.sigs.k8s.io/replicatedjob-name", below=True),
    foreign=Foreign(
        TRAINER,
        deadline=("spec", "activeDeadlineSeconds"),
        selector="jobset.sigs.k8s.io/jobset-name",
        direct=False,
        apart=("jobset.sigs.k8s.io/job-index",),
        index="batch.kubernetes.io/job-completion-index",
    ),
)

FOREIGN: Final = (
    _JOBSET,
    _training("PyTorchJob", "pytorchReplicaSpecs", elastic=True),
    _training("TFJob", "tfReplicaSpecs"),
    _training("XGBoostJob", "xgbReplicaSpecs"),
    _training("PaddleJob", "paddleReplicaSpecs", elastic=True),
    _training("JAXJob", "jaxReplicaSpecs"),
    _MPI_V2,
    _training("MPIJob.v1.kubeflow.org", "mpiReplicaSpecs"),
    _TRAIN_JOB,
    _LWS,
    _ray(
        "RayCluster",
        ("spec",),
        below=False,
        stop=_suspended(("spec", "suspend")),
        endless=True,
        foreign=Foreign(RAY, phase=(("state",),), phases=(("suspended", "Paused"),), selector=_RAY_CLUSTER),
    ),
    _ray(
        "RayJob",
        ("spec", "rayClusterSpec"),
        below=True,
        stop=_suspended(("spec", "suspend")),
        foreign=Foreign(
            RAY,
            deadline=("spec", "activeDeadlineSeconds"),
            phase=(("jobDeploymentStatus",), ("jobStatus",)),
            phases=(
                ("Failed", "Failed"),
                ("Suspended", "Paused"),
                ("Retrying", ""),
                ("SUCCEEDED", "Succeeded"),
                ("FAILED", "Failed"),
                ("STOPPED", "Failed"),
            ),
            selector=_RAY_CLUSTER,
            named=("status", "rayClusterName"),
            direct=False,
        ),
    ),
    _ray(
        "RayService",
        ("spec", "rayClusterConfig"),
        below=True,
        stop=None,
        endless=True,
        foreign=Foreign(
            RAY, selector=_RAY_CLUSTER, named=("status", "activeServiceStatus", "rayClusterName"), direct=False
        ),
    ),
)
"""In the order in which they are told to people."""
