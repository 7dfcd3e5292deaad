"""Queues of Volcano (`scheduling.volcano.sh`): `capability` is our quota; shares between queues have no counterpart."""

from collections.abc import Mapping
from typing import Any, Final

from t9ksched.importing.objects import Fields, Objects
from t9ksched.importing.parents import above, ancestors
from t9ksched.importing.priorities import classes
from t9ksched.importing.report import Json, Outcome, Report, scaled
from t9ksched.importing.words import NO_SHARES, NO_TREE, who
from t9ksched.model.errors import child
from t9ksched.model.quantity import from_units

ROOT: Final = "root"
"""The queue above all others, which Volcano makes itself."""
_NODE_GROUP: Final = "volcano.sh/nodegroup-name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_HIERARCHY: Final = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")
_ORDERINGS: Final = {"fifo": "Strict", "traverse": "BestEffort"}


def translate(objects: Objects, report: Report) -> None:
    """All queues, and the classes of priorities."""
    queues = objects.of("Queue")
    parents = above(queues, "parent", root=ROOT)
    given = {fields.name: fields.whole_number(fields.spec, "priority", "spec") or 0 for fields in queues}
    priorities = scaled({*given.values()})
    caps = {fields.name: _capability(fields, report.choices.own) for fields in queues}
    for fields in queues:
        if fields.name in parents.values():
            fields.told("", "none", f"it has queues below it and takes no jobs: {NO_TREE}")
            continue
        _queue(fields, report, _least(fields.name, caps, parents), priorities[given[fields.name]])
    classes(objects.of("PriorityClass"), report)


def _queue(fields: Fields, report: Report, quota: dict[str, int], priority: int) -> None:
    spec: Json = {"priority": priority, "ordering": "BestEffort"}
    if quota:
        spec["quota"] = {"requests": {name: from_units(name, units) for name, units in quota.items()}}
    if (value := fields.spec.get("priority")) is not None:
        fields.told("spec.priority", "same" if value == priority else "changed", f"priority: {priority}", value)
    if parent := fields.text("parent"):
        outcome: Outcome = "none" if parent != ROOT else "same"
        fields.told("spec.parent", outcome, NO_TREE if parent != ROOT else "all queues stand side by side", parent)
    if (strategy := fields.text("dequeueStrategy")) in _ORDERINGS:
        spec["ordering"] = _ORDERINGS[strategy]
        fields.told("spec.dequeueStrategy", "same", f"ordering: {spec['ordering']}", strategy)
    elif strategy:
        fields.fault("spec.dequeueStrategy", f"{strategy!r} is unknown: use one of {', '.join(_ORDERINGS)}")
    if (flag := fields.spec.get("reclaimable")) is not None:
        spec["preemptible"] = bool(flag)
        here = f"preemptible: {'true' if flag else 'false'}: whether queues of a higher priority may take from it"
        fields.told("spec.reclaimable", "changed", here, flag)
    state = fields.status.get("state")
    if state in ("Closed", "Closing"):
        spec["closed"] = True
        fields.told("status.state", "same", "closed: true", state)
    if selector := _affinity(fields):
        spec["nodeSelector"] = {"matchExpressions": selector}
    fields.none("weight", NO_SHARES)
    fields.none("extendClusters", "jobs stay in this cluster")
    fields.none("type", "queues have no types")
    for key in _HIERARCHY:
        if (value := fields.annotations.get(key)) is not None:
            fields.told(f"metadata.annotations[{key}]", "none", f"{NO_TREE}; {NO_SHARES}", value)
    fields.rest()
    if name := report.queue(fields.name, spec, fields.origin):
        who(fields, name)


def _capability(fields: Fields, own: bool) -> dict[str, int]:
    """The quota of one queue, in units: its `capability`, or what it deserves."""
    guarantee = fields.inner(fields.mapping("guarantee"), "resource", "spec.guarantee")
    there = {
        "spec.capability": fields.mapping("capability"),
        "spec.deserved": fields.mapping("deserved"),
        "spec.guarantee.resource": guarantee,
    }
    mine = [path for path in ("spec.deserved", "spec.guarantee.resource") if there[path]] if own else []
    taken = [*mine, "spec.capability"][0]
    for path, amounts in there.items():
        if amounts:
            used = path == taken
            fields.told(path, "same" if used else "none", "quota.requests" if used else NO_SHARES, dict(amounts))
    found = {name: fields.units(name, value, child(taken, name)) for name, value in there[taken].items()}
    return {name: units for name, units in found.items() if units is not None}


def _least(name: str, caps: Mapping[str, dict[str, int]], parents: Mapping[str, str]) -> dict[str, int]:
    """What a queue may hold: the least of its own amounts and of those of the queues above it."""
    found = dict(caps[name])
    for higher in ancestors(name, parents):
        for resource, units in caps.get(higher, {}).items():
            found[resource] = min(found.get(resource, units), units)
    return found


def _affinity(fields: Fields) -> list[dict[str, Any]]:
    """Requirements of nodes, from the groups of nodes that a queue names."""
    affinity = fields.mapping("affinity")
    found = []
    for key, operator in (("nodeGroupAffinity", "In"), ("nodeGroupAntiAffinity", "NotIn")):
        groups = fields.inner(affinity, key, "spec.affinity")
        if required := groups.get(_REQUIRED):
            found.append({"key": _NODE_GROUP, "operator": operator, "values": required})
            here = f"nodeSelector: {_NODE_GROUP} {operator}"
            fields.told(f"spec.affinity.{key}.{_REQUIRED}", "same", here, required)
        if preferred := groups.get(_PREFERRED):
            here = "a queue prefers no nodes: write a preferred affinity into the pods"
            fields.told(f"spec.affinity.{key}.{_PREFERRED}", "none", here, preferred)
    return found
