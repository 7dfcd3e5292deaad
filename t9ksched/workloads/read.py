"""Reading any workload: `read(obj)` for what it asks for, `validate(obj)` for everything that is wrong with it."""

from collections.abc import Mapping
from typing import Any, Final

from t9ksched.model.dns import is_label, is_subdomain
from t9ksched.model.errors import FieldError, Invalid, faulty
from t9ksched.model.labels import value_fault
from t9ksched.model.names import DEFAULT_QUEUE, GROUP_LABEL, QUEUE_LABEL, SCHEDULER_NAME
from t9ksched.model.queue import MAX_PRIORITY
from t9ksched.workloads.fields import Field
from t9ksched.workloads.gangs import is_ours, queue_asked
from t9ksched.workloads.kind import Kind
from t9ksched.workloads.podspec import check_labels
from t9ksched.workloads.registry import KINDS, kind_of
from t9ksched.workloads.shape import Template, Workload

DEFAULT_SCHEDULER: Final = "default-scheduler"


class UnknownKind(Invalid):
    """The object is of a kind, or of a version of one, that cannot be submitted."""


def read(obj: Any) -> Workload:
    """What a workload of any kind asks for.

    Raises:
        UnknownKind: its kind or apiVersion is not in the table.
        Invalid: anything else is wrong with it; every fault with the full path of its field.
    """
    root = Field(obj)
    workload = _read(root)
    if root.faults:
        first = {fault.path: fault for fault in reversed(root.faults)}
        raise Invalid(fault for fault in root.faults if first[fault.path] is fault)
    return workload


def validate(obj: Any) -> list[FieldError]:
    """Every fault of a workload, empty if it is sound."""
    try:
        read(obj)
    except Invalid as error:
        return list(error.errors)
    return []


def _read(root: Field) -> Workload:
    if not isinstance(root.value, Mapping):
        raise Invalid.at("", "is no object: write a mapping with apiVersion, kind, metadata and spec")
    kind = _kind(root)
    meta = root["metadata"]
    name, generated = meta["name"].text(), meta["generateName"].text()
    if not name and not (generated and kind.pod == ()):
        meta["name"].fault("is missing: give the object a name")
    elif name and not is_subdomain(name):
        meta["name"].fault(f"{name!r} is not a valid name: use a-z, 0-9, - and ., letters or digits at both ends")
    space = meta["namespace"].text()
    if space and not is_label(space):
        meta["namespace"].fault(f"{space!r} is not a namespace: use a-z, 0-9 and -, letters or digits at both ends")
    check_labels(meta["labels"])
    meta["annotations"].labels()
    root["spec"].mapping()
    if not root["spec"].present:
        root["spec"].fault("is missing")
        templates: list[Template] = []
    else:
        templates = kind.read(root)
    scheduler, queue, priority, group = _scheduling(root, kind)
    return Workload(
        kind=kind.name,
        api_version=kind.api_version,
        namespace=space,
        name=name,
        scheduler=scheduler,
        queue=queue,
        priority=priority,
        templates=tuple(templates),
        group=group,
    )


def _kind(root: Field) -> Kind:
    name, version = root["kind"].value, root["apiVersion"].value
    kind = kind_of(root.mapping()) if isinstance(name, str) else None
    if kind is None:
        known = ", ".join(sorted(KINDS))
        text = faulty(name, "is unknown")
        raise UnknownKind.at("kind", f"{text}: the kinds that can be submitted are {known}")
    if version != kind.api_version:
        text = faulty(version, f"has no {kind.name}")
        raise UnknownKind.at("apiVersion", f"{text}: use {kind.api_version}")
    return kind


def _scheduling(root: Field, kind: Kind) -> tuple[str, str, int, str | None]:
    """Scheduler, queue, priority and the group of a Pod."""
    if kind.foreign is not None:
        spec, meta = root["spec"].mapping(), root["metadata"]
        labelled = meta["labels"].mapping(), meta["annotations"].mapping()
        if not is_ours(kind, labelled, spec):
            return DEFAULT_SCHEDULER, "", 0, None
        queue = queue_asked(kind, labelled, spec)
        if fault := value_fault(queue):
            meta["annotations"][QUEUE_LABEL].fault(fault.replace("label value", "queue name"))
        return SCHEDULER_NAME, queue, 0, None
    if kind.block:
        block = root.at(*kind.block)["t9kScheduler"]
        root.at(*kind.block).mapping()
        if not block.present:
            return DEFAULT_SCHEDULER, "", 0, None
        return SCHEDULER_NAME, *_queue_and_priority(block), None
    if kind.pod is None:
        return SCHEDULER_NAME, *_queue_and_priority(root["spec"]), None
    pod = root.at(*kind.pod)
    scheduler = pod["spec"]["schedulerName"].text() or DEFAULT_SCHEDULER
    if scheduler != SCHEDULER_NAME:
        return scheduler, "", 0, None
    labels = pod["metadata"]["labels"]
    queue = labels[QUEUE_LABEL].text() or DEFAULT_QUEUE
    return scheduler, queue, 0, labels[GROUP_LABEL].text() or None


def _queue_and_priority(place: Field) -> tuple[str, int]:
    queue = place["queue"].text() or DEFAULT_QUEUE
    if fault := value_fault(queue):
        place["queue"].fault(fault.replace("label value", "queue name"))
    return queue, place["priority"].whole(0, high=MAX_PRIORITY)
