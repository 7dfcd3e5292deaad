"""Who is calling: bearer tokens, and what their roles may do. Nothing is allowed without a token but what says so."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.problems import Problem
from api.services import Given
from t9ksched.store.tokens import ADMIN

_bearer = HTTPBearer(auto_error=False, description="An API token, as `t9ksched token create` prints it.")
_MAX_TOKEN = 512


@dataclass(frozen=True)
class Caller:
    """The user a request speaks for; `token` is the name of his token, for the record."""

    user: str
    role: str
    token: str

    @property
    def is_admin(self) -> bool:
        """Whether he may do everything."""
        return self.role == ADMIN


async def authenticate(
    services: Given, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> Caller:
    """Whose token came with the request.

    Raises:
        Problem: none, or none that is known.
    """
    if credentials is None:
        raise _unauthenticated("this address needs a token", "")
    secret = credentials.credentials
    record = await services.store.tokens.authenticate(secret) if 0 < len(secret) <= _MAX_TOKEN else None
    if record is None:
        raise _unauthenticated("the token is unknown or was revoked", ', error="invalid_token"')
    return Caller(record.owner, record.role, record.name)


async def administrator(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
    """A caller who may change queues and tokens.

    Raises:
        Problem: he may not.
    """
    if not caller.is_admin:
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} is no administrator",
            remedy="ask an administrator, or use an administrator's token",
        )
    return caller


def _unauthenticated(detail: str, hint: str) -> Problem:
    return Problem(
        "Unauthenticated",
        detail,
        headers={"WWW-Authenticate": f'Bearer realm="t9ksched"{hint}'},
        remedy="send `Authorization: Bearer TOKEN`; an administrator makes tokens with `t9ksched token create`",
    )


User = Annotated[Caller, Depends(authenticate)]
Admin = Annotated[Caller, Depends(administrator)]
