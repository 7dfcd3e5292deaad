"""Authentication: bearer tokens, and what their roles may do. Every endpoint needs a token unless it says otherwise.

An administrator may do everything. A manager manages the queues that the token names: their members, their state, their
jobs. A user submits jobs and sees the user's own. A viewer sees what a user sees and changes nothing. Every endpoint
names one of the rules at the end of this file.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from t9ksched.admission.identity import ADMINISTRATOR, MANAGER, Identity, Rights
from t9ksched.api.http.middleware import TOLD
from t9ksched.api.http.parameters import known_parameters
from t9ksched.api.http.problems import Problem
from t9ksched.api.services import Given
from t9ksched.store import tokens
from t9ksched.store.job_overrides import Stop
from t9ksched.store.read_cache import Decided

bearer = HTTPBearer(auto_error=False, description="An API token, as `t9ksched token create` prints it.")
_MAX_TOKEN = 512


@dataclass(frozen=True)
class Caller:
    """The user on whose behalf a request is made; `token` is the name of the user's token, for the record.

    `queues` are those a manager manages; for users and viewers the only ones the token is valid for, all if empty.
    `expires_at` is when the token's time is over, None for never. `decided` is what stood when the request came:
    tokens, queues, stops and decisions about jobs.
    """

    user: str
    role: str
    token: str
    decided: Decided = field(repr=False, compare=False)
    groups: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    expires_at: datetime | None = None
    digest: str = field(default="", repr=False, compare=False)
    """SHA-256 of the token, by which it is found again."""

    @property
    def is_admin(self) -> bool:
        """Whether the caller may do everything."""
        return self.role == tokens.ADMIN

    def rules(self, queue: str | None) -> bool:
        """Whether the caller manages the queue, its members and its jobs."""
        return self.is_admin or (self.role == tokens.MANAGER and queue in self.queues)

    @property
    def ruled(self) -> frozenset[str]:
        """The queues that the caller manages."""
        return self.queues if self.role == tokens.MANAGER else frozenset()

    @property
    def limits(self) -> frozenset[str]:
        """The only queues that the token is valid for; all if empty."""
        return self.queues if self.role in (tokens.USER, tokens.VIEWER) else frozenset()

    @property
    def stops(self) -> list[Stop]:
        """The stops in force."""
        return self.decided.stops_at(datetime.now(UTC))

    def groups_of(self, user: str) -> frozenset[str]:
        """The groups of any user, as the user's tokens name them."""
        return self.decided.groups_of(user, datetime.now(UTC))

    @cached_property
    def identity(self) -> Identity:
        """Who that is, without any rights."""
        return Identity(self.user, self.groups)

    def rights(self, queue: str) -> Rights:
        """What the token permits in the queue by itself."""
        role = ADMINISTRATOR if self.is_admin else MANAGER if self.rules(queue) else ""
        return Rights(role, self.limits, self.token)


async def authenticate(
    request: Request, services: Given, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
) -> Caller:
    """The caller whose token came with the request.

    Raises:
        Problem: none, or none that is known; or its owner asks too often.
    """
    if credentials is None:
        raise unauthenticated("this address needs a token", "")
    secret = credentials.credentials
    caller = None
    if 0 < len(secret) <= _MAX_TOKEN and secret.isascii():
        decided, digest = await services.store.read_cache.now(), tokens.digest(secret)
        if await services.store.tokens.used(decided.tokens.get(digest)) is not None:
            caller = caller_of_token(decided, digest, datetime.now(UTC))
    if caller is None:
        raise unauthenticated("the token is unknown or was revoked, or its time is over", ', error="invalid_token"')
    told = services.allowances.request(caller.user)
    request.scope[TOLD] += [(name.lower().encode(), value.encode()) for name, value in told.items()]
    return caller


def caller_of_token(decided: Decided, digest: str, now: datetime) -> Caller | None:
    """The caller with the token of that SHA-256; None if there is none that counts now."""
    record = decided.tokens.get(digest)
    if record is None or record.expired(now):
        return None
    groups, queues = frozenset(record.groups), frozenset(record.queues)
    return Caller(record.owner, record.role, record.name, decided, groups, queues, record.expires_at, digest)


async def administrator(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
    """A caller who may change queues and tokens.

    Raises:
        Problem: the caller may not.
    """
    if not caller.is_admin:
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} is no administrator",
            remedy="ask an administrator, or use an administrator's token",
        )
    return caller


async def manager(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
    """A caller who manages at least one queue; the endpoint shows only the queues that the caller manages.

    Raises:
        Problem: the caller manages none.
    """
    if not caller.is_admin and not caller.ruled:
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} manages no queue",
            remedy="ask an administrator, or use a manager's token",
        )
    return caller


async def ruler(name: str, caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
    """A caller who manages the queue that the address names.

    Raises:
        Problem: the caller does not.
    """
    if not caller.rules(name):
        raise Problem(
            "Forbidden",
            f"the user {caller.user!r} does not manage the queue {name!r}",
            remedy="ask an administrator or a manager of this queue",
        )
    return caller


async def actor(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
    """A caller who may change things: everyone but a viewer.

    Raises:
        Problem: the caller's token is a viewer's.
    """
    if caller.role == tokens.VIEWER:
        raise Problem(
            "Forbidden",
            f"the token {caller.token!r} is a viewer's: it changes nothing",
            remedy="use a token with the role user",
        )
    return caller


def guarded(prefix: str, tag: str) -> APIRouter:
    """A router of which every route needs a token, and none takes parameters that it does not know; what else it needs,
    each endpoint says.
    """
    return APIRouter(prefix=prefix, tags=[tag], dependencies=[Depends(authenticate), Depends(known_parameters)])


def unauthenticated(detail: str, hint: str) -> Problem:
    """That no token came, or none that counts; `hint` goes on in the header that says so."""
    return Problem(
        "Unauthenticated",
        detail,
        headers={"WWW-Authenticate": f'Bearer realm="t9ksched"{hint}'},
        remedy="send `Authorization: Bearer TOKEN`; an administrator makes tokens with `t9ksched token create`",
    )


User = Annotated[Caller, Depends(authenticate)]
"""Every caller with a token; the endpoint shows what the caller may see."""
Actor = Annotated[Caller, Depends(actor)]
"""Every caller but a viewer."""
Manager = Annotated[Caller, Depends(manager)]
"""A manager of some queue, or an administrator."""
Ruler = Annotated[Caller, Depends(ruler)]
"""A manager of the queue `{name}`, or an administrator."""
Admin = Annotated[Caller, Depends(administrator)]
