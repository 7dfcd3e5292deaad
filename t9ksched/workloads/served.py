"""Workloads whose pods other controllers make of objects of ours, such as Deployments: what SimpleMLService, MLService
and VirtualServer have in common.

All pods of one are a group, named after it, of which one pod is enough: they start one by one as there is room. Their
labels say whose they are, since their owners are ReplicaSets. A change of queue ends all pods.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.model.names import GROUP_LABEL, QUEUE_LABEL, ROLE_LABEL, SCHEDULER_NAME
from t9ksched.workloads import phase
from t9ksched.workloads.actions import Actions, Children, Event, Expansion, Object, name_of
from t9ksched.workloads.conditions import Conditions
from t9ksched.workloads.fields import Field
from t9ksched.workloads.parts import MADE_FROM_ANNOTATION, OWNER_UID_LABEL, RUN_STRATEGY_ANNOTATION, Owner
from t9ksched.workloads.server import hash_of
from t9ksched.workloads.upkeep import Upkeep, upkeep

KIND: Final = "Deployment"
STOPPED: Final[Mapping[str, tuple[str, Any]]] = {KIND: ("replicas", 0), "VirtualMachine": ("runStrategy", "Halted")}
"""By kind of the objects that pods are made of: the field of their spec, and its value, with which they have none."""
PART_LABEL: Final = "tensorstack.dev/service-part"
"""On the pods of a workload with several Deployments: which of them made it."""
SERVICE_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_FOREVER: Final = 2**31 - 1
"""Seconds after which a Deployment says that it does not get on: waiting in a queue is no failure."""


@dataclass(frozen=True, slots=True)
class Ports:
    """How a service is reached."""

    type: str
    ports: tuple[Object, ...]


def read_ports(service: Field, target: int) -> Ports:
    """`service {type, ports}`; without ports, 80 leads to `target`."""
    kind = service["type"].choice(SERVICE_TYPES, "ClusterIP")
    found = []
    for entry in service["ports"].items():
        port = entry["port"].whole(80, low=1, high=65535)
        if not entry["port"].present:
            entry["port"].fault("is missing: say at which port the service is reached, such as 80")
        to = entry["targetPort"]
        if isinstance(to.value, bool) or not isinstance(to.value, int | str | None):
            to.fault("must be a port number or the name of a port")
        one: Object = {"name": entry["name"].text(), "port": port, "targetPort": to.value or port}
        one["protocol"] = entry["protocol"].choice(("TCP", "UDP", "SCTP"), "TCP")
        if entry["nodePort"].present:
            one["nodePort"] = entry["nodePort"].whole(0, low=1, high=65535)
        found.append({key: value for key, value in one.items() if value != ""})
    return Ports(kind, tuple(found) or ({"name": "http", "port": 80, "targetPort": target, "protocol": "TCP"},))


def deployment(
    owner: Owner,
    name: str,
    spec: Object,
    metadata: Mapping[str, Any],
    replicas: int,
    *,
    part: str = "",
    strategy: Mapping[str, Any] | None = None,
) -> Object:
    """A Deployment of pods with that spec, placed as the workload says.

    Args:
        owner: the workload.
        name: of the Deployment.
        spec: the pod spec.
        metadata: the labels and annotations that the user gave the pods.
        replicas: how many.
        part: what tells its pods from those of the workload's other Deployments.
        strategy: how pods are replaced.
    """
    own = {**owner.labels(), **({PART_LABEL: part} if part else {})}
    template = template_of(owner, spec, metadata, part=part)
    meta = owner.metadata(name, {PART_LABEL: part} if part else None)
    meta["annotations"] = {MADE_FROM_ANNOTATION: hash_of(template, strategy)}
    made: Object = {
        "replicas": replicas,
        "selector": {"matchLabels": own},
        "template": template,
        "progressDeadlineSeconds": _FOREVER,
    }
    if strategy:
        made["strategy"] = copy.deepcopy(dict(strategy))
    return {"apiVersion": "apps/v1", "kind": KIND, "metadata": meta, "spec": made}


def template_of(owner: Owner, spec: Object, metadata: Mapping[str, Any], *, part: str = "") -> Object:
    """The template of pods with that spec: they say whose they are, and are placed as the workload says."""
    own = {**owner.labels(), **({PART_LABEL: part} if part else {})}
    labels = {**(metadata.get("labels") or {}), **own, OWNER_UID_LABEL: owner.uid}
    spec = copy.deepcopy(spec)
    if owner.queue is not None:
        spec["schedulerName"] = SCHEDULER_NAME
        labels |= {QUEUE_LABEL: owner.queue, GROUP_LABEL: owner.name, **({ROLE_LABEL: part} if part else {})}
    template: Object = {"metadata": {"labels": labels}, "spec": spec}
    if metadata.get("annotations"):
        template["metadata"]["annotations"] = dict(metadata["annotations"])
    return template


def kept(around: Expansion, children: Children) -> Upkeep:
    """What brings the existing objects to the wanted ones.

    Queue and priority of a group are settled when it is made. For another queue all pods end first, then the group is
    made anew; another priority waits until there are no pods for other reasons.
    """
    wanted, group = around.podgroup, children.podgroup
    if wanted is None or group is None or all(_same(wanted, group, field) for field in ("queue", "priority")):
        return upkeep(around.companions, children.companions)
    settled = {"spec": {**wanted["spec"], **{key: group["spec"].get(key) for key in ("queue", "priority")}}}
    as_made = replace(around, podgroup={**wanted, **settled})
    if children.pods and _same(wanted, group, "queue"):
        return upkeep(as_made.companions, children.companions)
    there = tuple(each for each in children.companions if each["kind"] in STOPPED)
    found = upkeep(replace(as_made, makers=there).companions, children.companions)
    if children.pods:
        return replace(found, update=(*found.update, *emptied(children).update))
    gone = () if phase.is_terminating(group) else (group,)
    return replace(found, delete=(*found.delete, *gone))


def _same(wanted: Object, group: Object, field: str) -> bool:
    return (wanted["spec"].get(field) or 0) == (group["spec"].get(field) or 0)


def emptied(children: Children) -> Actions:
    """End all pods of a workload."""
    there = [(each, stopped(each)) for each in children.companions if each["kind"] in STOPPED]
    return Actions(update=tuple(after for before, after in there if before["spec"] != after["spec"]))


def stopped(maker: Object) -> Object:
    """An object that pods are made of, so that it has none."""
    field, value = STOPPED[maker["kind"]]
    made = {**maker, "spec": {**maker["spec"], field: value}}
    notes = maker["metadata"].get("annotations") or {}
    if RUN_STRATEGY_ANNOTATION in notes:
        made["metadata"] = {**maker["metadata"], "annotations": {**notes, RUN_STRATEGY_ANNOTATION: value}}
    return made


def available(found: Object | None) -> tuple[bool, str, str]:
    """Whether a Deployment has the pods it needs, with reason and message."""
    if found is None:
        return False, "DeploymentMissing", "the Deployment is not there yet"
    conditions = (found.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each.get("type") == "ReplicaFailure" and each.get("status") == "True":
            return False, str(each.get("reason") or "ReplicaFailure"), str(each.get("message") or "")
    for each in conditions:
        if each.get("type") == "Available":
            return each.get("status") == "True", str(each.get("reason") or "-"), str(each.get("message") or "")
    return False, "MinimumReplicasUnavailable", ""


def counts(found: Object | None) -> tuple[int, int]:
    """Ready and all replicas of a Deployment."""
    status = (found or {}).get("status") or {}
    return int(status.get("readyReplicas") or 0), int(status.get("replicas") or 0)


def find(children: Children, name: str, kind: str = KIND) -> Object | None:
    """The object of that name that pods are made of."""
    return next((each for each in children.companions if each["kind"] == kind and name_of(each) == name), None)


def aggregate(pods: Iterable[Object]) -> dict[str, int]:
    """Pods by phase; one that is not on a node yet counts as creating."""
    found = Counter(
        "creating" if phase.phase(pod) == "Pending" and not phase.is_scheduled(pod) else phase.phase(pod).lower()
        for pod in pods
    )
    words = ("creating", "pending", "running", "succeeded", "failed", "unknown", "deleted")
    return {word: found.get(word, 0) for word in words}


def concluded(
    old: Mapping[str, Any],
    status: Object,
    conditions: Conditions,
    children: Children,
    work: Upkeep,
    message: str,
    kept: Mapping[str, Any] | None = None,
    words: tuple[str, str, str] = (
        "its pods are deleted until it has replicas again",
        "its pods are made anew",
        "it answers requests",
    ),
) -> Actions:
    """The actions of a workload with that status.

    Args:
        old: its status so far.
        status: what its kind says, with `phase`.
        conditions: its conditions.
        children: what it owns.
        work: what is to be done to its companions.
        message: what is said when it is made, if anything.
        kept: what stays of the status so far, all of it unless given.
        words: what is said when it is paused, resumed and ready.
    """
    events = []
    was, now = old.get("phase"), status["phase"]
    if not old and message:
        events.append(Event("Created", message))
    if now == "Paused" and was != now:
        events.append(Event("Suspended", words[0]))
    elif was == "Paused" and was != now:
        events.append(Event("Resumed", words[1]))
    if now == "Running" and was != now:
        events.append(Event("Start", words[2]))
    if any(MADE_FROM_ANNOTATION in (each["metadata"].get("annotations") or {}) for each in work.update) and old:
        events.append(Event("Changed", "its pods follow the spec"))
    new = {
        **(old if kept is None else kept),
        **status,
        "conditions": conditions.as_list(),
        "aggregate": aggregate(children.pods),
    }
    return Actions(new if new != old else None, work.delete, work.create, tuple(events), update=work.update)
