"""The change log: what changed, in the order of commits, and a way to wait for more.

`append` takes the lock of one counter row, so a revision becomes visible only after every smaller one: a reader that
asks `since(r)` misses nothing. Notifications (LISTEN/NOTIFY on PostgreSQL, an event in the process on SQLite) only wake
readers early; readers rely on polling every `POLL_SECONDS`.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.store import urls
from t9ksched.store.database import Database
from t9ksched.store.postgresql import psycopg
from t9ksched.store.tables import change_log, revision_counter

POLL_SECONDS = 0.75
"""So that a change without a notification is seen within a second."""
AGAIN_SECONDS = 0.05
"""Seconds between two looks: a scheduler at work writes a hundred times a second, and is woken by each. What an
administrator said a moment ago must hold for the next job all the same."""
_CHANNEL = "t9ksched_changes"
NOTIFY = f"NOTIFY {_CHANNEL}"
"""Wakes the readers on PostgreSQL when the transaction that says it is committed."""

_APPEND = text(
    "WITH taken AS (UPDATE revision_counter SET value = value + :count RETURNING value),"
    " logged AS (INSERT INTO change_log (revision, table_name, key, at)"
    " SELECT taken.value - :count + named.place, :table, named.key, :at"
    " FROM taken, unnest(CAST(:keys AS text[])) WITH ORDINALITY AS named (key, place))"
    f" SELECT value, pg_notify('{_CHANNEL}', '') FROM taken"
)
"""All of `append` in one round trip."""


@dataclass(frozen=True, slots=True)
class Change:
    """Row `key` of `table` was created, changed or deleted; reading it tells which."""

    revision: int
    table: str
    key: str
    at: datetime


async def append(connection: AsyncConnection, table: str, *keys: str) -> int:
    """Record changes of rows within the caller's transaction; the last of their revisions.

    From here to the end of the transaction the writer holds the order's lock, for which all others wait: what can be
    done before, is; what follows should be one step (`Database.finish`).
    """
    at = datetime.now(UTC)
    if connection.dialect.name == "postgresql":
        values = {"count": len(keys), "table": table, "keys": list(keys), "at": at}
        return int((await connection.execute(_APPEND, values)).scalar_one())
    taken = (
        update(revision_counter).values(value=revision_counter.c.value + len(keys)).returning(revision_counter.c.value)
    )
    last = int((await connection.execute(taken)).scalar_one())
    first = last - len(keys) + 1
    rows = [{"revision": first + i, "table_name": table, "key": key, "at": at} for i, key in enumerate(keys)]
    await connection.execute(insert(change_log), rows)
    return last


class Changes:
    """The log's readers. `close()` ends the listener."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._woken = asyncio.Event()
        self._looked = float("-inf")
        """When `wait` last looked."""
        self._listener: asyncio.Task[None] | None = None
        database.after_change(self._wake)

    async def head(self) -> int:
        """The newest revision; 0 in an empty database."""
        return int((await self._database.fetch(select(func.max(revision_counter.c.value))))[0][0] or 0)

    async def since(self, revision: int, limit: int = 1000) -> list[Change]:
        """The changes after `revision`, oldest first."""
        query = select(change_log).where(change_log.c.revision > revision).order_by(change_log.c.revision).limit(limit)
        return [Change(*row) for row in await self._database.fetch(query)]

    async def touched(self, table: str, after: int) -> bool:
        """Whether a row of that table changed after that revision."""
        query = select(change_log.c.revision).where(change_log.c.revision > after, change_log.c.table_name == table)
        async with self._database.read() as connection:
            return (await connection.execute(query.limit(1))).first() is not None

    async def wait(self, revision: int, timeout: float | None = None) -> bool:
        """Return True once there is something after `revision`, False when `timeout` seconds passed without."""
        self._listen()
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        while True:
            if (rests := self._looked + AGAIN_SECONDS - clock()) > 0:
                await asyncio.sleep(rests)
            self._looked = clock()
            self._woken.clear()
            if await self.head() > revision:
                return True
            pause = POLL_SECONDS if end is None else min(POLL_SECONDS, end - clock())
            if pause <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):  # wait_for may swallow a cancellation on Python 3.11
                    await self._woken.wait()

    async def purge(self, before: datetime) -> int:
        """Forget changes older than `before`; how many. Readers that far behind must read everything again."""
        async with self._database.write() as connection:
            return int((await connection.execute(delete(change_log).where(change_log.c.at < before))).rowcount)

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None

    def _wake(self) -> None:
        self._woken.set()

    def _listen(self) -> None:
        if not self._database.is_sqlite and self._listener is None:
            self._listener = asyncio.create_task(self._notifications(), name="store-changes-listener")

    async def _notifications(self) -> None:
        """Wake on what other processes committed. A lost connection costs only promptness, never truth."""
        address = self._database.url.render_as_string(hide_password=False)
        session = urls.session(self._database.url, self._database.timing)
        while True:
            with contextlib.suppress(psycopg.Error, OSError):
                async with await psycopg.AsyncConnection.connect(address, autocommit=True, **session) as connection:
                    await connection.execute(f"LISTEN {_CHANNEL}")
                    self._wake()
                    async for _ in connection.notifies():
                        self._wake()
            await asyncio.sleep(POLL_SECONDS)
