"""Fields of workloads that nothing reads: told to users of `kubectl` by one event for each generation of an object.

The API server tells unknown fields itself wherever definitions name all fields. Pod templates and what other
controllers read are kept as they are written, so that a misspelt field there would pass in silence.
"""

from t9ksched.admission.misspelt import misspelt
from t9ksched.admission.vain import vain
from t9ksched.controller.execute import Record
from t9ksched.controller.picture import Key
from t9ksched.kube.port import Object
from t9ksched.kube.setup.schemas import schema_of
from t9ksched.model.errors import FieldWarning, Invalid
from t9ksched.model.names import EVENT_FIELDS_IGNORED
from t9ksched.workloads.actions import metadata
from t9ksched.workloads.read import read
from t9ksched.workloads.registry import KINDS

_SHOWN = 10
"""Fields that one event names."""


class Unread:
    """Tells of unknown fields, through `record`. What has a status when it is seen first was told about before."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._seen: dict[Key, int] = {}

    def forget(self, key: Key) -> None:
        """The workload is gone."""
        self._seen.pop(key, None)

    def look(self, key: Key, obj: Object) -> None:
        """Tell of the workload's unknown fields, unless that was done for this generation of it."""
        generation, before = int(metadata(obj).get("generation") or 0), self._seen.get(key)
        self._seen[key] = generation
        known = bool(obj.get("status")) if before is None else before == generation
        if known or any(owner.get("controller") for owner in metadata(obj).get("ownerReferences") or ()):
            return
        if found := unread(obj):
            self._record(obj, EVENT_FIELDS_IGNORED, sentence(found), type="Warning")
        for one in vain(obj):
            self._record(obj, EVENT_FIELDS_IGNORED, f"{one.path}: {one.message}", type="Warning")


def unread(obj: Object) -> list[FieldWarning]:
    """The unknown fields of a workload that can be read; of another one its faults are told."""
    try:
        templates = read(obj).templates
    except Invalid:
        return []
    return list(misspelt(obj, schema_of(KINDS[obj["kind"]].resource), templates))


def sentence(found: list[FieldWarning]) -> str:
    """What is unknown, with the nearest known names."""
    shown = [f"{one.path} (did you mean {one.nearest!r}?)" if one.nearest else one.path for one in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"unknown fields, which nothing reads: {', '.join(shown)}{more}"
