"""What people decided, in memory: queues, tokens, overrides of jobs, stops. Never older than the question.

Every change of these tables stands in the change log, whichever process made it. So one small read of the log at each
question says whether memory is current; mostly nothing changed. Rows that changed are read again. Questions that arrive
during a read share the next one.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from t9ksched.store import urls
from t9ksched.store.database import Database
from t9ksched.store.errors import DatabaseUnreachable, StoreError, translate
from t9ksched.store.job_overrides import Controls, JobControl, Stop, Stops
from t9ksched.store.postgresql import psycopg
from t9ksched.store.queues import QueueRecord, Queues
from t9ksched.store.tokens import TokenRecord, Tokens

_NEWS = (
    "SELECT c.value, l.revision, l.table_name, l.key FROM revision_counter c LEFT JOIN change_log l"
    " ON l.revision > {} ORDER BY l.revision LIMIT {}"
)
_MOST = 1000
"""Changes that are taken one by one; behind more of them everything is read."""
_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Decided:
    """Everything as of one revision. Mappings that did not change are the same objects as before."""

    revision: int
    queues: Mapping[str, QueueRecord] = field(default_factory=dict)
    """By and in the order of names."""
    tokens: Mapping[str, TokenRecord] = field(default_factory=dict)
    """By SHA-256."""
    controls: Mapping[str, JobControl] = field(default_factory=dict)
    """By the job's UID."""
    stops: Sequence[Stop] = ()
    """Expired ones included."""

    def stops_at(self, now: datetime) -> list[Stop]:
        """The stops in force, those of the whole scheduling first."""
        return [stop for stop in self.stops if stop.holds(now)]

    def groups_of(self, user: str, now: datetime) -> frozenset[str]:
        """The groups of a user, by the user's tokens that are still valid."""
        groups = (token.groups for token in self._by_owner.get(user, ()) if not token.expired(now))
        return frozenset(group for some in groups for group in some)

    @cached_property
    def _by_owner(self) -> dict[str, list[TokenRecord]]:
        found: dict[str, list[TokenRecord]] = {}
        for token in self.tokens.values():
            found.setdefault(token.owner, []).append(token)
        return found


class _News(NamedTuple):
    """What the log says: its newest revision, and the changes behind the one asked about as (revision, table, key)."""

    head: int
    changes: list[tuple[int, str, str]]


class ReadCache:
    """The tables in memory; `await close()` when done."""

    def __init__(self, database: Database, queues: Queues, tokens: Tokens, controls: Controls, stops: Stops) -> None:
        self._queues, self._tokens, self._controls, self._stops = queues, tokens, controls, stops
        self._log = _SqliteLog(database) if database.is_sqlite else _PostgresLog(database)
        self._known: Decided | None = None
        self._one_reader = asyncio.Lock()
        self._asked = self._answered = 0
        self._failed: StoreError | None = None

    async def now(self) -> Decided:
        """Everything that was committed before this call, perhaps more.

        Raises:
            StoreError: the database is away; what was known before may no longer hold, so it is not told.
        """
        self._asked += 1
        mine = self._asked
        async with self._one_reader:
            if self._answered < mine:
                # A read that begins now answers all questions asked until here.
                upto, self._failed = self._asked, None
                try:
                    self._known = await self._read()
                except StoreError as error:
                    self._known, self._failed = None, error
                self._answered = upto
            if self._known is None:
                raise self._failed or DatabaseUnreachable("the database could not be read")
            return self._known

    def owner(self, digest: str) -> str | None:
        """The owner of the token when it was last read; a hint for fairness, never a permission."""
        record = self._known.tokens.get(digest) if self._known is not None else None
        return None if record is None else record.owner

    async def close(self) -> None:
        """Close the connection."""
        await self._log.close()

    async def _read(self) -> Decided:
        known = self._known
        news = await self._log.since(known.revision if known else 0)
        if known is None or not _follows(news, known.revision):
            return await self._everything(news.head)
        return await self._with(known, news) if news.changes else known

    async def _everything(self, head: int) -> Decided:
        # Read after the head: what is newer than it will be read once more, and nothing is missed.
        queues = {record.name: record for record in await self._queues.list()}
        controls = {control.uid: control for control in await self._controls.all()}
        return Decided(head, queues, await self._tokens.by_digest(), controls, await self._stops.all())

    async def _with(self, known: Decided, news: _News) -> Decided:
        keys: dict[str, set[str]] = {}
        for _, table, key in news.changes:
            keys.setdefault(table, set()).add(key)
        changed: dict[str, Any] = {"revision": news.head}
        if names := keys.get("queue"):
            queues = _without(known.queues, names) | await self._queues.of(sorted(names))
            changed["queues"] = dict(sorted(queues.items()))
        if names := keys.get("api_token"):
            gone = [sha256 for sha256, token in known.tokens.items() if token.name in names]
            changed["tokens"] = _without(known.tokens, gone) | await self._tokens.by_digest(names)
        if uids := keys.get("job_control"):
            changed["controls"] = _without(known.controls, uids) | await self._controls.of(sorted(uids))
        if "stop" in keys:
            changed["stops"] = await self._stops.all()
        return replace(known, **changed)


