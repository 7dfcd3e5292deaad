"""Tokens, and who calls."""

from typing import Literal

from pydantic import BaseModel

from api.schemas.base import Shape


class TokenBody(BaseModel):
    """A token to be made: its name, whom it speaks for (default: the name) with which groups, what it may do.

    `queues` are those a manager rules; for users and viewers the only ones it is good for. `duration`, such as `30d`,
    is how long it lasts, `never` until it is revoked; absent: 90 days.
    """

    name: str
    user: str | None = None
    role: Literal["admin", "manager", "user", "viewer"] = "user"
    groups: list[str] = []
    queues: list[str] = []
    duration: str | None = None


class Token(Shape):
    """A token without its secret. `queues` are those a manager rules, or the only ones it is good for."""

    name: str
    user: str
    role: str
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


class WhoAmI(Shape):
    """Whom a token speaks for, and what it is good for.

    `queues` are those a manager rules; of users and viewers the only ones the token is good for, all if empty.
    `expiresAt` is null for a token that lasts until it is revoked.
    """

    user: str
    role: Literal["admin", "manager", "user", "viewer"]
    groups: list[str]
    queues: list[str]
    token: str
    expiresAt: str | None
