"""The fields of a pod's spec as the API of Kubernetes has them, at every depth, for warnings about misspelt ones.

`podfields.txt` names each type of the API below a PodSpec with its fields. It is an extract of the OpenAPI description
that the official client was made from. Each level is open: a later API may have more fields, so only those are told
that resemble one that is known.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

TABLE: Final = (files(__package__) / "podfields.txt").read_text()
"""A type a line, with its fields: `name`, `name:type`, or `name[]:type` for a list."""


def _schemas(table: str) -> dict[str, dict[str, Any]]:
    """By type the schema of its objects; those within it are the same objects."""
    types = {kind: fields.split() for kind, _, fields in (line.partition(" ") for line in table.splitlines())}
    made: dict[str, dict[str, Any]] = {kind: {"x-kubernetes-preserve-unknown-fields": True} for kind in types}
    for kind, fields in types.items():
        properties = made[kind]["properties"] = {}
        for field in fields:
            name, _, below = field.partition(":")
            if name.endswith("[]"):
                properties[name.removesuffix("[]")] = {"items": made[below]}
            else:
                properties[name] = made[below] if below else {}
    return made


POD_SPEC: Final[Mapping[str, Any]] = _schemas(TABLE)["PodSpec"]
