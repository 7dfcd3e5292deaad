"""Whether objects that were read from a file have the shape that the server relies on.

What comes over HTTP is decoded and validated before it is stored; a file may have been changed by hand. Only shapes are
looked at (fields, types, quantities, times, what the server itself fills in), not the rules of a kind: those may have
become stricter since the object was accepted.
"""

from collections.abc import Iterator
from typing import Any, Final

from t9ksched.devcluster.apiserver import structural
from t9ksched.devcluster.apiserver.crd import DEFINITIONS
from t9ksched.devcluster.apiserver.kinds import Kind, Registry
from t9ksched.devcluster.apiserver.schema import ALWAYS, WrongType, decoder
from t9ksched.devcluster.apiserver.storage import Storage

Object = dict[str, Any]
_FILLED_IN: Final = ("name", "uid", "creationTimestamp", "resourceVersion")


def faults(storage: Storage) -> Iterator[tuple[str, str, str]]:
    """Collection, key and fault of each object that has not the shape of its kind."""
    kinds = {kind.collection: kind for kind in Registry().all() if kind.to_stored is None}
    kinds[DEFINITIONS.collection] = DEFINITIONS
    schemas: dict[str, tuple[str, Object]] = {}
    pairs = [(name, entry) for name, entry in storage.everything() if name == DEFINITIONS.collection]
    pairs += [(name, entry) for name, entry in storage.everything() if name != DEFINITIONS.collection]
    for name, entry in pairs:
        kind = kinds.get(name)
        fault = _metadata_fault(entry.object, entry.key, None if kind is None else kind.namespaced)
        if not fault and kind is not None:
            fault = _builtin_fault(entry.object, kind)
        if not fault and kind is DEFINITIONS:
            fault = _definition_fault(entry.object)
            if not fault:
                schemas |= _schemas(entry.object["spec"])
        if not fault and kind is None and name in schemas:
            fault = _custom_fault(entry.object, *schemas[name])
        if fault:
            yield name, entry.key, fault


def _metadata_fault(obj: Object, key: str, namespaced: bool | None) -> str:
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        return "it has no metadata" if meta is None else "metadata is no object"
    try:
        decoder("V1ObjectMeta")(meta, "metadata", [])
    except WrongType as error:
        return str(error)
    for field in _FILLED_IN:
        if not meta.get(field):
            return f"it has no metadata.{field}"
    own = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
    if own != key or (namespaced is not None and ("namespace" in meta) != namespaced):
        return f"its metadata names {own}"
    return ""


def _builtin_fault(obj: Object, kind: Kind) -> str:
    if (obj.get("kind"), obj.get("apiVersion")) != (kind.kind, kind.api_version):
        return f"kind and apiVersion are not {kind.kind} and {kind.api_version}"
    try:
        decoder(kind.model)(obj, "", [])
    except WrongType as error:
        return str(error)
    for part, always in ALWAYS.get(kind.model, {}).items():
        if isinstance(always, dict) and not isinstance(obj.get(part), dict):
            return f"it has no {part}"
    if kind.kind == "Pod" and not obj["spec"].get("containers"):
        return "it has no spec.containers"
    return ""


def _definition_fault(obj: Object) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    for field, value in (
        ("status", status),
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
        ("spec.versions", versions),
        ("stored version", any(version.get("storage") for version in versions)),
    ):
        if not value:
            return f"it has no {field}"
    for number, version in enumerate(versions):
        if not version.get("name") or not (version.get("schema") or {}).get("openAPIV3Schema"):
            return f"spec.versions[{number}] has no name or no schema"
    if not all("type" in entry and "status" in entry for entry in status.get("conditions") or []):
        return "a condition in its status has no type or no status"
    return ""


def _schemas(spec: Object) -> dict[str, tuple[str, Object]]:
    """The kind and the schema of what a definition brings, by collection."""
    stored = next(version for version in spec["versions"] if version.get("storage"))
    name = f"{spec['names']['plural']}.{spec['group']}"
    return {name: (spec["names"]["kind"], stored["schema"]["openAPIV3Schema"])}


def _custom_fault(obj: Object, kind: str, schema: Object) -> str:
    if obj.get("kind") != kind:
        return f"kind is not {kind}"
    plain = {key: value for key, value in obj.items() if key != "metadata"}
    wrong = structural.type_faults(plain, schema)
    return wrong[0].message if wrong else ""
