"""API tokens. Only their SHA-256 is stored: a token is 256 random bits, so no salt or slow hash is needed."""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import delete, select, update
from sqlalchemy.engine import RowMapping

from t9ksched.store import changes, history
from t9ksched.store.database import Database
from t9ksched.store.errors import RowExists, RowMissing, StoreError
from t9ksched.store.history import Event
from t9ksched.store.rows import insert_new
from t9ksched.store.tables import api_token

PREFIX = "t9k_"
"""Makes a token that leaked into a file easy to find."""
ADMIN = "admin"
MANAGER = "manager"
USER = "user"
VIEWER = "viewer"
ROLES = (ADMIN, MANAGER, USER, VIEWER)
"""An administrator may do everything, a manager rules some queues, a user submits, a viewer only looks."""
_USE_GRAIN = timedelta(minutes=1)
_COLUMNS = tuple(column for column in api_token.c if column.name != "sha256")


class TokenRecord(msgspec.Struct, frozen=True):
    """A token without its secret.

    `owner` is the token's user, `groups` are that user's groups. `queues` are those a manager rules; on
    tokens of users and viewers the only ones they may use, all if empty. `last_used_at` is right to the minute.
    """

    name: str
    owner: str
    role: str
    groups: list[str]
    queues: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None

    def expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and now >= self.expires_at


def digest(plaintext: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(plaintext.encode()).hexdigest()


class Tokens:
    """The repository of API tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[tuple[str, datetime], datetime] = {}

    async def create(
        self,
        name: str,
        role: str = USER,
        owner: str | None = None,
        *,
        groups: Sequence[str] = (),
        queues: Sequence[str] = (),
        expires_at: datetime | None = None,
        by: str | None = None,
    ) -> str:
        """Create a token for `owner` (else a user of the token's name). Returns its plaintext, which is not stored.

        Raises:
            RowExists: a token of that name exists.
        """
        plaintext = PREFIX + secrets.token_urlsafe(32)
        scope = {"groups": list(groups), "queues": list(queues), "expires_at": expires_at}
        if not await self._insert(name, owner or name, role, plaintext, scope, by):
            raise RowExists(f"a token named {name!r} exists already: choose another name, or revoke that one first")
        return plaintext

    async def ensure_admin(self, plaintext: str | None = None) -> str | None:
        """See that an administrator's token exists; the plaintext if it was made now, else None.

        `plaintext` sets the secret, for installations that bring their own. Of two processes that start together
        one makes the token.
        """
        async with self._database.read() as connection:
            lasting = (api_token.c.role == ADMIN) & api_token.c.expires_at.is_(None)
            query = select(api_token.c.name).where(lasting).limit(1)
            if (await connection.execute(query)).first() is not None:
                return None
        plaintext = plaintext or PREFIX + secrets.token_urlsafe(32)
        return plaintext if await self._insert(ADMIN, ADMIN, ADMIN, plaintext, {}, None) else None

    async def authenticate(self, plaintext: str) -> TokenRecord | None:
        """The record of a token; None for an unknown, revoked or expired one. Notes the use, at most once a minute."""
        async with self._database.read() as connection:
            query = select(*_COLUMNS).where(api_token.c.sha256 == digest(plaintext))
            row = (await connection.execute(query)).mappings().one_or_none()
        return await self.used(None if row is None else _record(row))

    async def used(self, record: TokenRecord | None) -> TokenRecord | None:
        """The token of a request, None if it has expired. Notes the use, at most once a minute."""
        now = datetime.now(UTC)
        if record is None or record.expired(now):
            return None
        key = (record.name, record.created_at)
        last = self._noted.get(key) or record.last_used_at
        if last is None or now - last > _USE_GRAIN:
            self._noted[key] = now
            async with self._database.write() as connection:
                same = (api_token.c.name == record.name) & (api_token.c.created_at == record.created_at)
                await connection.execute(update(api_token).where(same).values(last_used_at=now))
        return record

    async def list(self) -> list[TokenRecord]:
        """All tokens, by name, without their secrets."""
        async with self._database.read() as connection:
            found = await connection.execute(select(*_COLUMNS).order_by(api_token.c.name))
            return [_record(row) for row in found.mappings()]

    async def by_digest(self, names: Iterable[str] | None = None) -> dict[str, TokenRecord]:
        """Tokens by their SHA-256: all, or those of these names."""
        query = select(api_token.c.sha256, *_COLUMNS)
        if names is not None:
            query = query.where(api_token.c.name.in_(sorted(names)))
        async with self._database.read() as connection:
            return {sha256: TokenRecord(*row) for sha256, *row in (await connection.execute(query)).all()}

    async def groups_until(self, now: datetime) -> tuple[dict[str, frozenset[str]], datetime | None]:
        """The groups of every user that has any, as tokens that still count say, and until when that holds.

        It ends when a token with groups does; None: when a token changes, which the change log records.
        """
        ends: list[datetime] = []
        found: dict[str, frozenset[str]] = {}
        query = select(api_token.c.owner, api_token.c.groups, api_token.c.expires_at)
        for owner, groups, end in await self._database.fetch(query):
            if groups and (end is None or now < end):
                found[owner] = found.get(owner, frozenset()) | frozenset(groups)
                ends += [end] if end is not None else []
        return found, min(ends, default=None)

    async def revoke(self, name: str, *, by: str | None = None) -> None:
        """Make a token worthless from the next request on.

        Raises:
            RowMissing: no token of that name.
            StoreError: it is the last administrator's token, and without it no administrator could sign in.
        """
        async with self._database.write() as connection:
            await changes.append(connection, "api_token", name)
            found = (await connection.execute(select(*_COLUMNS).with_for_update())).mappings()
            tokens = {row["name"]: _record(row) for row in found}
            if name not in tokens:
                raise RowMissing(f"there is no token {name!r}")
            # One that will end does not count as a way in.
            lasting = {one.name for one in tokens.values() if one.role == ADMIN and one.expires_at is None}
            if lasting == {name}:
                raise LastAdmin(f"{name!r} is the last administrator's token: create another one before revoking it")
            await connection.execute(delete(api_token).where(api_token.c.name == name))
            if by is not None:
                detail = {"name": name, "before": _told(tokens[name])}
                await history.record(connection, Event(event=history.TOKEN_REVOKED, actor=by, name=name, detail=detail))

    async def _insert(
        self, name: str, owner: str, role: str, plaintext: str, scope: dict[str, Any], by: str | None
    ) -> bool:
        row: dict[str, Any] = {"name": name, "owner": owner, "role": role, "groups": [], "queues": []} | scope
        row |= {"created_at": datetime.now(UTC)}
        async with self._database.write() as connection:
            await changes.append(connection, "api_token", name)
            if not await insert_new(connection, api_token, row | {"sha256": digest(plaintext)}):
                await connection.rollback()
                return False
            if by is not None:
                made = TokenRecord(**{"expires_at": None, "last_used_at": None} | row)
                detail = {"name": name, "after": _told(made)}
                await history.record(connection, Event(event=history.TOKEN_CREATED, actor=by, name=name, detail=detail))
            return True


class LastAdmin(StoreError):
    """Revoking this token would leave no administrator who could create another."""


def _told(token: TokenRecord) -> dict[str, Any]:
    """A token for the record of its making and end."""
    told: dict[str, Any] = {"user": token.owner, "role": token.role, "groups": token.groups, "queues": token.queues}
    return told | {"expiresAt": token.expires_at.isoformat() if token.expires_at else None}


def _record(row: RowMapping) -> TokenRecord:
    return TokenRecord(**row)
