"""Refusals as a Kubernetes API words them: HTTP code, machine-readable reason, and details down to the field.

Every layer of the dev cluster raises `StatusError`; the HTTP layer writes it as a `Status` object, the in-process port
turns it into the client's own exceptions. A `Cause` is one faulty field of an Invalid (422) answer.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NOT_FOUND_TEXT = "404 page not found"


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault: `reason` such as FieldValueInvalid, and the field's path from the object's root."""

    reason: str
    message: str
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        """As written in `details.causes`; empty parts are left out."""
        pairs = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in pairs.items() if value}


def required(field: str, message: str = "") -> Cause:
    """A field that must be given."""
    return Cause("FieldValueRequired", f"Required value: {message}" if message else "Required value", field)


def bad_value(field: str, value: object, message: str) -> Cause:
    """A value that breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_show(value)}: {message}", field)


def misnamed(field: str, name: str, rule: Callable[[str], str]) -> list[Cause]:
    """What is wrong with a name that must be given; `rule` says why a text is no such name, or is empty."""
    if not name:
        return [required(field)]
    fault = rule(name)
    return [bad_value(field, name, fault)] if fault else []


def unsupported(field: str, value: object, known: tuple[str, ...]) -> Cause:
    """A value outside an enumeration."""
    names = ", ".join(f'"{name}"' for name in known)
    return Cause("FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {names}", field)


def duplicate(field: str, value: object) -> Cause:
    """A value that may occur only once."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {_show(value)}", field)


def not_allowed(field: str, message: str) -> Cause:
    """A change or a field that is forbidden."""
    return Cause("FieldValueForbidden", f"Forbidden: {message}", field)


def _show(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


class StatusError(Exception):
    """A refused request. `details` is the `Status.details` object; `retry_after` is in seconds."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.next_token = ""
        """With a 410 of a continue token: one that reads the rest."""

    def to_dict(self) -> dict[str, Any]:
        """The `Status` object of the answer."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.next_token} if self.next_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


class PlainNotFound(StatusError):
    """A path outside the API: answered in plain text, as a web server does."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", NOT_FOUND_TEXT)


def details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    """A `details` object without its empty parts."""
    pairs = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in pairs.items() if value}


def qualified(plural: str, group: str) -> str:
    """`deployments.apps`, or `pods` for the core group."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> StatusError:
    """No object of that name."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, details(name, group, plural))


def unknown_path() -> StatusError:
    """A resource, subresource or version that this server does not have."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> StatusError:
    """The name is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details(name, group, plural))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, message: str = STALE) -> StatusError:
    """The write was made against another state than the present one."""
    text = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {message}'
    return StatusError(409, "Conflict", text, details(name, group, plural))


def forbidden(plural: str, group: str, name: str, message: str, causes: list[Cause] | None = None) -> StatusError:
    """Known, but not permitted."""
    who = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    more = {"causes": [cause.to_dict() for cause in causes]} if causes else {}
    return StatusError(403, "Forbidden", f"{who} is forbidden: {message}", details(name, group, plural, **more))


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> StatusError:
    """One or more faulty fields; `kind` is the object's kind, its plural for custom resources. Causes that say the same
    are told once in the message.
    """
    told = dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes)
    texts = list(told)
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    shown = f"{kind}.{group}" if group else kind
    body = details(name, group, kind, causes=[cause.to_dict() for cause in causes])
    return StatusError(422, "Invalid", f'{shown} "{name}" is invalid: {text}', body)


def bad_request(message: str) -> StatusError:
    """A request that cannot be understood."""
    return StatusError(400, "BadRequest", message)


def expired(message: str = "") -> StatusError:
    """The version asked for is older than the kept history."""
    return StatusError(410, "Expired", message or "The resourceVersion for the provided watch is too old.")


def internal(message: str, reason: str = "InternalError") -> StatusError:
    """A fault that a real server answers with 500."""
    return StatusError(500, reason, message)


def success(name: str, group: str, plural: str, uid: str) -> dict[str, Any]:
    """The answer to a delete that removed the object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details(name, group, plural, uid=uid),
    }
