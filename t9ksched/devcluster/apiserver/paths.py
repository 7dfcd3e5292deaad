"""The paths of resources: which object or collection a request is about, and which verb that makes of its method."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from t9ksched.devcluster.apiserver.status import StatusError

_BY_METHOD: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_TRUE: Final = ("true", "1", "True", "TRUE", "t", "T")


class Target(msgspec.Struct, frozen=True):
    """What a path names; `resource` is empty for a discovery path."""

    group: str
    version: str
    resource: str = ""
    namespace: str | None = None
    name: str | None = None
    subresource: str = ""
    watch: bool = False
    """The old form of a watch, with `watch` in the path."""


def method_not_allowed() -> StatusError:
    """The path exists, but not for this method."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, {})


def parse(path: str) -> Target | None:
    """The target of a path below `/api` or `/apis`; None for another path."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = bool(rest) and rest[0] == "watch"
    if watch:
        rest = rest[1:]
    namespace: str | None = None
    own = {"status", "finalize"}
    if len(rest) >= 3 and rest[0] == "namespaces" and not (not group and rest[2] in own and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return Target(group, version)
    name = rest[1] if len(rest) > 1 else None
    return Target(group, version, rest[0], namespace, name, "/".join(rest[2:]), watch)


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """The verb by which access is decided and the request is handled."""
    verb = _BY_METHOD.get(method)
    if verb is None:
        raise method_not_allowed()
    if verb == "get" and not target.subresource:
        if target.watch or (target.name is None and query.get("watch") in _TRUE):
            return "watch"
        return "get" if target.name is not None else "list"
    if target.name is None:
        if verb == "delete":
            return "deletecollection"
        if verb != "create":
            raise method_not_allowed()
    elif verb == "create" and not target.subresource:
        raise method_not_allowed()
    return verb
