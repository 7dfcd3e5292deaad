"""A database through which only the present leader writes, and which never waits for a former leader.

A scheduler that was frozen while another took over must not write its old state over its successor's. On PostgreSQL the
test of its epoch and the commit are one message: the server carries both out, so that a client that is frozen, or has
lost power, never holds the row of the leadership that `Instances.lead` writes. It may hold other rows: the transaction
is marked with its epoch, so that `Instances.lead` can end it, and the server ends it once the client is silent. On
SQLite, where all processes are on one machine, a transaction holds the whole file from its beginning, and the test is
its first statement.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Integer, bindparam, cast, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import Executable

from t9ksched.model.leadership import SessionLimits
from t9ksched.store.bulk import Prepared
from t9ksched.store.database import COMMIT, Database, at_once
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import FENCED, LeadershipLost
from t9ksched.store.postgresql import psycopg
from t9ksched.store.tables import scheduler_instance

T = TypeVar("T")
_INSIST: Final = (
    "SELECT 1 / (SELECT count(*) FROM (SELECT 1 FROM scheduler_instance WHERE epoch = %(mine)s FOR SHARE) AS last)"
)
"""Fails, together with all statements after it in the message, if this epoch is not the last one. Otherwise no other
leadership begins before the commit, which depends on the server alone.
"""


class Fence(Database):
    """`database` for the leader of `epoch()`, which is 0 until it leads. Reading is open to all."""

    def __init__(self, database: Database, epoch: Callable[[], int]) -> None:
        self._database = database
        self._epoch = epoch
        limits = SessionLimits.leading(database.timing) if not database.is_sqlite else SessionLimits(0, 0, 0)
        local = {
            "statement_timeout": limits.statement,
            "lock_timeout": limits.lock,
            "idle_in_transaction_session_timeout": limits.silent,
        }
        mark = func.pg_advisory_xact_lock_shared(literal(FENCED, Integer), cast(bindparam("mine"), Integer))
        settings = [func.set_config(name, f"{value}ms", True) for name, value in local.items()]
        self._begin = select(select(scheduler_instance.c.epoch).scalar_subquery(), mark, *settings)
        """The first statement of a transaction on PostgreSQL: marks it and sets its limits, locks no row."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """See `Database.read`."""
        async with self._database.read() as connection:
            yield connection

    async def fetch(self, query: Executable) -> Sequence[Any]:
        """See `Database.fetch`."""
        return await self._database.fetch(query)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """See `Database.write`.

        Raises:
            LeadershipLost: a later epoch has begun.
            StoreError: as `Database.read`, and while the leadership has not begun yet.
        """
        mine = self._mine()
        async with self._database.write() as connection:
            if self._database.is_sqlite:
                await connection.run_sync(_insist, mine)
                yield connection
                return
            found = (await connection.execute(self._begin, {"mine": mine})).first()
            _compare(None if found is None else found[0], mine)
            yield connection
            if await _under_way(connection):
                await self._finish(connection, ())

    async def transact(self, act: Callable[[Connection], T]) -> T:
        """See `Database.transact`; guarded as `write` is.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        if not self._database.is_sqlite:
            async with self.write() as connection:
                return await connection.run_sync(act)
        mine = self._mine()

        def guarded(connection: Connection) -> T:
            _insist(connection, mine)
            return act(connection)

        return await self._database.transact(guarded)

    async def finish(self, connection: AsyncConnection, steps: Sequence[Prepared]) -> None:
        """See `Database.finish`; the epoch is tested before the commit.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        if self._database.is_sqlite:
            await self._database.finish(connection, steps)
        else:
            await self._finish(connection, steps)

    async def write_all(self, steps: Sequence[Prepared]) -> None:
        """See `Database.write_all`; guarded as `write` is.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        async with self.write() as connection:
            for text, parameters in steps:
                await connection.exec_driver_sql(text, parameters)

    async def alone(self, statement: Executable, lock: int | None = None) -> Sequence[Any]:
        """See `Database.alone`; guarded as `write` is.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        async with self.write() as connection:
            return (await connection.execute(statement)).all()

    def _mine(self) -> int:
        mine = self._epoch()
        if not mine:
            raise StoreError("this scheduler has not told the database yet that it leads")
        return mine

    async def _finish(self, connection: AsyncConnection, steps: Sequence[Prepared]) -> None:
        mine = self._mine()
        try:
            await at_once(connection, [*steps, Prepared(_INSIST, [{"mine": mine}]), COMMIT])
        except psycopg.errors.DivisionByZero as error:
            raise _lost(mine) from error
        except psycopg.Error as error:
            raise self._database.write_failed(error) from error


async def _under_way(connection: AsyncConnection) -> bool:
    """Whether the transaction is neither committed nor undone yet."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    return bool(driver.info.transaction_status != psycopg.pq.TransactionStatus.IDLE)


def _insist(connection: Connection, mine: int) -> None:
    """See that the last leadership is this one; the transaction holds the lock of the whole file."""
    _compare(connection.execute(select(scheduler_instance.c.epoch)).scalar_one_or_none(), mine)


def _compare(last: int | None, mine: int) -> None:
    if last != mine:
        raise _lost(mine)


def _lost(mine: int) -> LeadershipLost:
    return LeadershipLost(f"leadership {mine} has ended: another scheduler leads now")
