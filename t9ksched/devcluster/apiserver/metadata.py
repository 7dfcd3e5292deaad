"""Rules of `metadata`, equal for every kind: what a client may set and change, and what the server fills in."""

import secrets
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from t9ksched.devcluster.apiserver import names
from t9ksched.devcluster.apiserver.status import Cause, bad_value, not_allowed, required

Object = dict[str, Any]
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_MAX_ANNOTATIONS: Final = 256 * 1024
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


def now() -> str:
    """The present time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_uid() -> str:
    """A fresh object identity."""
    return str(uuid.uuid4())


def generated_name(prefix: str) -> str:
    """A name of five random characters after a prefix, which is cut so that the whole fits a label."""
    return prefix[:58] + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))


def fill_in(metadata: Object, namespace: str | None) -> None:
    """Set what the server decides at a create, and drop what a client may not give."""
    for field in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "resourceVersion"):
        metadata.pop(field, None)
    if namespace:
        metadata["namespace"] = namespace
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"])
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()


def carry_over(new: Object, old: Object) -> None:
    """Keep in an update what it left out and what it cannot change."""
    for field in ("uid", "namespace"):
        if not new.get(field) and field in old:
            new[field] = old[field]
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName"):
        if field in old:
            new[field] = old[field]
        elif field != "generateName":
            new.pop(field, None)
    if "managedFields" in old:
        new.setdefault("managedFields", old["managedFields"])
    new.pop("selfLink", None)
    new["resourceVersion"] = old["resourceVersion"]


def validate(metadata: Object, name_fault: Callable[[str], str]) -> list[Cause]:
    """The faults of a new object's metadata."""
    causes: list[Cause] = []
    name = metadata.get("name", "")
    prefix = metadata.get("generateName")
    if prefix and (fault := name_fault(prefix.rstrip("-.") or "x")):
        causes.append(bad_value("metadata.generateName", prefix, fault))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif fault := name_fault(name):
        causes.append(bad_value("metadata.name", name, fault))
    return causes + _common(metadata)


def _common(metadata: Object) -> list[Cause]:
    causes = validate_labels(metadata.get("labels"), "metadata.labels")
    causes += validate_annotations(metadata.get("annotations"), "metadata.annotations")
    for number, finalizer in enumerate(metadata.get("finalizers") or []):
        field = f"metadata.finalizers[{number}]"
        if fault := names.label_key_fault(finalizer):
            causes.append(bad_value(field, finalizer, fault))
        elif "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(bad_value(field, finalizer, text))
    return causes + _owners(metadata.get("ownerReferences") or [])


def _owners(references: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    at = "metadata.ownerReferences"
    for owner in references:
        version = owner.get("apiVersion", "")
        if not version or version.endswith("/"):
            causes.append(bad_value(f"{at}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                causes.append(bad_value(f"{at}.{field}", "", "must not be empty"))
        if owner.get("kind") == "Event" and version in ("v1", "events.k8s.io/v1"):
            causes.append(bad_value(at, version, "Event is disallowed from being an owner"))
    leaders = [f"{owner.get('kind')}/{owner.get('name')}" for owner in references if owner.get("controller")]
    if len(leaders) > 1:
        text = (
            'Only one reference can have Controller set to true. Found "true" in references for'
            f" {leaders[0]} and {leaders[1]}"
        )
        causes.append(bad_value(at, references, text))
    return causes


def validate_annotations(annotations: Any, field: str) -> list[Cause]:
    """The faults of a map of annotations."""
    causes = [
        bad_value(field, key, fault) for key in annotations or {} if (fault := names.label_key_fault(key.lower()))
    ]
    size = sum(len(key) + len(value) for key, value in (annotations or {}).items())
    if size > _MAX_ANNOTATIONS:
        causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes", field))
    return causes


def validate_labels(labels: Any, field: str) -> list[Cause]:
    """The faults of a map of labels."""
    causes: list[Cause] = []
    for key, value in (labels or {}).items():
        if fault := names.label_key_fault(key):
            causes.append(bad_value(field, key, fault))
        if fault := names.label_value_fault(value):
            causes.append(bad_value(field, value, fault))
    return causes


def validate_update(new: Object, old: Object) -> list[Cause]:
    """The faults of changed metadata; `carry_over` has run."""
    causes: list[Cause] = []
    if new.get("labels") is not old.get("labels") or new.get("annotations") is not old.get("annotations"):
        causes += _common(new)
    for field in ("name", "namespace", "uid"):
        if new.get(field) != old.get(field):
            causes.append(bad_value(f"metadata.{field}", new.get(field, ""), "field is immutable"))
    if old.get("deletionTimestamp"):
        added = [name for name in new.get("finalizers") or [] if name not in (old.get("finalizers") or [])]
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            text = (
                "no new finalizers can be added if the object is being deleted, found new finalizers"
                f" []string{{{shown}}}"
            )
            causes.append(not_allowed("metadata.finalizers", text))
    return causes
