"""Values of a type that a schema does not have at their place: the API server refuses them, and here they have a path.

Where the schema names no type, anything may stand. A null is an absent value. A whole number may be written as `30.0`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from t9ksched.admission.misspelt import Schema
from t9ksched.model.errors import FieldError, child

_WHAT: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
}
_LONGEST: Final = 60
"""Characters of a value that are shown."""


def mistyped_fields(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    """Values at any depth below `path` that have another type than the schema says."""
    wanted = schema.get("type")
    if value is None or wanted is None:
        return
    if not _is(value, wanted):
        yield FieldError(path, f"must be {_WHAT[wanted]}, not {_shown(value)}{_hint(value, wanted)}")
    elif wanted == "array":
        for index, one in enumerate(value):
            yield from mistyped_fields(one, schema.get("items") or {}, f"{path}[{index}]")
    elif wanted == "object":
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        others: Schema = schema.get("additionalProperties") or {}
        for name, inner in value.items():
            yield from mistyped_fields(inner, properties.get(name, others), child(path, str(name)))


def _is(value: Any, wanted: str) -> bool:
    match wanted:
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case _:
            return not isinstance(value, bool | int | float | Mapping | list)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _hint(value: Any, wanted: str) -> str:
    if wanted == "string" and not isinstance(value, Mapping | list):
        return ": write it in quotes"
    return ""
