"""Putting a queue, a priority and times into a workload: what `--queue` and `?queue=` do."""

import copy
from collections.abc import Mapping
from typing import Any

from t9ksched.model.errors import Invalid, child, faulty
from t9ksched.model.names import QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.workloads.fields import Field
from t9ksched.workloads.gangs import counted
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.read import UnknownKind
from t9ksched.workloads.registry import KINDS, kind_of


def with_queue(obj: Mapping[str, Any], queue: str | None = None, priority: int | None = None) -> dict[str, Any]:
    """A copy of the workload that asks for this queue and priority; what is None stays as it was.

    Naming either hands the workload to our scheduler.

    Raises:
        UnknownKind: its kind is not in the table.
        Invalid: the kind has no priority, or something that is no mapping stands in the way.
    """
    kind = kind_of(obj)
    if kind is None:
        raise UnknownKind.at(
            "kind", f"{faulty(obj.get('kind'), 'is unknown')}: the kinds are {', '.join(sorted(KINDS))}"
        )
    changed: dict[str, Any] = copy.deepcopy(dict(obj))
    if queue is None and priority is None:
        return changed
    if not kind.has_priority and priority is not None:
        raise Invalid.at("priority", f"a {kind.name} has no priority: leave it out, or put its pods in a PodGroup")
    if kind.foreign is not None:
        _hand_over(changed, kind, queue or "")
        return changed
    if kind.pod is not None:
        _below(changed, *kind.pod, "spec")["schedulerName"] = SCHEDULER_NAME
        _below(changed, *kind.pod, "metadata", "labels")[QUEUE_LABEL] = queue
        return changed
    place = _below(changed, *kind.block, "t9kScheduler") if kind.block else _below(changed, "spec")
    if queue is not None:
        place["queue"] = queue
    if priority is not None:
        place["priority"] = priority
    return changed


def _hand_over(obj: dict[str, Any], kind: Kind, queue: str) -> None:
    """Name the queue on an object of another project, and this scheduler on all its pods."""
    _below(obj, "metadata", "labels")[QUEUE_LABEL] = queue
    assert kind.gang is not None
    for group in counted(kind.gang, Field(obj)):
        if isinstance(group.template.value, dict):
            _below(group.template.value, "spec")["schedulerName"] = SCHEDULER_NAME


def annotate(obj: dict[str, Any], annotation: str, text: str) -> None:
    """Write a time limit or a start time into the workload's annotations, of Kubernetes' own kinds into those of their
    pods too.

    Raises:
        Invalid: something that is no mapping stands in the way.
    """
    kind = kind_of(obj)
    _below(obj, "metadata", "annotations")[annotation] = text
    if kind is not None and kind.pod:
        _below(obj, *kind.pod, "metadata", "annotations")[annotation] = text


def _below(obj: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The mapping at the end of the keys, made where it is missing."""
    path = ""
    for key in keys:
        path = child(path, key)
        found = obj.get(key)
        if found is None:
            found = obj[key] = {}
        if not isinstance(found, dict):
            raise Invalid.at(path, "must be a mapping")
        obj = found
    return obj
