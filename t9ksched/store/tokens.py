"""API tokens. Only their SHA-256 is stored: a token is 256 random bits, so no salt or slow hash is needed."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.engine import RowMapping

from t9ksched.store.database import Database
from t9ksched.store.errors import RowExists, RowMissing, StoreError
from t9ksched.store.rows import insert_new
from t9ksched.store.tables import api_token

PREFIX = "t9k_"
"""Makes a token that leaked into a file easy to find."""
ADMIN = "admin"
USER = "user"
ROLES = (ADMIN, USER)
_USE_GRAIN = timedelta(minutes=1)
_COLUMNS = (api_token.c.name, api_token.c.owner, api_token.c.role, api_token.c.created_at, api_token.c.last_used_at)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token without its secret. `owner` is the user it speaks for; `last_used_at` is right to the minute."""

    name: str
    owner: str
    role: str
    created_at: datetime
    last_used_at: datetime | None


def digest(plaintext: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(plaintext.encode()).hexdigest()


class Tokens:
    """The repository of API tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, role: str = USER, owner: str | None = None) -> str:
        """A new token for `owner` (else a user of the token's name); its plaintext, which nobody can ask for again.

        Raises:
            RowExists: a token of that name exists.
        """
        plaintext = PREFIX + secrets.token_urlsafe(32)
        if not await self._insert(name, owner or name, role, plaintext):
            raise RowExists(f"a token named {name!r} exists already: choose another name, or revoke that one first")
        return plaintext

    async def ensure_admin(self, plaintext: str | None = None) -> str | None:
        """See that an administrator's token exists; the plaintext if it was made now, else None.

        `plaintext` sets the secret, for installations that bring their own. Of two processes that start together
        one makes the token.
        """
        async with self._database.read() as connection:
            query = select(api_token.c.name).where(api_token.c.role == ADMIN).limit(1)
            if (await connection.execute(query)).first() is not None:
                return None
        plaintext = plaintext or PREFIX + secrets.token_urlsafe(32)
        return plaintext if await self._insert(ADMIN, ADMIN, ADMIN, plaintext) else None

    async def authenticate(self, plaintext: str) -> TokenRecord | None:
        """Whose token this is; None for an unknown or revoked one. Notes the use, at most once a minute."""
        async with self._database.read() as connection:
            query = select(*_COLUMNS).where(api_token.c.sha256 == digest(plaintext))
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            return None
        record = _record(row)
        now = datetime.now(UTC)
        if record.last_used_at is None or now - record.last_used_at > _USE_GRAIN:
            async with self._database.write() as connection:
                used = update(api_token).where(api_token.c.name == record.name).values(last_used_at=now)
                await connection.execute(used)
        return record

    async def list(self) -> list[TokenRecord]:
        """All tokens, by name, without their secrets."""
        async with self._database.read() as connection:
            found = await connection.execute(select(*_COLUMNS).order_by(api_token.c.name))
            return [_record(row) for row in found.mappings()]

    async def revoke(self, name: str) -> None:
        """Make a token worthless from the next request on.

        Raises:
            RowMissing: no token of that name.
            StoreError: it is the last administrator's token, and revoking it would lock everybody out.
        """
        async with self._database.write() as connection:
            roles = {
                row.name: row.role for row in (await connection.execute(select(*_COLUMNS).with_for_update())).all()
            }
            if name not in roles:
                raise RowMissing(f"there is no token {name!r}")
            if roles[name] == ADMIN and list(roles.values()).count(ADMIN) == 1:
                raise LastAdmin(f"{name!r} is the last administrator's token: create another one before revoking it")
            await connection.execute(delete(api_token).where(api_token.c.name == name))

    async def _insert(self, name: str, owner: str, role: str, plaintext: str) -> bool:
        row: dict[str, object] = {"name": name, "owner": owner, "sha256": digest(plaintext), "role": role}
        row["created_at"] = datetime.now(UTC)
        async with self._database.write() as connection:
            return await insert_new(connection, api_token, row)


class LastAdmin(StoreError):
    """Revoking this token would leave nobody who could make another."""


def _record(row: RowMapping) -> TokenRecord:
    return TokenRecord(**row)
