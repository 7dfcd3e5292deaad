"""The table of kinds: one row for each kind of object that asks for pods.

A new kind is a file in `kinds/`, a row here, and its definition in `deploy/schemas`: REST, the command line, the
scheduler, the controllers and the rights of each follow the table.

Kinds with a scheduler block carry `{t9kScheduler: {queue, priority}}` at `block`; Kubernetes' own kinds carry labels
and `schedulerName` on the pod template at `pod`; a PodGroup has queue and priority in its spec.
"""

from collections.abc import Mapping
from typing import Any, Final

from t9ksched.model.api_resource import Resource
from t9ksched.model.names import BATCH_GROUP, PLATFORM_GROUP, SCHEDULER_GROUP
from t9ksched.workloads.foreign import BATCH_JOB, FOREIGN, STATEFUL_SET
from t9ksched.workloads.kind import Kind, Scale, Stop

_TEMPLATE: Final = ("spec", "template")


def _pause(enabled: bool) -> dict[str, object]:
    return {"spec": {"runMode": {"pause": {"enabled": enabled}}}}


_PAUSED: Final = Stop(_pause(True), _pause(False))
_SUSPENDED: Final = Stop({"spec": {"suspend": True}}, {"spec": {"suspend": False}})
_TO_NOTHING: Final = Stop({"spec": {"replicas": 0}})
_SCALED: Final = Stop({"spec": {"replicas": 0}}, subresource="scale")
"""By the subresource, with which nothing else of the object can be written."""


_ELASTIC: Final = Scale(
    ("spec", "elastic", "expectedReplicas"),
    ("spec", "elastic", "minReplicas"),
    ("spec", "elastic", "maxReplicas"),
    ("spec", "elastic", "enabled"),
)
_EXPERIMENT_PHASES: Final = (
    ("PENDING", "Pending"),
    ("RUNNING", "Running"),
    ("PAUSED", "Paused"),
    ("DONE", "Succeeded"),
    ("TIMEOUT", "Failed"),
    ("ERROR", "Failed"),
)
_REPLICAS: Final = Scale(("spec", "replicas"), pauses=True)
_PARALLEL: Final = Scale(("spec", "parallelism"), most=("spec", "completions"))


def _batch(kind: str) -> Resource:
    return Resource(BATCH_GROUP, "v1beta1", f"{kind.lower()}s", kind)


def _platform(kind: str) -> Resource:
    return Resource(PLATFORM_GROUP, "v1beta1", f"{kind.lower()}s", kind)


def _job(kind: str, file: str, *short: str, scale: Scale | None = None) -> Kind:
    """A job that one of our controllers runs, which `file` in `kinds/` has."""
    return Kind(
        _batch(kind),
        f"{file}:read",
        short=short,
        controller=f"{file}:CONTROLLER",
        followed="job",
        stop=_PAUSED,
        scale=scale,
    )


def _server(
    kind: str, file: str, short: str, *, stop: Stop = _SUSPENDED, scale: Scale | None = None, deploys: bool = False
) -> Kind:
    """What one of our controllers keeps running until it is stopped."""
    return Kind(
        _platform(kind),
        f"{file}:read",
        short=(short,),
        controller=f"{file}:CONTROLLER",
        followed="job",
        stop=stop,
        scale=scale,
        endless=True,
        deploys=deploys,
    )


ROWS: Final = (
    _job("GenericJob", "generic", "gj"),
    _job("PyTorchTrainingJob", "pytorch", "pj", "ptj", "pytorch", scale=_ELASTIC),
    _job("TensorFlowTrainingJob", "tensorflow", "tj", "tftj"),
    _job("XGBoostTrainingJob", "xgboost", "xj", "xgbj"),
    _job("DeepSpeedJob", "deepspeed", "dj", "dsj", scale=_ELASTIC),
    _job("ColossalAIJob", "colossalai", "caij"),
    _job("MPIJob", "mpi", "mj", "mpi"),
    _job("BeamJob", "beam", "bj"),
    Kind(_batch("WorkflowRun"), "workflow:read", short=("wr",), submitted=True, followed="job", steps=True),
    Kind(
        _platform("AutoTuneExperiment"),
        "autotune:read",
        ("spec", "trainingConfig", "scheduler"),
        short=("at",),
        controller="autotune:CONTROLLER",
        followed="job",
        stop=_PAUSED,
        phases=_EXPERIMENT_PHASES,
    ),
    _server("Notebook", "notebook", "nb"),
    _server("SimpleMLService", "simpleml", "smls", stop=_TO_NOTHING, scale=_REPLICAS, deploys=True),
    _server("MLService", "mlservice", "mls", stop=_PAUSED, deploys=True),
    _server("TensorBoard", "tensorboard", "tb"),
    _server("Explorer", "explorer", "ex"),
    _server("VirtualServer", "virtualserver", "vs", deploys=True),
    Kind(_platform("Project"), "services:read_nothing", ("spec", "defaultScheduler")),
    Kind(
        Resource(SCHEDULER_GROUP, "v1beta1", "podgroups", "PodGroup"),
        "native:read_pod_group",
        (),
        short=("pg",),
        submitted=True,
    ),
    Kind(Resource("", "v1", "pods", "Pod"), "native:read_pod", (), (), short=("po",), submitted=True),
    Kind(
        Resource("batch", "v1", "jobs", "Job"),
        "native:read_batch_job",
        (),
        _TEMPLATE,
        submitted=True,
        followed="job",
        stop=_SUSPENDED,
        scale=_PARALLEL,
        gang=BATCH_JOB,
    ),
    Kind(
        Resource("apps", "v1", "deployments", "Deployment"),
        "native:read_replicated",
        (),
        _TEMPLATE,
        short=("deploy",),
        followed="owner",
        stop=_SCALED,
        endless=True,
    ),
    Kind(
        Resource("apps", "v1", "replicasets", "ReplicaSet"),
        "",
        (),
        _TEMPLATE,
        short=("rs",),
        followed="owner",
        stop=_SCALED,
        endless=True,
    ),
    Kind(
        Resource("apps", "v1", "statefulsets", "StatefulSet"),
        "native:read_replicated",
        (),
        _TEMPLATE,
        short=("sts",),
        followed="owner",
        stop=_SCALED,
        endless=True,
        gang=STATEFUL_SET,
    ),
    *FOREIGN,
)

