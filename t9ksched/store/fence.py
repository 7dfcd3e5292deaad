"""A database through which only the present leader writes.

A scheduler that stood still while another took over must not write its old picture over its successor's. So each of
its transactions asks, under a lock, whether its epoch is still the last one; `Instances.lead` waits for that lock.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import Executable

from t9ksched.store.bulk import Prepared
from t9ksched.store.database import Database
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.tables import scheduler_instance

T = TypeVar("T")


class Fence(Database):
    """`database` for the leader of `epoch()`, which is 0 until it leads. Reading is open to all."""

    def __init__(self, database: Database, epoch: Callable[[], int]) -> None:
        self._database = database
        self._epoch = epoch

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
            StoreError: as any door, and while the leadership has not begun yet.
        """
        mine = self._mine()
        async with self._database.write() as connection:
            await connection.run_sync(_insist, mine)
            yield connection

    async def transact(self, act: Callable[[Connection], T]) -> T:
        """See `Database.transact`; guarded as `write` is.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        mine = self._mine()

        def guarded(connection: Connection) -> T:
            _insist(connection, mine)
            return act(connection)

        return await self._database.transact(guarded)

    def _mine(self) -> int:
        mine = self._epoch()
        if not mine:
            raise StoreError("this scheduler has not told the database yet that it leads")
        return mine

    async def write_all(self, steps: Sequence[Prepared]) -> None:
        """See `Database.write_all`; guarded as `write` is.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        async with self.write() as connection:
            for text, parameters in steps:
                await connection.exec_driver_sql(text, parameters)


def _insist(connection: Connection, mine: int) -> None:
    """Lock the last leadership, and see that it is this one."""
    last = connection.execute(select(scheduler_instance.c.epoch).with_for_update(read=True)).scalar_one_or_none()
    if last != mine:
        raise LeadershipLost(f"leadership {mine} has ended: another scheduler leads now")
