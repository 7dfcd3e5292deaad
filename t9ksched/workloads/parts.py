"""Building what a job consists of: names, labels, owner references, pods, services, the PodGroup.

Pods are named `<job>-<type>-<index>`, so that making one twice is impossible: the second attempt meets the
first. Labels and annotations of the user's template are carried over; where both set a label, the controller's wins.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from t9ksched.model.names import (
    GROUP_LABEL,
    QUEUE_LABEL,
    ROLE_LABEL,
    SCHEDULER_API,
    SCHEDULER_GROUP,
    SCHEDULER_NAME,
)
from t9ksched.workloads.actions import Object
from t9ksched.workloads.jobspec import Override, ReplicaType, RunMode

COMPONENT_LABEL = "tensorstack.dev/component"
COMPONENT_TYPE_LABEL = "tensorstack.dev/component-type"
OWNER_NAME_LABEL = "tensorstack.dev/owner-name"
OWNER_UID_LABEL = "tensorstack.dev/owner-uid"
"""On pods that another controller makes for a workload: whose they are in the end."""
MADE_FROM_ANNOTATION: Final = "tensorstack.dev/made-from"
"""On an object that makes pods: a hash of the part of its spec that a controller decided."""
RUN_STRATEGY_ANNOTATION: Final = "tensorstack.dev/run-strategy"
"""On a VirtualMachine: the run strategy that a controller decided last; another one is what users made of it since."""
IDLE: Final = Override(command=("sleep", "inf"))
"""What replicas run in debug mode."""


class Owner(msgspec.Struct, frozen=True):
    """The workload whose objects are being built, with its scheduling; `queue` is None without a scheduler block."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    queue: str | None
    priority: int
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, obj: Mapping[str, Any], queue: str | None, priority: int) -> "Owner":
        """From the object itself."""
        meta = obj["metadata"]
        return cls(
            kind=obj["kind"],
            api_version=obj["apiVersion"],
            namespace=meta.get("namespace", "default"),
            name=meta["name"],
            uid=meta.get("uid", ""),
            queue=queue,
            priority=priority,
            annotations=meta.get("annotations") or {},
        )

    @property
    def component(self) -> str:
        """The kind as written in labels."""
        return self.kind.lower()

    @property
    def scheduling_annotations(self) -> dict[str, str]:
        """Annotations for the scheduler; they are copied to the PodGroup, or to the pod if there is none."""
        return {key: value for key, value in self.annotations.items() if key.startswith(f"{SCHEDULER_GROUP}/")}

    def labels(self) -> dict[str, str]:
        """Labels of everything that belongs to the workload; also the selector of its pods."""
        return {
            COMPONENT_LABEL: self.component,
            COMPONENT_TYPE_LABEL: "user",
            OWNER_NAME_LABEL: self.name,
        }

    def metadata(self, name: str, labels: Mapping[str, str] | None = None) -> Object:
        """Metadata of an object that is deleted with the workload."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {**(labels or {}), **self.labels()},
            "ownerReferences": [
                {
                    "apiVersion": self.api_version,
                    "kind": self.kind,
                    "name": self.name,
                    "uid": self.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }


def pod_name(owner: Owner, kind: ReplicaType, index: int) -> str:
    """The name of one replica's pod, also its host name."""
    return f"{owner.name}-{kind.name}-{index}"


def host(owner: Owner, kind: ReplicaType, index: int) -> str:
    """Where other pods of the job reach the replica: its name below the job's headless Service."""
    return f"{pod_name(owner, kind, index)}.{owner.name}"


def pod_group(owner: Owner, types: Iterable[ReplicaType], min_member: int) -> Object | None:
    """The PodGroup of a job; None if the default scheduler places its pods."""
    if owner.queue is None:
        return None
    group: Object = {
        "apiVersion": SCHEDULER_API,
        "kind": "PodGroup",
        "metadata": owner.metadata(owner.name),
        "spec": {"queue": owner.queue, "priority": owner.priority, "minMember": max(1, min_member)},
    }
    minima = [{"name": kind.role, "minMember": kind.template.min_replicas} for kind in types]
    if len(minima) > 1:
        group["spec"]["roles"] = [role for role in minima if role["minMember"]]
    if owner.scheduling_annotations:
        group["metadata"]["annotations"] = owner.scheduling_annotations
    return group


def job_pod(owner: Owner, kind: ReplicaType, index: int, labels: Mapping[str, str] | None = None) -> Object:
    """One replica's pod: the user's template with names, labels, owner and scheduling filled in."""
    name = pod_name(owner, kind, index)
    template = kind.template
    own = {
        **(template.metadata.get("labels") or {}),
        owner.component: owner.name,
        f"{owner.component}-replica": name,
        "replica-type": kind.role,
        "replica-index": str(index),
        **(labels or {}),
    }
    meta = owner.metadata(name, own)
    if template.metadata.get("annotations"):
        meta["annotations"] = dict(template.metadata["annotations"])
    spec: Object = copy.deepcopy(dict(template.spec))
    spec.update(hostname=name, subdomain=owner.name, restartPolicy="Never")
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        # A program that fails without writing its termination message is quoted from the end of its log.
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    if owner.queue is not None:
        spec["schedulerName"] = SCHEDULER_NAME
        meta["labels"].update({QUEUE_LABEL: owner.queue, GROUP_LABEL: owner.name, ROLE_LABEL: kind.role})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def headless_service(owner: Owner, name: str, ports: Mapping[str, int]) -> Object:
    """The Service that gives every pod of a job its DNS name, ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owner.metadata(name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {COMPONENT_LABEL: owner.component, OWNER_NAME_LABEL: owner.name},
            "ports": [{"name": key, "port": port, "targetPort": port} for key, port in ports.items()],
        },
    }


def training_container(spec: Object, *names: str) -> Object:
    """The container that does the work: the first with one of the names, else the first."""
    containers: list[Object] = spec["containers"]
    return next((each for wanted in names for each in containers if each.get("name") == wanted), containers[0])


def add_env(spec: Object, env: Mapping[str, str]) -> None:
    """Give every container these variables, first in its list; a variable that the user set is left unchanged."""
    for container in spec["containers"]:
        given = container.get("env") or []
        names = {each.get("name") for each in given}
        ours = [{"name": key, "value": value} for key, value in env.items() if key not in names]
        container["env"] = [*ours, *given]


def override(spec: Object, container: Object, what: Override) -> None:
    """Put a debug or resume command in place of the container's own."""
    if what.command is not None:
        container["command"] = list(what.command)
        container.pop("args", None)
    if what.args is not None:
        container["args"] = list(what.args)
    if what.skip_init:
        spec.pop("initContainers", None)


def follow_run_mode(
    spec: Object, container: Object, mode: RunMode, kind: ReplicaType, *, resumed: bool, idle: Override = IDLE
) -> None:
    """Put the commands of the run mode in place of a replica's own: those for the resumption if the job ran on after a
    pause, and those of the debug mode while it is on, which are `idle` unless given.
    """
    if resumed and kind.name in mode.resume:
        override(spec, container, mode.resume[kind.name])
    if mode.debug is not None:
        what = mode.debug.get(kind.name, Override())
        override(spec, container, what if what.command else replace(idle, skip_init=what.skip_init))


def skips_init(mode: RunMode, kind: ReplicaType, *, resumed: bool) -> bool:
    """Whether the run mode says that a replica has no init containers."""
    debug, resume = (mode.debug or {}).get(kind.name), mode.resume.get(kind.name) if resumed else None
    return any(what is not None and what.skip_init for what in (debug, resume))
