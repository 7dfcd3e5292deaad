"""Queues of KAI (`scheduling.run.ai`): `limit` is our quota, GPUs are counted as `cards`, parts of them included.

CPU is written there in millicores, memory in millions of bytes; -1 means no limit, and a limit that is missing or 0
that nothing beyond the own quota may be held. A limit is what a queue never exceeds, whatever its own quota.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
    bounds = {name: {_RESOURCES[theirs][0]: one.most for theirs, one in of.items()} for name, of in amounts.items()}
    for fields in queues:
        if fields.name in parents.values():
            fields.told("", "none", f"it has queues below it and takes no jobs: {NO_TREE}")
            continue
        mine = amounts[fields.name]
        chosen = {_RESOURCES[theirs][0]: one.own if report.choices.own else one.most for theirs, one in mine.items()}
        quota = _bounded(fields.name, chosen, bounds, parents)
        _queue(fields, report, mine, quota, priorities[given[fields.name]])
    classes(objects.of("PriorityClass"), report, kept_from=NOT_EVICTED)


def _priority(fields: Fields) -> int:
    value = fields.whole_number(fields.spec, "priority", "spec")
    return _DEFAULT_PRIORITY if value is None else value


def _queue(
    fields: Fields, report: Report, amounts: Mapping[str, "_Amounts"], quota: dict[str, int], priority: int
) -> None:
    spec: Json = {"priority": priority}
    if quota:
        spec["quota"] = {"requests": {name: from_units(name, units) for name, units in sorted(quota.items())}}
    value = fields.spec.get("priority")
    here = f"priority: {priority}"
    fields.told("spec.priority", "same" if _priority(fields) == priority else "changed", here, value)
    if parent := fields.text("parentQueue"):
        fields.told("spec.parentQueue", "none", NO_TREE, parent)
    _tell(fields, amounts, report.choices.own)
    if isinstance(pool := fields.labels.get(NODE_POOL), str):
        spec["nodeSelector"] = {"matchLabels": {NODE_POOL: pool}}
        fields.told(f"metadata.labels[{NODE_POOL}]", "same", f"nodeSelector: {NODE_POOL}={pool}", pool)
    fields.none("displayName", "a queue is shown by its name")
    fields.none("preemptMinRuntime", NO_RUN_TIME)
    fields.none("reclaimMinRuntime", NO_RUN_TIME)
    fields.rest()
    if name := report.queue(fields.name, spec, fields.origin):
        who(fields, name)


@dataclass(frozen=True, slots=True)
class _Amounts:
    """What stands there of one resource, in units: None is no limit, and a limit of 0 that nothing beyond the own quota
    may be held.
    """

    quota: int | None
    limit: int | None

    @property
    def capped(self) -> bool:
        """Whether the limit is less than the own quota."""
        return self.limit not in (None, 0) and (self.quota is None or self.limit < self.quota)

    @property
    def own(self) -> int | None:
        """What the queue can count on."""
        return self.limit if self.capped else self.quota

    @property
    def most(self) -> int | None:
        """What it may hold."""
        return self.own if self.limit == 0 else self.limit


def _amounts(fields: Fields) -> dict[str, _Amounts]:
    """By resource, as it is called there."""
    resources = fields.mapping("resources")
    found = {}
    for theirs, (_, size) in _RESOURCES.items():
        inner = fields.inner(resources, theirs, "spec.resources")
        quota, limit = (
            _amount(fields, inner.get(key), size, f"spec.resources.{theirs}.{key}") for key in ("quota", "limit")
        )
        found[theirs] = _Amounts(quota, limit)
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


def _tell(fields: Fields, amounts: Mapping[str, _Amounts], own: bool) -> None:
    """Say what became of each field of the resources; `own` if quotas are what a queue can count on."""
    resources = fields.mapping("resources")
    for theirs, inner in resources.items():
        path = child("spec.resources", str(theirs))
        if theirs not in _RESOURCES:
            fields.told(path, "none", "this field is not known, and left out", inner)
            continue
        here, found = f"quota.requests.{_RESOURCES[theirs][0]}", amounts[theirs]
        for key, value in inner.items() if isinstance(inner, Mapping) else ():
            place = child(path, str(key))
            if key not in ("quota", "limit"):
                fields.told(place, "none", NO_SHARES, value)
            elif found.capped:
                less = f"{here}: the limit is less, and nothing beyond it may be held"
                fields.told(place, "changed" if key == "quota" else "same", less if key == "quota" else here, value)
            elif (key == "quota") is own or (key == "quota" and found.quota is None):
                limitless = (found.quota if key == "quota" else found.limit) is None
                text = f"no quota of {_RESOURCES[theirs][0]} of its own" if limitless else here
                fields.told(place, "same", text, value)
            elif value:
                fields.told(place, "none", NO_SHARES, value)
        if isinstance(inner, Mapping) and not own and found.limit == 0 and found.quota is not None:
            text = f"{here}: without a limit nothing beyond the own quota may be held; -1 means no limit"
            fields.told(f"{path}.limit", "changed", text, inner.get("limit"))
    missing = [theirs for theirs in _RESOURCES if theirs not in resources]
    if missing:
        here = "what is not named there is 0, so that the queue holds none of it; -1 means no limit"
        fields.told("spec.resources", "changed", f"quota.requests: {here}: {', '.join(missing)}")


def _bounded(
    name: str,
    chosen: Mapping[str, int | None],
    bounds: Mapping[str, Mapping[str, int | None]],
    parents: Mapping[str, str],
) -> dict[str, int]:
    """The least of what was chosen for a queue and of what the queues above it may hold."""
    found = dict(chosen)
    for higher in ancestors(name, parents):
        for resource, most in bounds.get(higher, {}).items():
            there = found.get(resource)
            found[resource] = there if most is None else most if there is None else min(there, most)
    return {resource: units for resource, units in found.items() if units is not None}
