"""Queues: a named slice of the cluster with its policy (which nodes, how much, how important, for how long).

`parse_queue_spec` is the one place where a queue's spec is read, whether it comes by REST, as an object or from SQL.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal, cast

from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import FieldError, Invalid, child, shown
from t9ksched.model.labels import LabelSelector, key_fault, value_fault
from t9ksched.model.quantity import CARDS, QuantityError, from_units, parse, to_units
from t9ksched.model.queue_starvation import QueueStarvation, parse_starvation
from t9ksched.model.start_windows import StartWindow, parse_start_windows

Ordering = Literal["BestEffort", "Strict", "Backfill"]
OverQuota = Literal["Wait", "Reject"]
DurationFrom = Literal["Start", "Creation"]

ORDERINGS: Final[tuple[Ordering, ...]] = ("BestEffort", "Strict", "Backfill")
NEW_ORDERING: Final[Ordering] = "Backfill"
"""The ordering of queues that are created without one."""
MAX_PRIORITY: Final = 100
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue's policy.

    Attributes:
        quota: ceiling on the sum of requests, in units by resource; resources not named are not limited.
        priority: 0 to 100, larger is served first.
        preemptible: its pods may be chosen as victims.
        closed: takes no new workloads.
        max_duration: text as written; `max_duration_from` says from when it counts.
        resource_shape_profile: name of the profile that caps one workload, empty for none.
        node_selector: which nodes may host its pods; None or without requirements means all.
        namespace_selector: which namespaces may use it; None or without requirements means none.
        over_quota: what submission does with a workload that fits the quota but not what is left of it.
        ordering: which gangs may pass a blocked one. A spec without it, as releases wrote that knew no other default,
            means `BestEffort`; new ones say theirs (`with_ordering`).
        start_windows: when its gangs may start; none means always.
        starvation: when its gangs collect room; None leaves that to the policy.
    """

    quota: Mapping[str, int] = field(default_factory=dict)
    priority: int = 0
    preemptible: bool = True
    closed: bool = False
    max_duration: str = ""
    max_duration_from: DurationFrom = "Start"
    resource_shape_profile: str = ""
    node_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    over_quota: OverQuota = "Wait"
    ordering: Ordering = "BestEffort"
    start_windows: tuple[StartWindow, ...] = ()
    starvation: QueueStarvation | None = None
    source: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def duration(self) -> timedelta | None:
        """The longest a pod may run, None without a limit."""
        return parse_duration(self.max_duration)

    def to_dict(self) -> dict[str, Any]:
        """The spec as it was written, with canonical quantities; defaults that were not written stay out."""
        spec = dict(self.source)
        if self.quota:
            spec["quota"] = {"requests": {name: from_units(name, units) for name, units in self.quota.items()}}
        if self.start_windows:
            windows = spec.get("startWindows") or ()
            spec["startWindows"] = [{key: one[key] for key in one if one[key] is not None} for one in windows]
        if self.starvation is not None:
            said = spec.get("starvation") or {}
            spec["starvation"] = {key: value for key, value in said.items() if value is not None}
        return spec


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue by name, with the labels administrators filter by.

    A `draining` one is being emptied: it accepts nothing new, and nothing that waits in it is started.
    """

    name: str
    spec: QueueSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    draining: bool = False


def with_ordering(spec: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The spec with its ordering written out, so that no later default changes it.

    One that leaves it out keeps what the queue had in its spec `before`; a new queue (None) has `NEW_ORDERING`.
    """
    if spec.get("ordering") is not None:
        return dict(spec)
    kept = NEW_ORDERING if before is None else before.get("ordering") or QueueSpec().ordering
    return {**spec, "ordering": kept}


def queue_missing(name: str) -> str:
    """The sentence that a queue is not there, which submissions and waiting jobs are told alike."""
    return f"queue {name!r} does not exist"


def closed_to_new(name: str, *, draining: bool) -> str:
    """The sentence that a queue takes no new workloads, which submissions and waiting jobs are told alike."""
    if draining:
        goes_on = "it takes no new workloads and starts none that wait; those that run go on"
        return f"the queue {name!r} is draining: {goes_on}"
    return f"the queue {name!r} is closed: it takes no new workloads; those already in it go on"


def validate_queue_name(name: object, path: str = "name") -> str:
    """The name itself when it is a DNS label of at most 63 characters.

    Raises:
        Invalid: it is not.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid.at(path, f"{shown(name)} is not a queue name: use 1 to 63 lower-case letters, digits and '-'")
    return name


def parse_labels(raw: object, path: str = "labels") -> dict[str, str]:
    """Labels of an object.

    Raises:
        Invalid: naming every faulty key.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise Invalid.at(path, "must be a mapping of label keys to texts")
    faults = []
    for key, value in raw.items():
        fault = key_fault(str(key)) or ("must be a text" if not isinstance(value, str) else value_fault(value))
        if fault:
            faults.append(FieldError(child(path, str(key)), fault))
    if faults:
        raise Invalid(faults)
    return dict(raw)


