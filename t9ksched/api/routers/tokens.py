"""`/apis/v1/admin/tokens`: API tokens. The secret is in the answer to the creation, and nowhere else."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from t9ksched.api.auth import Admin, guarded
from t9ksched.api.http.durations import lasting
from t9ksched.api.http.paging import Paged
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import BODY, Json, answer, at, body_of, documented
from t9ksched.api.schemas.accounts import NewToken, TokenBody, Tokens
from t9ksched.api.services import Given
from t9ksched.model.errors import FieldError, Invalid, faulty
from t9ksched.store.tokens import ADMIN, MANAGER, ROLES, USER, LastAdmin, TokenRecord

router = guarded("/apis/v1/admin/tokens", "tokens")

LASTS: Final = timedelta(days=90)
"""How long a token lasts whose request names no duration."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_USER = re.compile(r"[\w.@:+-]{1,253}")


@router.post(
    "",
    status_code=201,
    operation_id="createToken",
    summary="Make a token",
    responses=documented({201: NewToken}, 400, 403, 409, *BODY, 422),
    openapi_extra=body_of(TokenBody),
)
async def create(request: Request, services: Given, caller: Admin) -> Response:
    body = await services.bodies.mapping(request, caller.user)
    name, role = body.get("name"), body.get("role", USER)
    user = body.get("user") or name
    known = TokenBody.model_fields
    faults = [FieldError(key, f"is unknown: the fields are {', '.join(known)}") for key in body if key not in known]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        faults.append(
            FieldError("name", f"{faulty(name, 'is not a name')}: use 1 to 63 lower-case letters, digits, '-' and '.'")
        )
    elif not isinstance(user, str) or not _USER.fullmatch(user):
        faults.append(FieldError("user", f"{faulty(user, 'is not a user')}: use letters, digits and . _ @ : + -"))
    if role not in ROLES:
        faults.append(FieldError("role", f"{faulty(role, 'is unknown')}: use one of {', '.join(ROLES)}"))
    groups, queues = (_names(body.get(key), key, faults) for key in ("groups", "queues"))
    if role == MANAGER and not queues:
        faults.append(FieldError("queues", "is missing: name the queues that this manager rules"))
    if role == ADMIN and queues:
        faults.append(FieldError("queues", "cannot limit an administrator: use the role manager"))
    expires_at = lasting(body.get("duration"), "duration", datetime.now(UTC), LASTS, faults)
    if faults:
        raise Invalid(faults)
    token = await services.store.tokens.create(
        str(name), role, str(user), groups=groups, queues=queues, expires_at=expires_at, by=caller.user
    )
    record = next(one for one in await services.store.tokens.list() if one.name == name)
    headers = {"Cache-Control": "no-store", "Location": f"{router.prefix}/{name}"}
    return answer(_shape(record) | {"token": token}, 201, headers)


@router.get(
    "",
    operation_id="listTokens",
    summary="List the tokens, without their secrets",
    responses=documented({200: Tokens}, 403),
)
async def list_all(services: Given, _: Admin, paging: Paged) -> Response:
    records = sorted(await services.store.tokens.list(), key=lambda one: one.name)
    page, more = paging.of(records, lambda one: (one.name,))
    return answer({"items": [_shape(record) for record in page], "continue": more})


@router.delete(
    "/{name}",
    status_code=204,
    operation_id="revokeToken",
    summary="Revoke a token",
    responses=documented({204: None}, 403, 404, 409),
)
async def revoke(name: str, services: Given, caller: Admin) -> Response:
    try:
        await services.store.tokens.revoke(name, by=caller.user)
    except LastAdmin as error:
        raise Problem("Conflict", str(error)) from None
    return Response(status_code=204)


def _shape(record: TokenRecord) -> Json:
    return {
        "name": record.name,
        "user": record.owner,
        "role": record.role,
        "groups": record.groups,
        "queues": record.queues,
        "createdAt": at(record.created_at),
        "expiresAt": at(record.expires_at),
        "lastUsedAt": at(record.last_used_at),
    }


def _names(raw: Any, path: str, faults: list[FieldError]) -> list[str]:
    if raw is None:
        return []
    if isinstance(raw, list) and len(raw) <= 1000 and all(isinstance(n, str) and _USER.fullmatch(n) for n in raw):
        return list(dict.fromkeys(raw))
    faults.append(FieldError(path, "must be a list of names of letters, digits and . _ @ : + -"))
    return []
