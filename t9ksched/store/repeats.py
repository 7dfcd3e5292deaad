"""Requests that carry an `Idempotency-Key`, and their answers: a repeat is answered as the first request was.

An attempt begins by claiming the key for a short lease, which it renews. The answer is written in the transaction that
records what was created (`Submissions.put`), so both are there or neither. An attempt without an answer whose lease is
over was lost with its process: the next one takes the key over and finds what was created by the same `mark`.

Keys and requests are stored as SHA-256. Answers are kept for `RETENTION`, and of each user the newest
up to `MAX_STORED`.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import Integer, String, Text, bindparam, delete, func, select, true, tuple_, update

from t9ksched.store.bulk import Prepared, Speaker, Statement
from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH, insert_new
from t9ksched.store.tables import idempotency_key

RETENTION: Final = timedelta(hours=24)
"""How long an answer is given again, from when the key was first used."""
LEASE: Final = timedelta(seconds=30)
"""How long an attempt counts as in progress after it was last heard of."""
MAX_STORED: Final = 16 * 1024 * 1024
"""Characters of answers kept for one user, each with `_ROW` besides; the oldest go first."""
_ROW: Final = 512
"""About what a row takes besides its answer."""

_row = idempotency_key.c
_KEY = tuple_(_row.owner, _row.key)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The work on a request, as stored in the table.

    Attributes:
        owner: the user of the key.
        key, request: SHA-256, in hexadecimal digits, of the key and of what was asked.
        mark: what the objects created for this request carry; the same in each attempt.
        claim: this attempt.
        resumed: an earlier attempt was lost; some objects may be there.
    """

    owner: str
    key: str
    request: str
    mark: str
    claim: str
    resumed: bool = False


class Stored(msgspec.Struct, frozen=True):
    """The answer given to the first request."""

    status: int
    answer: str


class Busy(msgspec.Struct, frozen=True):
    """Another attempt works on the request; it counts as lost after `remaining`, unless it is heard of again."""

    remaining: timedelta


class OtherRequest(msgspec.Struct, frozen=True):
    """The key came with something else before."""


Found = Attempt | Stored | Busy | OtherRequest


class Repeats:
    """The repository of requests that users may repeat."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, owner: str, key: str, request: str, now: datetime) -> Found:
        """Claim a key for an attempt at a request, or say what is known of it already.

        Raises:
            StoreError: nothing is claimed, unless the connection was lost with the database's answer; then the claim
                ends with its lease.
        """
        new = Attempt(owner=owner, key=key, request=request, mark=uuid.uuid4().hex, claim=uuid.uuid4().hex)
        row = {name: getattr(new, name) for name in ("owner", "key", "request", "mark", "claim")}
        row |= {"until": now + LEASE, "at": now, "status": None, "answer": None}
        same = (_row.owner == owner) & (_row.key == key)
        async with self._database.write() as connection:
            while not await insert_new(connection, idempotency_key, row):
                there = (await connection.execute(select(idempotency_key).where(same).with_for_update())).first()
                if there is None:
                    continue  # given up just now
                if there.at <= now - RETENTION:
                    await connection.execute(update(idempotency_key).where(same).values(row))
                    return new
                if there.request != request:
                    return OtherRequest()
                if there.status is not None:
                    return Stored(there.status, there.answer)
                if there.until > now:
                    return Busy(there.until - now)
                taken = {"claim": new.claim, "until": now + LEASE}
                await connection.execute(update(idempotency_key).where(same).values(taken))
                return msgspec.structs.replace(new, mark=there.mark, resumed=True)
        return new

    async def renew(self, attempt: Attempt, until: datetime) -> None:
        """Say until when the attempt is at work; nothing happens if another one has taken the key over."""
        async with self._database.write() as connection:
            await connection.execute(update(idempotency_key).where(_mine(attempt)).values(until=until))

    async def give_up(self, attempt: Attempt) -> None:
        """Free the key: nothing was created, and a repeat is a new request."""
        async with self._database.write() as connection:
            await connection.execute(delete(idempotency_key).where(_mine(attempt)))

    def answering(self, attempt: Attempt, status: int, answer: str) -> Prepared:
        """The statement that stores an answer, for the transaction that records what it tells."""
        parameters = {"of": attempt.owner, "with": attempt.key, "by": attempt.claim, "code": status, "text": answer}
        return _ANSWER.prepared(self._database, [parameters])

    def answering_lost(self, owner: str, key: str, status: int, answer: str) -> Prepared:
        """The same for a request whose attempts were lost: another replica finished it."""
        return _ANSWER_LOST.prepared(self._database, [{"of": owner, "with": key, "code": status, "text": answer}])

    async def purge(self, now: datetime) -> int:
        """Drop keys past `RETENTION`, and of each user the oldest answers beyond `MAX_STORED`; how many.

        Works in small transactions.
        """
        size = func.coalesce(func.length(_row.answer), 0) + _ROW
        newest_first = (_row.at.desc(), _row.key)
        sums = func.sum(size).over(partition_by=_row.owner, order_by=newest_first).label("stored")
        stored = select(_row.owner, _row.key, sums).where(_row.status.is_not(None)).subquery()
        too_old = select(_row.owner, _row.key).where(_row.at <= now - RETENTION)
        too_many = select(stored.c.owner, stored.c.key).where(stored.c.stored > MAX_STORED)
        return await self._drop(too_old) + await self._drop(too_many)

    async def _drop(self, which: Any) -> int:
        dropped = 0
        while True:
            async with self._database.write() as connection:
                statement = delete(idempotency_key).where(_KEY.in_(which.limit(BATCH)))
                count = int((await connection.execute(statement)).rowcount)
            dropped += count
            if count < BATCH:
                return dropped


def _mine(attempt: Attempt) -> Any:
    return (_row.owner == attempt.owner) & (_row.key == attempt.key) & (_row.claim == attempt.claim)


def _answer(_: Speaker) -> Any:
    return _answering(_row.claim == bindparam("by"))


def _answer_lost(_: Speaker) -> Any:
    return _answering(true())


def _answering(claimed: Any) -> Any:
    open_ = (_row.owner == bindparam("of")) & (_row.key == bindparam("with")) & _row.status.is_(None)
    values: dict[str, Any] = {"status": bindparam("code"), "answer": bindparam("text")}
    return update(idempotency_key).where(open_ & claimed).values(values)


_ANSWER = Statement(
    {"of": String(), "with": String(), "by": String(), "code": Integer(), "text": Text()},
    _answer,
)
_ANSWER_LOST = Statement({"of": String(), "with": String(), "code": Integer(), "text": Text()}, _answer_lost)
