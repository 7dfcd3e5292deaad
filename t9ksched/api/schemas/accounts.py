"""Tokens, and the caller."""

from typing import Literal

from pydantic import Field

from t9ksched.api.schemas.base import Body, Continue, Shape

Role = Literal["admin", "manager", "user", "viewer"]


class TokenBody(Body):
    """A token to be made: its name, its user (default: the name) with the user's groups, and what it may do. `queues`
    are those a manager manages; for users and viewers the only ones it is valid for. `duration`, such as `30d`, is how
    long it lasts, `never` until it is revoked; absent: 90 days.
    """

    name: str
    user: str | None = None
    role: Role = "user"
    groups: list[str] = []
    queues: list[str] = []
    duration: str | None = None


class Token(Shape):
    """A token without its secret. `queues` are those a manager manages, or the only ones it is valid for."""

    name: str
    user: str
    role: Role
    groups: list[str]
    queues: list[str]
    createdAt: str
    expiresAt: str | None
    lastUsedAt: str | None


class NewToken(Token):
    """A token with its secret, shown this once."""

    token: str


class Tokens(Shape):
    """Several tokens."""

    items: list[Token]
    continue_: Continue


class WhoAmI(Shape):
    """A token's user, and what the token is valid for. `queues` are those a manager manages; of users and viewers the
    only ones the token is valid for, all if empty. `expiresAt` is null for a token that lasts until it is revoked.
    """

    user: str
    role: Role
    groups: list[str]
    queues: list[str]
    token: str
    expiresAt: str | None
    exec: bool = Field(description="whether this service runs commands in pods")
