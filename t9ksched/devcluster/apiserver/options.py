"""The query parameters and bodies that say how a request is to be done, read and checked as the API server does."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from t9ksched.devcluster.apiserver.status import (
    Cause,
    StatusError,
    bad_request,
    bad_value,
    internal,
    invalid,
    not_allowed,
    unsupported,
)
from t9ksched.model.whole import whole_number

META_GROUP: Final = "meta.k8s.io"
_LARGEST: Final = str(2**63 - 1)
_VALIDATION: Final = ("", "Ignore", "Strict", "Warn")
_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")


class WriteOptions(msgspec.Struct):
    """How a create, update or patch is done; `warnings` collects what the client is told beside the answer."""

    dry_run: bool = False
    validation: str = "Warn"
    manager: str = ""
    force: bool = False
    applies: bool = False
    """Whether the object's record of field owners is part of the write (server-side apply)."""
    warnings: list[str] = msgspec.field(default_factory=list)


class DeleteOptions(msgspec.Struct):
    """How a delete is done."""

    dry_run: bool = False
    grace: int | None = None
    propagation: str | None = None
    uid: str | None = None
    version: str | None = None


class ListOptions(msgspec.Struct):
    """What a list shows and at which version."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""


def _refuse(kind: str, causes: list[Cause]) -> StatusError:
    return invalid(kind, META_GROUP, "", causes)


def _is_dry(values: list[str], kind: str) -> bool:
    if values and values != ["All"]:
        shown = " ".join(f'"{value}"' for value in values)
        text = f'Unsupported value: [{shown}]: supported values: "All"'
        raise _refuse(kind, [Cause("FieldValueNotSupported", text, "dryRun")])
    return bool(values)


def write_options(query: Mapping[str, str], kind: str) -> WriteOptions:
    """The options of a write; `kind` is CreateOptions, UpdateOptions or PatchOptions."""
    if not query:
        return WriteOptions()
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATION:
        raise _refuse(kind, [unsupported("fieldValidation", validation, _VALIDATION)])
    return WriteOptions(
        dry_run=_is_dry([query["dryRun"]] if query.get("dryRun") else [], kind),
        validation=validation or "Warn",
        manager=query.get("fieldManager", ""),
        force=query.get("force", "").lower() in ("true", "1"),
    )


def delete_options(query: Mapping[str, str], body: Mapping[str, Any] | None) -> DeleteOptions:
    """The options of a delete, from the body if it has one, else from the query."""
    if body:
        if not isinstance(body, dict):
            raise bad_request("DeleteOptions must be an object")
        grace = _typed(body, "gracePeriodSeconds", int)
        policy = _typed(body, "propagationPolicy", str)
        orphan = _typed(body, "orphanDependents", bool)
        dry = _typed(body, "dryRun", list) or []
        conditions = section(body, "preconditions")
    else:
        grace = integer(query, "gracePeriodSeconds")
        policy = query.get("propagationPolicy")
        text = query.get("orphanDependents", "").lower()
        orphan = {"true": True, "false": False}.get(text)
        dry = [query["dryRun"]] if query.get("dryRun") else []
        conditions = {}
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        raise _refuse("DeleteOptions", [bad_value("propagationPolicy", policy, text)])
    if policy is not None and policy not in _POLICIES[:3]:
        raise _refuse("DeleteOptions", [unsupported("propagationPolicy", policy, _POLICIES)])
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        _is_dry(dry, "DeleteOptions"), grace, policy, conditions.get("uid"), conditions.get("resourceVersion")
    )


def section(body: Any, name: str) -> dict[str, Any]:
    """An object inside a body, empty when it is not there; 400 when another value is in its place."""
    found = body.get(name) if isinstance(body, dict) else body
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise bad_request(f"{name} must be an object")
    return found


def _typed(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise bad_request(f"DeleteOptions cannot be decoded: {name} has the wrong type")
    return value


def integer(query: Mapping[str, str], name: str) -> int | None:
    """A number in the query; 400 when it is none."""
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > len(_LARGEST) or (len(digits) == len(_LARGEST) and digits > _LARGEST):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return -int(digits or "0") if text.startswith("-") else int(digits or "0")


def list_options(query: Mapping[str, str]) -> ListOptions:
    """The options of a list or a watch's beginning."""
    return ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=integer(query, "limit") or 0,
        token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )


def check_list(options: ListOptions, initial: str | None = None) -> None:
    """Refuse combinations of version, match rule and token that have no meaning."""
    match, version = options.match, options.version
    causes: list[Cause] = []
    if match:
        if not version:
            causes.append(
                not_allowed(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if options.token:
            causes.append(
                not_allowed("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in ("Exact", "NotOlderThan"):
            causes.append(unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(not_allowed("resourceVersionMatch", text))
    if initial is not None:
        causes.append(not_allowed("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise _refuse("ListOptions", causes)
    if options.token and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def parse_version(text: str) -> int:
    """A resourceVersion from a query; 0 when none is given."""
    if not text:
        return 0
    version = whole_number(text)
    if version is None:
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing'
            f' "{text}": invalid syntax'
        )
    return version


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Where a watch begins and when it ends; `timeout` in seconds, None for the server's choice."""

    version: int
    bookmarks: bool
    initial: bool | None
    timeout: float | None


def watch_options(query: Mapping[str, str]) -> WatchOptions:
    """The options of a watch, checked."""
    initial = {"true": True, "1": True, "false": False, "0": False}.get(query.get("sendInitialEvents", "").lower())
    match = query.get("resourceVersionMatch", "")
    causes: list[Cause] = []
    if initial is not None:
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            causes.append(not_allowed("resourceVersionMatch", text))
            if match:
                causes.append(unsupported("resourceVersionMatch", match, ("NotOlderThan",)))
    elif match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(not_allowed("resourceVersionMatch", text))
    if causes:
        raise _refuse("ListOptions", causes)
    timeout = integer(query, "timeoutSeconds")
    version = query.get("resourceVersion", "")
    if version and whole_number(version) is None:
        text = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise internal(text, "")
    return WatchOptions(
        version=int(version or 0),
        bookmarks=query.get("allowWatchBookmarks", "").lower() in ("true", "1"),
        initial=initial,
        timeout=float(timeout) if timeout else None,
    )


def new_token(version: int, after: str) -> str:
    """A continue token: the version of the first page and the last key that was shown."""
    raw = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": after + "\u0000"})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_token(token: str) -> tuple[int, str]:
    """The version (-1: the present) and the last key of a continue token; 400 when it is not one of ours."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        found = msgspec.json.decode(raw)
        version, after = int(found["rv"]), str(found["start"])
    except (binascii.Error, ValueError, KeyError, TypeError, msgspec.DecodeError):
        raise bad_request("continue key is not valid: it was not issued by this server") from None
    return version, after.rstrip("\u0000")