KINDS: Final = {row.name: row for row in ROWS if row.readable}
"""Kinds that can name a queue, by name."""
ALIASES: Final = {"DeepspeedJob": "DeepSpeedJob"}
"""Spellings found in older samples."""
CONTROLLED: Final = tuple(row for row in ROWS if row.controlled)
"""Kinds that our controllers turn into pods."""
JOBS: Final = tuple(row for row in ROWS if row.followed == "job")
"""Kinds that the scheduler lists with their state."""
OWNERS: Final = tuple(row for row in ROWS if row.followed == "owner")
"""Kinds that the scheduler follows for the sake of the pods that they own."""
GANGS: Final = tuple(row for row in ROWS if row.gang is not None)
"""Kinds that others turn into pods, which may be a gang."""
STOPS: Final = {
    (row.resource.group, name): row.stop
    for row in ROWS
    for name in (row.name, row.resource.api_kind)
    if row.stop is not None
}
"""How objects are told to stop, by group and kind. A kind that is not here can only be deleted."""
ENDLESS_KINDS: Final = tuple(sorted([*(row.name for row in ROWS if row.endless), "DaemonSet", "ReplicationController"]))
"""Kinds whose pods are replaced until the object is stopped: a queue that drains never gets empty of them by itself.

Their template may be edited while they run, so they may move to another queue; other kinds stay where they were
accepted.
"""
SHORT_NAMES: Final = {short: row.name for row in ROWS for short in (row.name.lower(), *row.short)}
"""Names on the command line, in lower case, to kinds."""


def spelled(text: str) -> str | None:
    """The name of the kind that a text means, in any case, singular or plural, and as kubectl takes it too, with its
    group and perhaps its version behind a dot; None if there is none.
    """
    key = text.lower()
    return _SPELLINGS.get(key) or _SPELLINGS.get(key.removesuffix("s"))


def kind_named(name: str) -> Kind | None:
    """The kind of that name that can name a queue, older spellings included; None if there is none."""
    return KINDS.get(ALIASES.get(name, name))


def kind_of(obj: Mapping[str, Any]) -> Kind | None:
    """The kind of an object that can name a queue, by its kind and apiVersion; None if there is none.

    Of a version that is not known the kind of the same name is found, so that its reader can say so.
    """
    name, version = str(obj.get("kind")), str(obj.get("apiVersion"))
    return _BY_OBJECT.get((version, name)) or kind_named(name)


def row_of(resource: Resource) -> Kind:
    """The row of a resource. Raises KeyError for a resource that is none of a kind in the table."""
    return _BY_RESOURCE[resource]


_BY_OBJECT: Final = {
    (row.api_version, name): row for row in KINDS.values() for name in (row.name, row.resource.api_kind)
}
_BY_RESOURCE: Final = {row.resource: row for row in ROWS}


def _spellings() -> dict[str, str]:
    """Every way to write each kind, in lower case. What could mean several kinds means the first of them."""
    found = dict(SHORT_NAMES)
    for row in ROWS:
        of = row.resource
        if "." not in row.name:
            found.setdefault(of.plural, row.name)
        for word in (of.plural, of.api_kind.lower(), *row.short):
            for group in (of.group, f"{of.version}.{of.group}") if of.group else ():
                found.setdefault(f"{word}.{group}", row.name)
    return found


_SPELLINGS: Final = _spellings()
