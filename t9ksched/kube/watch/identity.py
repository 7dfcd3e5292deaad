"""Which object, and which version of it: all that a reflector must remember of what it saw."""

from __future__ import annotations

from typing import Any

import msgspec


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Which object, and which version of it."""

    namespace: str
    name: str
    uid: str
    version: str


def identify(obj: Any) -> Identity:
    """The identity of a dict, or of a struct with a `metadata` of `namespace, name, uid, resource_version`."""
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        get = metadata.get
        return Identity(get("namespace") or "", get("name", ""), get("uid", ""), get("resourceVersion", ""))
    metadata = obj.metadata
    return Identity(metadata.namespace or "", metadata.name, metadata.uid, metadata.resource_version)


def goes_back(known: str, version: str) -> bool:
    """Whether a version, read as a number, lies before the one known; False for versions that are no numbers."""
    if len(version) == len(known):
        return version < known and version.isdecimal() and known.isdecimal()
    return len(version) < len(known) and version.isdecimal() and known.isdecimal()
