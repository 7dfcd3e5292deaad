"""The object of what was asked for: a batch Job of one pod, or a PyTorchTrainingJob of several.

A PyTorchTrainingJob is made where replicas, torchrun or a priority are asked for; Kubernetes' own Job has none of them.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from t9ksched.model.errors import FieldError, Invalid, child
from t9ksched.model.names import (
    BATCH_API,
    DEFAULT_QUEUE,
    GPU_CORES_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    GPU_MODEL_ANNOTATION,
    QUEUE_LABEL,
    SCHEDULER_NAME,
)
from t9ksched.workloads.compose.asked import Asked
from t9ksched.workloads.compose.torchrun import torchrun_call

_CONTAINER: Final = "main"
_TRAINING_CONTAINER: Final = "pytorch"


@dataclass(frozen=True, slots=True)
class Composed:
    """`obj` is the object. `fields` says which word filled a field, by the path that faults name. `notes` are sentences
    about what became of words that have no field of their own.
    """

    obj: dict[str, Any]
    fields: dict[str, str]
    notes: tuple[str, ...] = field(default=())


def compose(asked: Asked) -> Composed:
    """The object of what was asked for.

    Raises:
        Invalid: the words contradict each other; what Kubernetes and the queue say of it is judged at submission.
    """
    faults = _faults(asked)
    if faults:
        raise Invalid(faults)
    gang = asked.replicas is not None or asked.priority is not None or _by_torchrun(asked)
    return _training_job(asked) if gang else _batch_job(asked)


def _faults(asked: Asked) -> list[FieldError]:
    faults: list[FieldError] = []
    if not asked.command:
        faults.append(FieldError("command", "is missing: write what to run after --, such as -- python train.py"))
    if not asked.image:
        faults.append(FieldError("image", "is missing: name the container image to run in"))
    if asked.replicas is not None and asked.replicas < 1:
        faults.append(FieldError("replicas", f"{asked.replicas} is too few: a job has one replica or more"))
    for word, value in (("gpus", asked.gpus), ("retries", asked.retries)):
        if value < 0:
            faults.append(FieldError(word, f"{value} is negative: write 0 or more"))
    if asked.workdir and not asked.workdir.startswith("/"):
        faults.append(FieldError("workdir", f"{asked.workdir!r} is not absolute: write it from / on"))
    for word, text in (
        ("gpu-model", asked.gpu_model),
        ("gpu-memory", asked.gpu_memory),
        ("gpu-cores", asked.gpu_cores),
    ):
        if text and not asked.gpus:
            faults.append(FieldError(word, "is about cards, and no cards are asked for: add --gpus N"))
    return faults


def _by_torchrun(asked: Asked) -> bool:
    return asked.torchrun or asked.command[0].rsplit("/", 1)[-1] == "torchrun"


def _batch_job(asked: Asked) -> Composed:
    spec = _pod_spec(asked, _CONTAINER, {"command": list(asked.command)})
    spec |= {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never"}
    metadata = {"labels": {QUEUE_LABEL: asked.queue or DEFAULT_QUEUE}}
    if annotations := _annotations(asked):
        metadata["annotations"] = annotations
    template = {"metadata": metadata, "spec": spec}
    obj = _object("batch/v1", "Job", asked, {"backoffLimit": asked.retries, "template": template})
    return Composed(obj, _fields(asked, "spec.template", "spec.backoffLimit"))


def _training_job(asked: Asked) -> Composed:
    notes: list[str] = []
    spec: dict[str, Any] = {"scheduler": {"t9kScheduler": {"queue": asked.queue or DEFAULT_QUEUE}}}
    if asked.priority is not None:
        spec["scheduler"]["t9kScheduler"]["priority"] = asked.priority
        if asked.replicas is None and not _by_torchrun(asked):
            notes.append("a PyTorchTrainingJob is made of it, because a Job has no priority")
    started: dict[str, Any] = {"command": list(asked.command)}
    if _by_torchrun(asked):
        call = torchrun_call(asked.command, asked.gpus)
        spec["torchrunConfig"] = call.config
        started = {"args": list(call.args)}
        if call.left_out:
            notes.append(f"{', '.join(call.left_out)} left out: the job's controller says how its replicas meet")
    spec["runPolicy"] = {"backoffLimit": asked.retries, "cleanUpPolicy": "Unfinished"}
    template: dict[str, Any] = {"spec": _pod_spec(asked, _TRAINING_CONTAINER, started)}
    if annotations := _annotations(asked):
        template["metadata"] = {"annotations": annotations}
    replicas = {
        "type": "worker",
        "replicas": asked.replicas or 1,
        "restartPolicy": "OnFailure" if asked.retries else "Never",
        "template": template,
    }
    spec["replicaSpecs"] = [replicas]
    obj = _object(BATCH_API, "PyTorchTrainingJob", asked, spec)
    return Composed(obj, _fields(asked, "spec.replicaSpecs[0].template", "spec.runPolicy.backoffLimit"), tuple(notes))


def _object(api_version: str, kind: str, asked: Asked, spec: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": asked.name}
    if asked.namespace:
        metadata["namespace"] = asked.namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _annotations(asked: Asked) -> dict[str, str]:
    """Of the pods: which cards will do, and what else was said of them."""
    given = {
        GPU_MODEL_ANNOTATION: asked.gpu_model,
        GPU_MEMORY_ANNOTATION: asked.gpu_memory,
        GPU_CORES_ANNOTATION: asked.gpu_cores,
    }
    return dict(asked.annotations) | {key: text for key, text in given.items() if text}


def _pod_spec(asked: Asked, container: str, started: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"name": container, "image": asked.image, **started}
    if asked.workdir:
        body["workingDir"] = asked.workdir
    if asked.environment:
        body["env"] = [{"name": name, "value": value} for name, value in asked.environment.items()]
    requests = {name: amount for name, amount in (("cpu", asked.cpu), ("memory", asked.memory)) if amount}
    # A job may use idle cores beyond its request; memory beyond it would end other pods.
    limits: dict[str, Any] = {"memory": asked.memory} if asked.memory else {}
    if asked.gpus:
        limits[asked.gpu_resource] = asked.gpus
    if resources := {key: value for key, value in (("requests", requests), ("limits", limits)) if value}:
        body["resources"] = resources
    spec: dict[str, Any] = {"containers": [body]}
    if asked.mounts:
        claims = dict.fromkeys(mount.claim for mount in asked.mounts)
        volumes = {claim: f"claim-{at}" for at, claim in enumerate(claims)}
        body["volumeMounts"] = [
            {"name": volumes[mount.claim], "mountPath": mount.path} | ({"readOnly": True} if mount.read_only else {})
            for mount in asked.mounts
        ]
        spec["volumes"] = [
            {"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in volumes.items()
        ]
    return spec


def _fields(asked: Asked, template: str, retries: str) -> dict[str, str]:
    """The words by the paths of the fields that they fill."""
    container = f"{template}.spec.containers[0]"
    annotations = f"{template}.metadata.annotations"
    return {
        "metadata.name": "name",
        "metadata.namespace": "namespace",
        retries: "retries",
        f"{container}.image": "image",
        f"{container}.workingDir": "workdir",
        f"{container}.resources.requests.cpu": "cpu",
        f"{container}.resources.requests.memory": "memory",
        f"{container}.resources.limits.memory": "memory",
        child(f"{container}.resources.limits", asked.gpu_resource): "gpus",
        f"{annotations}[{GPU_MODEL_ANNOTATION}]": "gpu-model",
        f"{annotations}[{GPU_MEMORY_ANNOTATION}]": "gpu-memory",
        f"{annotations}[{GPU_CORES_ANNOTATION}]": "gpu-cores",
        "spec.replicaSpecs[0].replicas": "replicas",
        "spec.scheduler.t9kScheduler.queue": "queue",
        "spec.scheduler.t9kScheduler.priority": "priority",
        f"{template}.metadata.labels[{QUEUE_LABEL}]": "queue",
    }
