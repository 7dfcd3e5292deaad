"""The fields of pods' specs, and of native kinds that make pods, as the API of Kubernetes has them, at every depth:
misspelt ones are told, values of a wrong type refused.

`podfields.txt` names each type of the API below these specs with its fields. It is an extract of the OpenAPI
description that the official client was made from. Each level is open: a later API may have more fields, so an unknown
one is told and never refused.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

TABLE: Final = (files(__package__) / "podfields.txt").read_text()
"""A type a line, with its fields: `name:type`, `name[]:type` for a list, `name{}:type` for a map with any keys. No type
stands for text, `any` for what may be written in several ways, such as a quantity.
"""
_PLAIN: Final[Mapping[str, dict[str, Any]]] = {
    "": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "any": {},
}


def _schemas(table: str) -> dict[str, dict[str, Any]]:
    """By type the schema of its objects; those within it are the same objects."""
    types = {kind: fields.split() for kind, _, fields in (line.partition(" ") for line in table.splitlines())}
    made: dict[str, dict[str, Any]] = {
        kind: {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for kind in types
    }
    for kind, fields in types.items():
        properties = made[kind]["properties"] = {}
        for field in fields:
            name, _, below = field.partition(":")
            one = _PLAIN[below] if below in _PLAIN else made[below]
            if name.endswith("[]"):
                properties[name.removesuffix("[]")] = {"type": "array", "items": one}
            elif name.endswith("{}"):
                properties[name.removesuffix("{}")] = {"type": "object", "additionalProperties": one}
            else:
                properties[name] = one
    return made


_SCHEMAS: Final = _schemas(TABLE)
POD_SPEC: Final[Mapping[str, Any]] = _SCHEMAS["PodSpec"]


def _objects(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of objects with such a spec."""
    if "template" in spec.get("properties", {}):
        spec = {**spec, "properties": {**spec["properties"], "template": _level({"metadata": {}, "spec": {}})}}
    return _level({"apiVersion": {}, "kind": {}, "metadata": {}, "spec": spec})


def _level(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}


NATIVE: Final[Mapping[str, Mapping[str, Any]]] = {
    "Pod": _objects({}),
    **{kind: _objects(_SCHEMAS[f"{kind}Spec"]) for kind in ("Deployment", "Job", "StatefulSet")},
}
"""Schemas of native kinds; what stands in pods and in templates of pods is judged by POD_SPEC."""
