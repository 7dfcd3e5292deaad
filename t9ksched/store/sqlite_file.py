"""Connections to an SQLite file: how each is set up and closed, and one for whole transactions at once."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.engine import Connection

from t9ksched.store.bulk import Prepared

BUSY_TIMEOUT_MS = 5000
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")


def prepare_sqlite(engine: Any) -> None:
    """Take transactions out of the driver's hands: it would begin them late and without the write lock."""

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (*PRAGMAS, f"busy_timeout={BUSY_TIMEOUT_MS}"):
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
