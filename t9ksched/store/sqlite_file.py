"""Connections to an SQLite file: how each is set up and closed, and one for whole transactions at once."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import aiosqlite
from sqlalchemy import event
from sqlalchemy.engine import Connection

from t9ksched.store.bulk import Prepared

BUSY_TIMEOUT_MS = 5000
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "wal_autocheckpoint=4000")
"""The pages that new rows change are spread over the whole file, because UIDs are random: those of several transactions
are brought into it at once, 16 MiB of them.
"""
WRITING = ("cache_size=-16384", "temp_store=MEMORY")
"""A connection for large transactions keeps 16 MiB of pages: with the usual 2 MiB it would write out what it changes,
and read it again, within one transaction. To be able to undo a statement of many rows, SQLite sets aside each page that
it changes: in memory, not in a file, which it would write for each statement."""
# The driver binds None as it is, but first asks every None of a row in vain how to adapt it, which takes longer than to
# bind all else of the row. Adapters are those of the whole process.
sqlite3.register_adapter(type(None), {None: None}.get)


def prepare_sqlite(engine: Any, *more: str) -> None:
    """Take transactions out of the driver's hands: it would begin them late and without the write lock. `more` are
    pragmas beside the usual ones.
    """

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (*PRAGMAS, f"busy_timeout={BUSY_TIMEOUT_MS}", *more):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("t9k_begin", "BEGIN"))


class Closing(sqlite3.Connection):
    """Lets go of the file when it is closed, transaction and all.

    SQLite keeps the file open until the last statement is read to its end. A task that is cancelled between a query and
    its rows leaves a statement in a traceback, perhaps for minutes, until the garbage collector runs.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def cursor(self, *args: Any, **options: Any) -> Any:
        """A cursor that is closed with the connection."""
        cursor = super().cursor(*args, **options)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        """Close it and its cursors; again does no harm."""
        for cursor in list(self._cursors):
            cursor.close()
        self._cursors.clear()
        super().close()


class _Driver(aiosqlite.Connection):
    """Is closed once, whichever tasks ask for it.

    A task that is cancelled while it gives back a connection, and then again, leaves SQLAlchemy's close of it under way
    and stops the thread: the driver's own close would wait for that thread's answer for ever, and a process with it.
    """

    ending: asyncio.Future[Any] | None = None
    """Done when the thread has let go of the file; None before the end was asked for, or without an event loop."""
    _asked = False

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(lambda: sqlite3.connect(path, **options), iter_chunk_size=64)
        self._thread.daemon = True
        self._path = path

    def __repr__(self) -> str:
        """For the driver's warning about one that was never closed."""
        return f"<connection to {self._path}>"

    def stop(self) -> asyncio.Future[Any] | None:
        """End after what the thread was given before; returns `ending`."""
        if not self._asked:
            self._asked = True
            self.ending = super().stop()
        return self.ending

    async def close(self) -> None:
        """Return when the connection is closed; again does no harm."""
        ending = self.stop()
        if ending is not None:
            await asyncio.shield(ending)


class Drivers:
    """The asynchronous driver's connections to one file."""

    def __init__(self) -> None:
        self._made: WeakSet[_Driver] = WeakSet()

    def connect(self, path: str, **options: Any) -> aiosqlite.Connection:
        """What `aiosqlite.connect` returns, for SQLAlchemy to await."""
        made = _Driver(path, **options)
        self._made.add(made)
        return made

    async def ended(self) -> None:
        """Wait for connections that tasks left behind as they were closed, but not for ever."""
        ending = [one.ending for one in self._made if one.ending is not None and not one.ending.done()]
        if ending:
            await asyncio.wait(ending, timeout=2 * BUSY_TIMEOUT_MS / 1000)


class Direct:
    """A connection to an SQLite file without anything in between, for use in one thread after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._one = threading.Lock()

    def run(self, steps: Sequence[Prepared]) -> None:
        """One transaction."""
        with self._one:
            connection = self._connection or self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                for text_, parameters in steps:
                    connection.executemany(text_, parameters)
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    def _connect(self) -> sqlite3.Connection:
        self._connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
        )
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        return self._connection

    def close(self) -> None:
        """Close it; it would be opened again. Before, what was written beside the file is brought into it: the last
        connection does that by itself, but a driver that was interrupted may have left one open. Does not wait for
        other connections.
        """
        with self._one:
            if self._connection is None and self.path.exists():
                with suppress(sqlite3.Error):
                    self._connect()
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                self._connection.close()
                self._connection = None
