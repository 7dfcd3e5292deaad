"""Events under their two sets of names: `v1` as stored, `events.k8s.io/v1` as newer clients write them."""

from typing import Any, Final

Object = dict[str, Any]

_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK: Final = {core: new for new, core in _NAMES.items()}


def to_core(event: Object) -> Object:
    """The stored form of an event of `events.k8s.io`."""
    stored = {_NAMES.get(field, field): value for field, value in event.items()}
    stored["apiVersion"] = "v1"
    for field, empty in (("involvedObject", {}), ("source", {}), ("reportingComponent", ""), ("reportingInstance", "")):
        stored.setdefault(field, empty)
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        stored.setdefault(field, None)
    return stored


def from_core(stored: Object) -> Object:
    """A stored event as `events.k8s.io` shows it."""
    event = {_BACK.get(field, field): value for field, value in stored.items()}
    event["apiVersion"] = "events.k8s.io/v1"
    for field in ("reportingController", "reportingInstance"):
        if event.get(field) == "":
            del event[field]
    return event
