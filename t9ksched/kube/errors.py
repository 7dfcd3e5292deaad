"""What a Kubernetes API can answer when it does not do what it was asked.

Every request of this package ends either in its result or in one `ApiError`: the HTTP library's own exceptions never
leave it. An error keeps the server's own words (`reason`, `message`, `details` of the `Status` body) and says by
`unknown` whether a write that failed this way may have happened all the same. `error_from_status` turns a status code
and a body into the right class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A request was refused, or no answer came.

    `status` is the HTTP status (0 without an answer), `reason` the machine-readable word of the `Status` body,
    `message` its sentence, `details` its details (kind, name, causes), `retry_after` the seconds the server asked to
    wait, if it did.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        head = f"{self.status} {self.reason}".strip() if self.status else self.reason
        return f"{head}: {self.message}" if self.message else head

    @property
    def unknown(self) -> bool:
        """Whether a write answered like this may have been carried out; only reading tells."""
        return False

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The field errors of a 422: `{"reason", "message", "field"}` each."""
        return list(self.details.get("causes") or ())


class BadRequest(ApiError):
    """400: the server could not make sense of the request."""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: the user is known and may not do this."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class Conflict(ApiError):
    """409: a precondition (UID, resourceVersion, already bound, being deleted) does not hold."""


class AlreadyExists(Conflict):
    """409 at a creation: the name is taken."""


class Expired(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class Unprocessable(ApiError):
    """422: the object breaks the kind's rules; `causes` names the fields."""


class TooManyRequests(ApiError):
    """429: wait `retry_after` seconds. An eviction that a disruption budget forbids is answered like this too."""


class ServerError(ApiError):
    """5xx. A write may have reached the storage before the server gave up (a 503 is given before anything is done)."""

    @property
    def unknown(self) -> bool:
        return self.status != 503


class Unreachable(ApiError):
    """No answer: the connection could not be made (`sent` is false) or broke before an answer came (`sent` is true)."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(0, "Unreachable", message)
        self.sent = sent

    @property
    def unknown(self) -> bool:
        return self.sent


class TimedOut(ApiError):
    """No answer in time: whether a write happened is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "TimedOut", message)

    @property
    def unknown(self) -> bool:
        return True


_FULL = ("space exceeded", "no space left")
"""What etcd says when its quota or its disk is used up."""
_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Unprocessable,
    429: TooManyRequests,
}


def error_from_status(status: int, body: Mapping[str, Any] | None = None, retry_after: float | None = None) -> ApiError:
    """The error for HTTP status `status` with the decoded `Status` object `body` (None when the body was something
    else).

    `retry_after` is the header's value in seconds; without it `details.retryAfterSeconds` counts.
    """
    body = body or {}
    details = body.get("details")
    details = details if isinstance(details, Mapping) else {}
    reason = str(body.get("reason") or "")
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, (int, float)) and seconds > 0:
        retry_after = float(seconds)
    kind = ServerError if status >= 500 else _BY_STATUS.get(status, ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(status, reason, str(body.get("message") or ""), details, retry_after)


def is_full(error: ApiError) -> bool:
    """Whether the API has no space left to store objects in."""
    return isinstance(error, ServerError) and any(text in error.message.lower() for text in _FULL)


def in_public(error: ApiError) -> str:
    """What keeps the API from serving, for users: the kind of the failure, and none of the server's own words, which
    may name hosts and paths.
    """
    match error:
        case Unreachable():
            return "the Kubernetes API cannot be reached now"
        case TimedOut():
            return "the Kubernetes API did not answer in time"
        case Unauthorized() | Forbidden():
            return "the Kubernetes API refuses the service's account"
        case ServerError() if is_full(error):
            return "the Kubernetes API cannot store objects: it has no space left"
        case ServerError():
            return f"the Kubernetes API failed (HTTP {error.status})"
    return "the Kubernetes API cannot be used now"
