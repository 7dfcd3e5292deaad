"""One database, SQLite or PostgreSQL, with two entry points: `read()` and `write()`.

A write is one short transaction. On SQLite it takes the lock at once (`BEGIN IMMEDIATE`), so that two writers queue up
instead of failing half-way, and readers go on beside it (WAL). Every database error leaves as a `StoreError`.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Executable, create_engine, event, text
from sqlalchemy.engine import URL, Connection, Dialect
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import Pool

from t9ksched.model.leadership import SessionLimits, Timing
from t9ksched.store import sqlite_file, urls
from t9ksched.store.bulk import Prepared
from t9ksched.store.errors import StoreError, translate
from t9ksched.store.postgresql import psycopg
from t9ksched.store.sqlite_file import Closing, Direct, Drivers, prepare_sqlite
from t9ksched.store.writability import Writability, check_room

T = TypeVar("T")
COMMIT = Prepared("COMMIT", [{}])
_TRUSTED_SECONDS = 1.0
"""A connection that was in use so recently is taken to be alive; asking each time costs a round trip."""


def _dump_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def engine_options(url: URL, timing: Timing | None = None, limits: SessionLimits | None = None) -> dict[str, Any]:
    """Options common to the asynchronous engine and the migrations' synchronous one. `timing` is that of leaders here;
    `limits` are the sessions' own on PostgreSQL, where they are not the usual ones.
    """
    options: dict[str, Any] = {"json_serializer": _dump_json, "json_deserializer": msgspec.json.decode}
    if urls.is_sqlite(url):
        options["connect_args"] = {"timeout": sqlite_file.BUSY_TIMEOUT_MS / 1000}
    else:
        options["connect_args"] = urls.session(url, timing or Timing(), limits)
    return options


def check_idle(engine: Any) -> None:
    """Ask a connection for a sign of life before it is used again after a pause; a lost one is replaced unseen."""

    @event.listens_for(engine, "checkin")
    def _returned(_connection: object, record: Any) -> None:
        record.info["returned"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _taken(connection: Any, record: Any, _proxy: object) -> None:
        returned = record.info.get("returned")
        if returned is None or time.monotonic() - returned < _TRUSTED_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error


class Database:
    """Connections to one database; `await close()` when done. From `timing`, that of leaders here, follow the limits of
    its sessions.
    """

    def __init__(self, address: str, timing: Timing | None = None) -> None:
        self.url = urls.parse(address)
        self.timing = timing or Timing()
        self.is_sqlite = urls.is_sqlite(self.url)
        urls.keep_private(self.url)
        pool = {} if self.is_sqlite else {"pool_size": 10, "max_overflow": 10, "pool_timeout": 5}
        options = engine_options(self.url, self.timing) | pool
        self._drivers = Drivers()
        if self.is_sqlite:
            options["connect_args"] |= {"factory": Closing, "async_creator_fn": self._drivers.connect}
        self._engine: AsyncEngine = create_async_engine(urls.for_async(self.url), **options)
        self._reader = self._engine
        if self.is_sqlite:
            prepare_sqlite(self._engine.sync_engine)
            self._aside = create_engine(urls.for_sync(self.url), **engine_options(self.url))
            prepare_sqlite(self._aside)
            one = {"pool_size": 1, "max_overflow": 0}
            self._acting = create_engine(urls.for_sync(self.url), **engine_options(self.url), **one)
            prepare_sqlite(self._acting, *sqlite_file.WRITING)
        else:
            check_idle(self._engine.sync_engine)
            # A transaction that reads sees each statement's own moment there, so it is left out: two round trips less.
            self._reader = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writer = self._engine.execution_options(t9k_begin="BEGIN IMMEDIATE")
        self._direct = Direct(Path(str(self.url.database)).expanduser())
        self._one_writer = asyncio.Lock()
        self._after_write: list[Callable[[], None]] = []
        self._after_change: list[Callable[[], None]] = []
        self.writability = Writability()
        self._answered: list[Callable[[str, str, float], None]] = []

    @property
    def dialect(self) -> Dialect:
        """What the database speaks."""
        return self._engine.dialect

    @property
    def shown_url(self) -> str:
        """The address without its password."""
        return urls.shown(self.url)

    def after_write(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each commit of this process."""
        self._after_write.append(listener)

    def after_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each commit that may have added to the change log: not after those of `transact`, which
        is for what is written all the time.
        """
        self._after_change.append(listener)

    def _committed(self, *, changed: bool = True) -> None:
        for listener in (*self._after_write, *self._after_change) if changed else self._after_write:
            listener()

    def on_answer(self, listener: Callable[[str, str, float], None]) -> None:
        """Tell `listener` of each question and transaction: `read` or `write`, `ok` or `failed`, and its seconds."""
        self._answered.append(listener)

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        began, outcome = time.monotonic(), "failed"
        try:
            yield
            outcome = "ok"
        finally:
            for listener in self._answered:
                listener(kind, outcome, time.monotonic() - began)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for reading; statements that follow each other may see different moments.

        Raises:
            StoreError: the database cannot be used; the message says what an operator can do.
        """
        try:
            async with self._reader.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise translate(error, self.shown_url) from error

    async def fetch(self, query: Executable) -> Sequence[Any]:
        """The rows of one question.

        Raises:
            StoreError: as `read`.
        """
        with self._timed("read"):
            if self.is_sqlite:
                # One step aside in place of one for each of the driver's calls.
                return await _beside(partial(self._fetch, query))
            async with self.read() as connection:
                return (await connection.execute(query)).all()

    def _fetch(self, query: Executable) -> Sequence[Any]:
        try:
            with self._aside.connect() as connection:
                return connection.execute(query).all()
        except SQLAlchemyError as error:
            raise translate(error, self.shown_url) from error

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at the end, or undone whole by an exception."""
        try:
            with self._timed("write"):
                if self.is_sqlite:
                    # Writers of this process wait here, in order, rather than in SQLite's busy loop.
                    async with self._one_writer, self._writer.begin() as connection:
                        yield connection
                else:
                    async with self._writer.begin() as connection:
                        yield connection
        except SQLAlchemyError as error:
            raise self.write_failed(error) from error
        self._committed()

    async def write_all(self, steps: Sequence[Prepared]) -> None:
        """One transaction of statements that are known beforehand; quicker than `write`, because nothing is awaited
        between them.

        Raises:
            StoreError: nothing was written, unless the connection was lost with the database's answer.
        """
        try:
            with self._timed("write"):
                if self.is_sqlite:
                    async with self._one_writer:
                        await _beside(partial(self._direct.run, steps))
                else:
                    async with self._reader.connect() as connection:
                        await at_once(connection, steps)
        except (sqlite3.Error, psycopg.Error, SQLAlchemyError) as error:
            raise self.write_failed(error) from error
        self._committed()

    async def finish(self, connection: AsyncConnection, steps: Sequence[Prepared]) -> None:
        """The last statements of a transaction that `write` began, and its commit; on PostgreSQL one round trip.

        Raises:
            StoreError: the transaction is undone, unless the connection was lost with the database's answer.
        """
        if self.is_sqlite:
            for text_, parameters in steps:
                if parameters:
                    await connection.exec_driver_sql(text_, parameters)
            return
        try:
            await at_once(connection, [*steps, COMMIT])
        except psycopg.Error as error:
            raise self.write_failed(error) from error

    async def alone(self, statement: Executable, lock: int | None = None) -> Sequence[Any]:
        """One statement that is a transaction of its own, and its rows. On PostgreSQL the server carries it out and
        ends it by itself, whatever becomes of this process; `lock` is how many milliseconds it waits for locks there.

        Raises:
            StoreError: nothing was written, unless the connection was lost with the database's answer.
        """
        if self.is_sqlite:
            async with self.write() as connection:
                return (await connection.execute(statement)).all()
        try:
            with self._timed("write"):
                async with self._reader.connect() as connection, _lock_timeout(connection, lock):
                    rows = (await connection.execute(statement)).all()
        except SQLAlchemyError as error:
            raise self.write_failed(error) from error
        self._committed()
        return rows

    async def transact(self, act: Callable[[Connection], T]) -> T:
        """One transaction, all of it done by `act` in one go: beside the event loop on SQLite. It adds nothing to the
        change log.

        Raises:
            StoreError: as `read`; then nothing was written.
        """
        if not self.is_sqlite:
            async with self.write() as connection:
                return await connection.run_sync(act)
        try:
            with self._timed("write"):
                async with self._one_writer:
                    done = await _beside(partial(self._transact, act))
        except SQLAlchemyError as error:
            raise self.write_failed(error) from error
        self._committed(changed=False)
        return done

    def _transact(self, act: Callable[[Connection], T]) -> T:
        with self._acting.execution_options(t9k_begin="BEGIN IMMEDIATE").begin() as connection:
            return act(connection)

    def write_failed(self, error: Exception) -> StoreError:
        """The error of a driver in our words, on record in `writability`."""
        return self.writability.note(translate(error, self.shown_url))

    async def check_room(self) -> None:
        """See that the disk has room, where it is this machine's.

        Raises:
            DatabaseFull: it has not.
        """
        if self.is_sqlite:
            await asyncio.to_thread(check_room, self._direct.path)

    async def ping(self) -> None:
        """Ask the database for a sign of life.

        Raises:
            StoreError: there is none.
        """
        with self._timed("read"):
            async with self.read() as connection:
                await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Close every connection. On SQLite the file then holds all data, unless another connection is reading at that
        moment.
        """
        pool = self._engine.pool
        await self._engine.dispose()
        _close_what_returns(pool)
        await self._drivers.ended()
        if self.is_sqlite:
            self._aside.dispose()
            self._acting.dispose()
            self._direct.close()


