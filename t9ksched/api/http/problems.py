"""Errors as users see them: `application/problem+json` (RFC 9457) with a stable code, fields and a remedy.

No other errors leave the service: those of the store, of Kubernetes and of validation are translated here, and an
unforeseen exception becomes a 500 with an id that the log shows beside the traceback.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from t9ksched.admission import Verdict
from t9ksched.api.http.wording import in_words
from t9ksched.kube import errors as kube_errors
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.store import errors as store_errors

log = structlog.get_logger(__name__)

MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[dict[str, int]] = {
    "InvalidField": 422,
    "UnknownKind": 422,
    "Malformed": 400,
    "QueueNotFound": 404,
    "QueueClosed": 409,
    "QueueNotPermitted": 403,
    "SubmitterUnknown": 403,
    "OverQuota": 422,
    "ShapeExceeded": 422,
    "PriorityAboveMaximum": 422,
    "AlreadyExists": 409,
    "NotFound": 404,
    "Conflict": 409,
    "PreconditionFailed": 412,
    "Unauthenticated": 401,
    "Forbidden": 403,
    "RateLimited": 429,
    "ObserveOnly": 409,
    "NotLeader": 503,
    "Unavailable": 503,
    "Internal": 500,
}
"""The usual status of each code; the code is what programs should look at."""

PUBLISHED: Final[dict[str, str]] = {"UnsupportedClaim": "InvalidField"}
"""What REST calls the codes of verdicts that it has another name for."""


class Problem(Exception):
    """An answer other than success."""

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Iterable[FieldError] = (),
        *,
        status: int | None = None,
        remedy: str = "",
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.errors, self.remedy = code, detail, tuple(errors), remedy
        self.status = status or STATUS[code]
        self.headers, self.extra = headers or {}, extra
        self.half_done = False
        """Whether something of the request is left in the cluster."""

    def response(self) -> Response:
        """The answer itself."""
        body: dict[str, Any] = {
            "type": f"urn:t9ksched:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [{"path": fault.path, "message": fault.message} for fault in self.errors]
        if self.remedy:
            body["remedy"] = self.remedy
        content = msgspec.json.encode(body | self.extra)
        return Response(content, self.status, self.headers, media_type=MEDIA_TYPE)


def invalid(errors: Iterable[FieldError], *, remedy: str = "") -> Problem:
    """The problem of faulty fields; its sentence is the first fault."""
    found = tuple(errors)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Problem("InvalidField", f"{found[0]}{more}", found, remedy=remedy)


def refused(verdict: Verdict, headers: dict[str, str] | None = None) -> Problem:
    """The problem of a refusal at the door. An unknown queue is here a fault of the content, not of the address."""
    status = 422 if verdict.code == "QueueNotFound" else None
    code = PUBLISHED.get(verdict.code, verdict.code)
    return Problem(code, verdict.message, verdict.errors, status=status, remedy=verdict.remedy, headers=headers)


def from_store(error: store_errors.StoreError) -> Problem:
    """The database's refusal."""
    match error:
        case store_errors.RowExists():
            return Problem("AlreadyExists", str(error))
        case store_errors.RowMissing():
            return Problem("NotFound", str(error))
        case store_errors.RevisionChanged():
            headers = {"ETag": f'"{error.current}"'}
            return Problem(
                "PreconditionFailed", str(error), headers=headers, remedy="read it again and repeat the change"
            )
    log.warning("the database does not serve", error=str(error))
    return Problem("Unavailable", error.public, remedy=error.remedy, headers={"Retry-After": "2"})


def from_kube(error: kube_errors.ApiError, what: str, prefix: str = "") -> Problem:
    """The cluster's refusal of something done to `what`; `prefix` is put before the paths of faulty fields."""
    causes = [
        FieldError(f"{prefix}{cause.get('field') or ''}", str(cause.get("message") or error.message))
        for cause in error.causes
    ]
    match error:
        case kube_errors.AlreadyExists():
            return Problem(
                "AlreadyExists",
                f"{what} exists already",
                [FieldError(f"{prefix}metadata.name", f"{what} exists already")],
                remedy="choose another name, or delete the other first",
            )
        case kube_errors.NotFound() if error.details.get("kind") == "namespaces":
            missing = error.details.get("name", "")
            fault = FieldError(f"{prefix}metadata.namespace", f"there is no namespace {missing!r}")
            return Problem(
                "NotFound", str(fault), [fault], remedy=f"create it first: kubectl create namespace {missing}"
            )
        case kube_errors.NotFound():
            return Problem("NotFound", f"{what} does not exist")
        case kube_errors.Conflict():
            return Problem(
                "Conflict", f"{what} was changed or replaced meanwhile: {error.message}", remedy="look and repeat"
            )
        case kube_errors.BadRequest() | kube_errors.Unprocessable():
            return invalid(causes or [FieldError(prefix.rstrip("."), error.message or "was refused by the cluster")])
        case kube_errors.Forbidden(reason="ObserveOnly"):
            return Problem(
                "ObserveOnly",
                f"{what} was not touched: {error.message}",
                remedy="start t9ksched without --observe, or use kubectl",
            )
        case kube_errors.Forbidden():
            return Problem("Forbidden", f"the cluster refused {what}: {error.message}")
        case kube_errors.TooManyRequests():
            seconds = str(round(error.retry_after or 1) or 1)
            return Problem("RateLimited", f"the cluster is busy: {error.message}", headers={"Retry-After": seconds})
    log.warning("kubernetes does not answer", what=what, error=str(error))
    remedy = "tell an administrator: etcd is full" if kube_errors.is_full(error) else ""
    return Problem("Unavailable", kube_errors.in_public(error), remedy=remedy, headers={"Retry-After": "2"})


def install(app: FastAPI) -> None:
    """Make the app answer every error as a problem."""

    @app.exception_handler(Problem)
    async def _problem(_: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(Invalid)
    async def _invalid(_: Request, error: Invalid) -> Response:
        return invalid(error.errors).response()

    @app.exception_handler(store_errors.StoreError)
    async def _store(_: Request, error: store_errors.StoreError) -> Response:
        return from_store(error).response()

    @app.exception_handler(kube_errors.ApiError)
    async def _kube(_: Request, error: kube_errors.ApiError) -> Response:
        return from_kube(error, "the object").response()

    @app.exception_handler(RequestValidationError)
    async def _parameters(_: Request, error: RequestValidationError) -> Response:
        return invalid(dict.fromkeys(map(in_words, error.errors()))).response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 404:
            return Problem("NotFound", f"there is nothing at {request.url.path}", remedy="see /docs").response()
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(request))
            detail = f"{request.method} is not possible at {request.url.path}"
            return Problem("Malformed", detail, status=405, headers=headers, remedy="see /docs").response()
        return Problem("Malformed", str(error.detail), status=error.status_code, headers=headers).response()


def _methods(request: Request) -> list[str]:
    """What is possible at this address: the routes of one address stand one for each method."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found | ({"HEAD"} if "GET" in found else set()))
