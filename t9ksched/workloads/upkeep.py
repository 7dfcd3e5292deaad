"""Keeping what a workload owns besides its pods equal to what its spec says: what to create, to change and to delete.

Only the fields that a controller decides are compared (`_FIELDS`); what the API server, other controllers or users
keep in the same object stays. An object of the workload that it no longer needs is deleted. Secrets are never read.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from t9ksched.workloads.actions import Object, key_of, metadata, missing
from t9ksched.workloads.boards import FIELDS as BOARD_FIELDS
from t9ksched.workloads.job import Job
from t9ksched.workloads.parts import MADE_FROM_ANNOTATION
from t9ksched.workloads.phase import is_terminating

_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "PodGroup": (("spec", "queue"), ("spec", "priority"), ("spec", "minMember"), ("spec", "roles")),
    "Service": (("spec", "type"), ("spec", "selector"), ("spec", "ports"), ("spec", "publishNotReadyAddresses")),
    "ConfigMap": (("data",),),
    "TensorBoard": tuple(("spec", field) for field in BOARD_FIELDS),
    "PyTorchTrainingJob": (),
    "TensorFlowTrainingJob": (),
    "XGBoostTrainingJob": (),
}
_DELETED: Final = frozenset({"Service", "ConfigMap", "TensorBoard", "Deployment", "VirtualMachine", "Route"})
"""Kinds that a workload may cease to need; a PodGroup stays as long as it does."""
_SIZES: Final = ("replicas", "runStrategy")
"""Fields of the spec of objects that make pods which say how many, beside what these are made from."""
_DEFAULTS: Final[Mapping[tuple[str, ...], Any]] = {("spec", "type"): "ClusterIP", ("spec", "priority"): 0}
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")

_OF_TYPE: Final = (
    "externalTrafficPolicy",
    "allocateLoadBalancerNodePorts",
    "loadBalancerClass",
    "healthCheckNodePort",
)
"""Fields of a Service that only those types have."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What to do about a workload's companions; `update` holds whole objects with the version they were read at."""

    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()


def upkeep(wanted: tuple[Object, ...], present: tuple[Object, ...]) -> Upkeep:
    """The actions that bring the existing companions to the wanted ones. One that is being deleted is left alone."""
    there = {key_of(each): each for each in present}
    update = []
    for each in wanted:
        found = there.get(key_of(each))
        if found is not None and (better := follow(found, each)) is not None:
            update.append(better)
    needed = {key_of(each) for each in wanted}
    delete = [
        each
        for key, each in there.items()
        if key not in needed and each["kind"] in _DELETED and not is_terminating(each)
    ]
    return Upkeep(missing(wanted, present), tuple(update), tuple(delete))


def without(job: Job, lost: Mapping[str, int]) -> Job:
    """The job with a PodGroup that requires no member that is lost for good, by role: the job goes on without them, so
    that no room is reserved for them, and replacements of the others are placed without waiting for them.
    """
    group = job.around.podgroup
    if group is None or not any(lost.values()):
        return job
    left = {kind.role: kind.replicas - lost.get(kind.role, 0) for kind in job.types}
    spec = {**group["spec"], "minMember": max(1, min(group["spec"]["minMember"], sum(left.values())))}
    if "roles" in spec:
        minima = ({**role, "minMember": min(role["minMember"], left[role["name"]])} for role in spec["roles"])
        spec["roles"] = [role for role in minima if role["minMember"] > 0]
    return replace(job, around=replace(job.around, podgroup={**group, "spec": spec}))


def follow(found: Object, wanted: Object) -> Object | None:
    """The found object as it must be; None if it is so already, is being deleted, or is of a kind left as it is."""
    if is_terminating(found):
        return None
    if MADE_FROM_ANNOTATION in (metadata(wanted).get("annotations") or {}):
        return _remade(found, wanted)
    if wanted["kind"] not in _FIELDS:
        return None
    better = copy.deepcopy(found)
    changed: set[str] = set()
    labels = metadata(found).get("labels") or {}
    if any(labels.get(key) != value for key, value in (metadata(wanted).get("labels") or {}).items()):
        better["metadata"]["labels"] = {**labels, **metadata(wanted)["labels"]}
        changed.add("labels")
    for path in _FIELDS[wanted["kind"]]:
        ours, theirs = _at(wanted, path), _at(found, path)
        if path[-1] == "ports":
            ours, theirs = _ports(ours), _ports(theirs)
        if ours != theirs:
            _put(better, path, ours)
            changed.add(path[-1])
    if wanted["kind"] == "Service" and changed & {"type", "ports"}:
        better["spec"]["ports"] = _with_node_ports(better, found)
        for field in _OF_TYPE if better["spec"].get("type") not in _WITH_NODE_PORTS else ():
            better["spec"].pop(field, None)
    return better if changed else None


def _remade(found: Object, wanted: Object) -> Object | None:
    """The same for an object that makes pods: the server fills in much of its spec, so that only the mark of what it
    was made from, and what decides who places its pods, are compared.
    """
    better = copy.deepcopy(found)
    meta, spec = better["metadata"], better["spec"]
    labels = metadata(wanted).get("labels") or {}
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    notes, before = metadata(wanted)["annotations"], metadata(found).get("annotations") or {}
    meta["annotations"] = {**before, **notes}
    if before.get(MADE_FROM_ANNOTATION) != notes[MADE_FROM_ANNOTATION] or strays(found, wanted):
        spec.update(copy.deepcopy(wanted["spec"]))
    for field in _SIZES:
        if field in wanted["spec"]:
            spec[field] = wanted["spec"][field]
    return better if better != found else None


def strays(found: Object, wanted: Object) -> bool:
    """Whether the pods that it makes are no longer those of the wanted object."""
    ours, theirs = _at(wanted, ("spec", "template")) or {}, _at(found, ("spec", "template")) or {}
    labels = _at(theirs, ("metadata", "labels")) or {}
    if any(labels.get(key) != value for key, value in (_at(ours, ("metadata", "labels")) or {}).items()):
        return True
    place = ("spec", "schedulerName")
    return bool(_at(ours, place)) and _at(ours, place) != _at(theirs, place)


def _at(obj: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = obj
    for key in path:
        value = (value or {}).get(key)
    return value or _DEFAULTS.get(path)


def _put(obj: Object, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        obj = obj.setdefault(key, {})
    if value is None:
        obj.pop(path[-1], None)
    else:
        obj[path[-1]] = copy.deepcopy(value)


def _ports(ports: list[Object] | None) -> list[Object]:
    """Ports without what the server chooses."""
    return [
        {
            "name": port.get("name"),
            "port": port.get("port"),
            "targetPort": port.get("targetPort", port.get("port")),
            "protocol": port.get("protocol", "TCP"),
        }
        for port in ports or ()
    ]


def _with_node_ports(service: Object, before: Object) -> list[Object]:
    """The ports of a Service, each with the node port that it had, if its type still has any."""
    ports = _ports(service["spec"].get("ports"))
    if (service["spec"].get("type") or "ClusterIP") not in _WITH_NODE_PORTS:
        return ports
    known = {
        (port.get("port"), port.get("protocol", "TCP")): port.get("nodePort")
        for port in before["spec"].get("ports") or ()
    }
    return [
        {**port, "nodePort": number} if (number := known.get((port["port"], port["protocol"]))) else port
        for port in ports
    ]