def _follows(news: _News, revision: int) -> bool:
    """Whether the changes told are all there were since; not if some were purged, or another database was put there."""
    last = revision + len(news.changes)
    return news.head == last and (not news.changes or news.changes[-1][0] == last)


def _without(known: Mapping[str, Any], gone: Iterable[str]) -> dict[str, Any]:
    left = dict(known)
    for key in gone:
        left.pop(key, None)
    return left


def _news(rows: Sequence[Sequence[Any]]) -> _News:
    return _News(rows[0][0] if rows else 0, [(row[1], row[2], row[3]) for row in rows if row[1] is not None])


class _SqliteLog:
    """Reads the log of an SQLite file at once, without another thread: a page or two from memory, ten microseconds.

    Readers do not wait there (WAL); if one had to, it gets an error instead.
    """

    def __init__(self, database: Database) -> None:
        self._path, self._shown = Path(str(database.url.database)).expanduser(), database.shown_url
        self._connection: sqlite3.Connection | None = None
        self._text = _NEWS.format("?", _MOST + 1)

    async def since(self, revision: int) -> _News:
        """What the log says after that revision."""
        try:
            if self._connection is None:
                address = f"{self._path.resolve().as_uri()}?mode=ro"
                self._connection = sqlite3.connect(
                    address, uri=True, timeout=0, isolation_level=None, check_same_thread=False
                )
            return _news(self._connection.execute(self._text, (revision,)).fetchall())
        except sqlite3.Error as error:
            await self.close()
            raise translate(error, self._shown) from error

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _PostgresLog:
    """Reads the log by a connection of its own: one prepared statement, one round trip, no transaction around it."""

    def __init__(self, database: Database) -> None:
        self._address, self._shown = database.url.render_as_string(hide_password=False), database.shown_url
        self._session = urls.session(database.url, database.timing)
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._text = _NEWS.format("%s", _MOST + 1).encode()

    async def since(self, revision: int) -> _News:
        """What the log says after that revision."""
        if self._connection is not None:
            # An earlier connection may have been lost meanwhile: that is no reason to refuse a request.
            with contextlib.suppress(psycopg.Error, OSError, TimeoutError):
                return await self._ask(self._connection, revision)
            await self.close()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                self._connection = await psycopg.AsyncConnection.connect(
                    self._address, autocommit=True, prepare_threshold=0, **self._session
                )
            return await self._ask(self._connection, revision)
        except (psycopg.Error, OSError) as error:
            await self.close()
            raise translate(error, self._shown) from error
        except TimeoutError as error:
            await self.close()
            raise DatabaseUnreachable(f"the database {self._shown} does not answer") from error

    async def _ask(self, connection: "psycopg.AsyncConnection[Any]", revision: int) -> _News:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return _news(await (await connection.execute(self._text, (revision,))).fetchall())

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error, OSError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await connection.close()
