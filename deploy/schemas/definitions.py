"""Writes the custom resource definitions of `deploy/crds`: `make reference`.

Each file of `kinds/` is a definition. A schema in it with the key `$part` stands for the part of that name
(`parts.yaml`), under what is written beside the key: properties are added to the part's, anything else takes the place
of what the part says.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

SOURCE: Final = Path(__file__).parent
TARGET: Final = SOURCE.parent / "crds"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HEADER: Final = "# Written by `make reference` from deploy/schemas: edit there.\n"
_PART: Final = "$part"
_MERGED: Final = "properties"
_ROOT: Final[Mapping[str, Any]] = {
    "apiVersion": {"type": "string", "description": "The version of the API that the object is written in."},
    "kind": {"type": "string", "description": "What the object is."},
    "metadata": {"type": "object"},
}
"""Of metadata the API server takes nothing but the type: it explains them itself."""


class UnknownPart(ValueError):
    """A part that is named and that there is not."""


def filled(value: Any, parts: Mapping[str, Any]) -> Any:
    """The value with parts in place of their names.

    Raises:
        UnknownPart: it names one that there is not.
    """
    if isinstance(value, list):
        return [filled(each, parts) for each in value]
    if not isinstance(value, Mapping):
        return value
    own = {key: filled(inner, parts) for key, inner in value.items() if key != _PART}
    if _PART not in value:
        return own
    name = value[_PART]
    if name not in parts:
        raise UnknownPart(f"there is no part {name!r}: these are {', '.join(sorted(parts))}")
    made = filled(parts[name], parts)
    if _MERGED in own and _MERGED in made:
        own[_MERGED] = {**made[_MERGED], **own[_MERGED]}
    return {**made, **own}


def definition(text: str, parts: Mapping[str, Any]) -> str:
    """The text of a definition, from that of its source."""
    found = filled(yaml.load(text, Loader=_LOADER), parts)
    for version in found["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"] = {**_ROOT, **schema["properties"]}
    return _HEADER + yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=sys.maxsize)


def definitions() -> dict[str, str]:
    """The text of every definition, by the name of its file."""
    parts = yaml.load((SOURCE / "parts.yaml").read_bytes(), Loader=_LOADER)
    return {path.name: definition(path.read_text(), parts) for path in sorted((SOURCE / "kinds").glob("*.yaml"))}


class _Dumper(yaml.SafeDumper):
    """Writes what is used twice twice: a definition has no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(folder: Path) -> None:
    """Write all of them."""
    for name, text in definitions().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(TARGET)