class _Reader:
    """Takes fields out of a raw spec and collects every fault."""

    def __init__(self, raw: Mapping[str, Any], path: str) -> None:
        self.raw, self.path, self.faults = raw, path, list[FieldError]()

    def fail(self, key: str, message: str) -> None:
        self.faults.append(FieldError(child(self.path, key), message))

    def text(self, key: str) -> str:
        value = self.raw.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(key, f"must be a text, not {shown(value)}")
            return ""
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(key, f"must be true or false, not {shown(value)}")
            return default
        return value

    def choice(self, key: str, options: tuple[str, ...], default: str) -> str:
        value = self.raw.get(key)
        if value is None:
            return default
        if value not in options:
            self.fail(key, f"{shown(value)} is unknown: use one of {', '.join(options)}")
            return default
        return str(value)

    def selector(self, key: str) -> LabelSelector | None:
        value = self.raw.get(key)
        if value is None:
            return None
        try:
            return LabelSelector.parse(value, child(self.path, key))
        except Invalid as error:
            self.faults.extend(error.errors)
            return None

    def starvation(self, key: str) -> QueueStarvation | None:
        try:
            return parse_starvation(self.raw.get(key), child(self.path, key))
        except Invalid as error:
            self.faults.extend(error.errors)
            return None

    def start_windows(self, key: str) -> tuple[StartWindow, ...]:
        try:
            return parse_start_windows(self.raw.get(key), child(self.path, key))
        except Invalid as error:
            self.faults.extend(error.errors)
            return ()

    def quota(self) -> dict[str, int]:
        outer = self.raw.get("quota")
        if outer is None:
            return {}
        if not isinstance(outer, Mapping) or not isinstance(outer.get("requests") or {}, Mapping):
            self.fail("quota", "must be written as {requests: {resource: quantity}}")
            return {}
        path = f"{child(self.path, 'quota')}.requests"
        self.faults.extend(
            FieldError(f"{child(self.path, 'quota')}.{key}", "is unknown: only requests can be limited")
            for key in outer
            if key != "requests"
        )
        quota: dict[str, int] = {}
        for name, value in (outer.get("requests") or {}).items():
            place = child(path, str(name))
            if fault := key_fault(str(name)):
                self.faults.append(FieldError(place, fault.replace("label key", "resource name")))
                continue
            try:
                if parse(value) < 0:
                    self.faults.append(FieldError(place, f"{value!r} is negative: a quota is 0 or more"))
                elif name == CARDS and parse(value) * 1000 % 1:
                    self.faults.append(FieldError(place, f"{value!r} has more than three decimal places"))
                else:
                    quota[name] = to_units(name, value)
            except QuantityError as error:
                self.faults.append(FieldError(place, str(error)))
        return dict(sorted(quota.items()))


_FIELDS: Final = (
    "quota",
    "priority",
    "preemptible",
    "closed",
    "maxDuration",
    "maxDurationFrom",
    "resourceShapeProfile",
    "nodeSelector",
    "namespaceSelector",
    "overQuota",
    "ordering",
    "startWindows",
    "starvation",
)


def parse_queue_spec(raw: object, path: str = "spec") -> QueueSpec:
    """Read and check a queue's spec as users write it.

    Raises:
        Invalid: naming every faulty field below `path`.
    """
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        raise Invalid.at(path, "must be a mapping")
    reader = _Reader(raw, path)
    for key in raw:
        if key not in _FIELDS:
            hint = "write quota.requests" if key == "requests" else f"the fields are {', '.join(_FIELDS)}"
            reader.fail(str(key), f"is unknown: {hint}")
    priority = raw.get("priority", 0)
    if priority is None:
        priority = 0
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY:
        reader.fail("priority", f"{shown(priority)} is out of range: use a whole number from 0 to {MAX_PRIORITY}")
        priority = 0
    max_duration = reader.text("maxDuration")
    try:
        parse_duration(max_duration)
    except ValueError as error:
        reader.fail("maxDuration", str(error))
    spec = QueueSpec(
        quota=reader.quota(),
        priority=priority,
        preemptible=reader.flag("preemptible", True),
        closed=reader.flag("closed", False),
        max_duration=max_duration,
        max_duration_from=cast(DurationFrom, reader.choice("maxDurationFrom", ("Start", "Creation"), "Start")),
        resource_shape_profile=reader.text("resourceShapeProfile"),
        node_selector=reader.selector("nodeSelector"),
        namespace_selector=reader.selector("namespaceSelector"),
        over_quota=cast(OverQuota, reader.choice("overQuota", ("Wait", "Reject"), "Wait")),
        ordering=cast(Ordering, reader.choice("ordering", ORDERINGS, "BestEffort")),
        start_windows=reader.start_windows("startWindows"),
        starvation=reader.starvation("starvation"),
        source={key: value for key, value in raw.items() if value is not None},
    )
    if reader.faults:
        raise Invalid(reader.faults)
    return spec
