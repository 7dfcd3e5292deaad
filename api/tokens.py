"""`/apis/v1/admin/tokens`: API tokens. The secret is in the answer to the creation, and nowhere else."""

import re

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.answers import Json, answer, at, body_of, documented
from api.auth import Admin
from api.documents import read_mapping
from api.problems import Problem
from api.schemas import NewToken, TokenBody, Tokens
from api.services import Given
from t9ksched.model.errors import FieldError, Invalid
from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.store.tokens import ROLES, USER, LastAdmin, TokenRecord

router = APIRouter(prefix="/apis/v1/admin/tokens", tags=["tokens"])

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_USER = re.compile(r"[\w.@:+-]{1,253}")


@router.post(
    "",
    status_code=201,
    summary="Make a token",
    responses=documented({201: NewToken}, 400, 403, 409, 422),
    openapi_extra=body_of(TokenBody),
)
async def create(request: Request, services: Given, caller: Admin) -> Response:
    body = await read_mapping(request, services.max_body_bytes)
    name, role = body.get("name"), body.get("role", USER)
    user = body.get("user") or name
    faults = [
        FieldError(key, "is unknown: the fields are name, user, role")
        for key in body
        if key not in TokenBody.model_fields
    ]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        faults.append(
            FieldError("name", f"{name!r} is not a name: use 1 to 63 lower-case letters, digits, '-' and '.'")
        )
    elif not isinstance(user, str) or not _USER.fullmatch(user):
        faults.append(FieldError("user", f"{user!r} is not a user: use letters, digits and . _ @ : + -"))
    if role not in ROLES:
        faults.append(FieldError("role", f"{role!r} is unknown: use one of {', '.join(ROLES)}"))
    if faults:
        raise Invalid(faults)
    token = await services.store.tokens.create(str(name), role, str(user))
    record = next(one for one in await services.store.tokens.list() if one.name == name)
    detail = {"name": name, "user": user, "role": role}
    await services.store.history.append(Event(event=history.TOKEN_CREATED, actor=caller.user, detail=detail))
    return answer(_shape(record) | {"token": token}, 201, {"Cache-Control": "no-store"})


@router.get("", summary="List the tokens, without their secrets", responses=documented({200: Tokens}, 403))
async def list_all(services: Given, _: Admin) -> Response:
    return answer({"items": [_shape(record) for record in await services.store.tokens.list()]})


@router.delete("/{name}", status_code=204, summary="Revoke a token", responses=documented({204: None}, 403, 404, 409))
async def revoke(name: str, services: Given, caller: Admin) -> Response:
    try:
        await services.store.tokens.revoke(name)
    except LastAdmin as error:
        raise Problem("Conflict", str(error)) from None
    await services.store.history.append(Event(event=history.TOKEN_REVOKED, actor=caller.user, detail={"name": name}))
    return Response(status_code=204)


def _shape(record: TokenRecord) -> Json:
    return {
        "name": record.name,
        "user": record.owner,
        "role": record.role,
        "createdAt": at(record.created_at),
        "lastUsedAt": at(record.last_used_at),
    }