def _close_what_returns(pool: Pool) -> None:
    """Close also those connections of `pool` that were in use as it was disposed of. A task that is cancelled twice
    leaves one to another task, which gives it back a moment later: to a pool that nobody would close again.
    """
    event.listen(pool, "checkin", lambda _connection, record: record.invalidate())


@asynccontextmanager
async def _lock_timeout(connection: AsyncConnection, milliseconds: int | None) -> AsyncIterator[None]:
    """Another limit of waiting for locks than the session's own; the next user of the connection finds that again."""
    if milliseconds is None:
        yield
        return
    await connection.execute(text(f"SET lock_timeout = {milliseconds}"))
    try:
        yield
    finally:
        with suppress(SQLAlchemyError):
            await connection.execute(text("RESET lock_timeout"))


async def at_once(connection: AsyncConnection, steps: Sequence[Prepared]) -> None:
    """All statements as one message; outside of a transaction PostgreSQL carries them out as one."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    cursor = psycopg.AsyncClientCursor(driver)
    message = ";".join(cursor.mogrify(text_, one) for text_, several in steps for one in several)
    try:
        await cursor.execute(message.encode())
    except psycopg.Error:
        if driver.closed:
            await connection.invalidate()
        raise


async def _beside(work: Callable[[], T]) -> T:
    """Work in a thread. Cancellations wait for it, so that nothing goes on after the database is closed."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({working})
        if not working.cancelled():
            working.exception()
        raise
