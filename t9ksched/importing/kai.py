"""Queues of KAI (`scheduling.run.ai`): `limit` is our quota, GPUs are counted as `cards`, parts of them included.

CPU is written there in millicores, memory in millions of bytes; -1 means no limit, and a limit that is missing or 0
that nothing beyond the own quota may be held. A limit is what a queue never exceeds, whatever its own quota.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from t9ksched.importing.objects import Fields, Objects
from t9ksched.importing.parents import above, ancestors
from t9ksched.importing.priorities import NOT_EVICTED, classes
from t9ksched.importing.report import Json, Report, scaled
from t9ksched.importing.words import NO_RUN_TIME, NO_SHARES, NO_TREE, who
from t9ksched.model.errors import child, shown
from t9ksched.model.quantity import CARD, CARDS, from_units, parse

NODE_POOL: Final = "kai.scheduler/node-pool"
_DEFAULT_PRIORITY: Final = 100
_RESOURCES: Final = {"gpu": (CARDS, CARD), "cpu": ("cpu", 1), "memory": ("memory", 10**6)}
"""Their names here, and how many of the units we count in one of theirs is."""
_UNLIMITED: Final = -1


def translate(objects: Objects, report: Report) -> None:
    """All queues without queues below them, and the classes of priorities."""
    queues = objects.of("Queue")
    parents = above(queues, "parentQueue")
    given = {fields.name: _priority(fields) for fields in queues}
    priorities = scaled({*given.values()})
    amounts = {fields.name: _amounts(fields) for fields in queues}
    for fields in queues:
        if fields.name in parents.values():
            fields.told("", "none", f"it has queues below it and takes no jobs: {NO_TREE}")
            continue
        chosen = {name: pair[0] if report.choices.own else pair[1] for name, pair in amounts[fields.name].items()}
        _queue(fields, report, _bounded(fields.name, chosen, amounts, parents), priorities[given[fields.name]])
    classes(objects.of("PriorityClass"), report, kept_from=NOT_EVICTED)


def _priority(fields: Fields) -> int:
    value = fields.whole_number(fields.spec, "priority", "spec")
    return _DEFAULT_PRIORITY if value is None else value


def _queue(fields: Fields, report: Report, quota: dict[str, int], priority: int) -> None:
    spec: Json = {"priority": priority}
    if quota:
        spec["quota"] = {"requests": {name: from_units(name, units) for name, units in sorted(quota.items())}}
    value = fields.spec.get("priority")
    here = f"priority: {priority}"
    fields.told("spec.priority", "same" if _priority(fields) == priority else "changed", here, value)
    if parent := fields.text("parentQueue"):
        fields.told("spec.parentQueue", "none", NO_TREE, parent)
    _resources(fields, report.choices.own)
    if isinstance(pool := fields.labels.get(NODE_POOL), str):
        spec["nodeSelector"] = {"matchLabels": {NODE_POOL: pool}}
        fields.told(f"metadata.labels[{NODE_POOL}]", "same", f"nodeSelector: {NODE_POOL}={pool}", pool)
    fields.none("displayName", "a queue is shown by its name")
    fields.none("preemptMinRuntime", NO_RUN_TIME)
    fields.none("reclaimMinRuntime", NO_RUN_TIME)
    fields.rest()
    if name := report.queue(fields.name, spec, fields.origin):
        who(fields, name)


def _amounts(fields: Fields) -> dict[str, tuple[int | None, int | None]]:
    """By resource, as it is called here: the own quota and the most that may be held, in units; None for no limit."""
    resources = fields.mapping("resources")
    found = {}
    for theirs, (ours, size) in _RESOURCES.items():
        inner = fields.inner(resources, theirs, "spec.resources")
        path = f"spec.resources.{theirs}"
        own = _amount(fields, inner.get("quota"), size, f"{path}.quota")
        limit = _amount(fields, inner.get("limit"), size, f"{path}.limit")
        if not limit:  # none, or nothing beyond the own quota
            found[ours] = (own, None if limit is None else own)
        else:
            found[ours] = (limit if own is None else min(own, limit), limit)
    return found


def _amount(fields: Fields, value: Any, size: int, path: str) -> int | None:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or (value < 0 and value != _UNLIMITED):
        fields.fault(path, f"{shown(value)} is no amount: a number, or -1 for no limit")
        return 0
    if value == _UNLIMITED:
        return None
    return ceil(parse(value) * size)


def _resources(fields: Fields, own: bool) -> None:
    resources = fields.mapping("resources")
    for theirs, inner in resources.items():
        path = child("spec.resources", str(theirs))
        if theirs not in _RESOURCES:
            fields.told(path, "none", "this field is not known, and left out", inner)
            continue
        ours = _RESOURCES[theirs][0]
        for key, value in inner.items() if isinstance(inner, Mapping) else ():
            place = child(path, str(key))
            if key not in ("quota", "limit"):
                fields.told(place, "none", NO_SHARES, value)
            elif key == "quota" and _capped(inner):
                here = "the limit is less, and nothing beyond it may be held"
                fields.told(place, "changed", f"quota.requests.{ours}: {here}", value)
            elif key == "limit" and _capped(inner):
                fields.told(place, "same", f"quota.requests.{ours}", value)
            elif (key == "quota") is own or (key == "quota" and value == _UNLIMITED):
                limitless = value == _UNLIMITED
                here = f"no quota of {ours} of its own" if limitless else f"quota.requests.{ours}"
                fields.told(place, "same", here, value)
            elif value:
                fields.told(place, "none", NO_SHARES, value)
        if isinstance(inner, Mapping) and not own and not inner.get("limit") and inner.get("quota") != _UNLIMITED:
            here = "without a limit nothing beyond the own quota may be held; -1 means no limit"
            fields.told(f"{path}.limit", "changed", f"quota.requests.{ours}: {here}", inner.get("limit"))
    missing = [theirs for theirs in _RESOURCES if theirs not in resources]
    if missing:
        here = "what is not named there is 0, so that the queue holds none of it; -1 means no limit"
        fields.told("spec.resources", "changed", f"quota.requests: {here}: {', '.join(missing)}")


def _capped(inner: Mapping[str, Any]) -> bool:
    """Whether the limit is less than the own quota."""
    own, limit = inner.get("quota"), inner.get("limit")
    if not isinstance(own, int | float) or not isinstance(limit, int | float) or limit <= 0:
        return False
    return own == _UNLIMITED or limit < own


def _bounded(
    name: str,
    chosen: Mapping[str, int | None],
    amounts: Mapping[str, Mapping[str, tuple[int | None, int | None]]],
    parents: Mapping[str, str],
) -> dict[str, int]:
    """The least of what was chosen for a queue and of what the queues above it may hold."""
    found = dict(chosen)
    for higher in ancestors(name, parents):
        for resource, (_, most) in amounts.get(higher, {}).items():
            there = found.get(resource)
            found[resource] = there if most is None else most if there is None else min(there, most)
    return {resource: units for resource, units in found.items() if units is not None}
