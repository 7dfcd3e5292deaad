"""The jobs of the demo, as a user would write them."""

from collections.abc import Mapping
from typing import Any

from t9ksched.devcluster.names import RUN_SECONDS_ANNOTATION
from t9ksched.model.names import (
    BATCH_API,
    GROUP_LABEL,
    PLATFORM_API,
    QUEUE_LABEL,
    SCHEDULER_API,
    SCHEDULER_NAME,
    TIME_LIMIT_ANNOTATION,
    TOPOLOGY_KEY_ANNOTATION,
)

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def _template(container: str, image: str, gpus: int) -> Json:
    resources: Json = {"requests": {"cpu": "4", "memory": "16Gi"}}
    if gpus:
        resources["limits"] = {GPU: gpus}
    return {"spec": {"containers": [{"name": container, "image": image, "resources": resources}]}}


def _block(queue: str, priority: int = 0) -> Json:
    return {"t9kScheduler": {"queue": queue, "priority": priority}}


def pytorch(name: str, queue: str, replicas: int, gpus: int) -> Json:
    """A PyTorchTrainingJob of `replicas` pods with `gpus` cards each."""
    return {
        "apiVersion": BATCH_API,
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "scheduler": _block(queue),
            "torchrunConfig": {"enabled": True, "procPerNode": "gpu"},
            "replicaSpecs": [
                {"type": "node", "replicas": replicas, "template": _template("pytorch", "example/torch:2", gpus)}
            ],
        },
    }


def mpi(name: str, queue: str, workers: int, gpus: int) -> Json:
    """An MPIJob of a launcher without cards and `workers` workers with `gpus` each."""
    launcher = _template("launcher", "example/mpi:4", 0)
    launcher["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    return {
        "apiVersion": BATCH_API,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "scheduler": _block(queue),
            "ssh": {"sshdPath": "/usr/sbin/sshd"},
            "mpiConfig": {"home": "/opt/mpi", "script": ["./walk", "10"]},
            "replicaSpecs": [
                {"type": "launcher", "replicas": 1, "template": launcher},
                {"type": "worker", "replicas": workers, "template": _template("worker", "example/mpi:4", gpus)},
            ],
        },
    }


def notebook(name: str, queue: str, gpus: int) -> Json:
    """A Notebook with `gpus` cards."""
    return {
        "apiVersion": PLATFORM_API,
        "kind": "Notebook",
        "metadata": {"name": name},
        "spec": {
            "type": "jupyter",
            "scheduler": _block(queue),
            "template": _template("notebook", "example/notebook:1", gpus),
        },
    }


def notebook_part(name: str, queue: str, limits: Mapping[str, int]) -> Json:
    """A Notebook with these amounts of cards, in the words of what divides them."""
    made = notebook(name, queue, 0)
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = dict(limits)
    return made


def pod_group(name: str, queue: str, pods: int, gpus: int, level: str, **spec: str) -> list[Json]:
    """A PodGroup by hand and its pods with `gpus` cards each; `level` is the node label its topologyPolicy is about."""
    return _group(name, queue, pods, gpus, {TOPOLOGY_KEY_ANNOTATION: level}, spec)


def limited_group(name: str, queue: str, pods: int, gpus: int, limit: str) -> list[Json]:
    """A PodGroup by hand with a time limit, and its pods with `gpus` cards each, which end within a second."""
    return _group(name, queue, pods, gpus, {TIME_LIMIT_ANNOTATION: limit}, {}, terminationGracePeriodSeconds=1)


def _group(
    name: str, queue: str, pods: int, gpus: int, annotations: Json, spec: Mapping[str, str], **of_pods: object
) -> list[Json]:
    group = {
        "apiVersion": SCHEDULER_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"queue": queue, "minMember": pods, **spec},
    }
    made = [group]
    for at in range(pods):
        pod = _template("main", "example/cuda:12", gpus)
        pod["spec"] |= {"schedulerName": SCHEDULER_NAME, **of_pods}
        labels = {GROUP_LABEL: name}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{at}", "labels": labels}, **pod})
    return made


def batch(name: str, queue: str, gpus: int, *, seconds: int, deadline: int) -> Json:
    """A batch Job of one pod that runs for some seconds, and for no longer than its activeDeadlineSeconds."""
    pod = _template("main", "example/cuda:12", gpus)
    pod["spec"] |= {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    pod["metadata"] = {"labels": {QUEUE_LABEL: queue}, "annotations": {RUN_SECONDS_ANNOTATION: str(seconds)}}
    spec = {"activeDeadlineSeconds": deadline, "template": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def foreign_pod(name: str, gpus: int, node_labels: dict[str, str], seconds: int | None = None) -> Json:
    """A pod of the cluster's default scheduler: no queue, no gang."""
    pod = _template("main", "example/cuda:12", gpus)
    pod["spec"]["nodeSelector"] = node_labels
    annotations = {RUN_SECONDS_ANNOTATION: str(seconds)} if seconds else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, **pod}
