"""One database, SQLite or PostgreSQL, behind two doors: `read()` and `write()`.

Each door is one short transaction. On SQLite a write takes the lock at once (`BEGIN IMMEDIATE`), so that two writers
queue up instead of failing half-way, and readers go on beside it (WAL). Every database error leaves as a `StoreError`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from sqlalchemy import event, text
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from t9ksched.store import urls
from t9ksched.store.errors import translate

_BUSY_TIMEOUT_MS = 5000


def _dump_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def engine_options(url: URL) -> dict[str, Any]:
    """Options common to the asynchronous engine and the migrations' synchronous one."""
    options: dict[str, Any] = {"json_serializer": _dump_json, "json_deserializer": msgspec.json.decode}
    if urls.is_sqlite(url):
        options["connect_args"] = {"timeout": _BUSY_TIMEOUT_MS / 1000}
    else:
        options |= {"pool_pre_ping": True, "connect_args": {"connect_timeout": 5, "application_name": "t9ksched"}}
    return options


def prepare_sqlite(engine: Any) -> None:
    """Take transactions out of the driver's hands: it would begin them late and without the write lock."""

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={_BUSY_TIMEOUT_MS}"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("t9k_begin", "BEGIN"))


class Database:
    """Connections to one database; `await close()` when done."""

    def __init__(self, address: str) -> None:
        self.url = urls.parse(address)
        self.is_sqlite = urls.is_sqlite(self.url)
        pool = {} if self.is_sqlite else {"pool_size": 10, "max_overflow": 10, "pool_timeout": 5}
        self._engine: AsyncEngine = create_async_engine(urls.for_async(self.url), **engine_options(self.url), **pool)
        if self.is_sqlite:
            prepare_sqlite(self._engine.sync_engine)
        self._writer = self._engine.execution_options(t9k_begin="BEGIN IMMEDIATE")
        self._one_writer = asyncio.Lock()
        self._after_write: list[Callable[[], None]] = []

    @property
    def shown_url(self) -> str:
        """The address without its password."""
        return urls.shown(self.url)

    def after_write(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each commit of this process."""
        self._after_write.append(listener)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads.

        Raises:
            StoreError: as any door of this class, in words an operator can act on.
        """
        try:
            async with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise translate(error, self.shown_url) from error

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at the end, or undone whole by an exception."""
        try:
            if self.is_sqlite:
                # Writers of this process wait here, in order, rather than in SQLite's busy loop.
                async with self._one_writer, self._writer.begin() as connection:
                    yield connection
            else:
                async with self._writer.begin() as connection:
                    yield connection
        except SQLAlchemyError as error:
            raise translate(error, self.shown_url) from error
        for listener in self._after_write:
            listener()

    async def ping(self) -> None:
        """Ask the database for a sign of life.

        Raises:
            StoreError: there is none.
        """
        async with self.read() as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()
