"""A database through which only the present leader writes.

A scheduler that stood still while another took over must not write its old picture over its successor's. So each of
its transactions asks, under a lock, whether its epoch is still the last one; `Instances.lead` waits for that lock.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.expression import Executable

from t9ksched.store.bulk import Prepared
from t9ksched.store.database import Database
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost
from t9ksched.store.tables import scheduler_instance


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
        mine = self._epoch()
        if not mine:
            raise StoreError("this scheduler has not told the database yet that it leads")
        async with self._database.write() as connection:
            last = select(scheduler_instance.c.epoch).with_for_update(read=True)
            if (await connection.execute(last)).scalar_one_or_none() != mine:
                raise LeadershipLost(f"leadership {mine} has ended: another scheduler leads now")
            yield connection

    async def write_all(self, steps: Sequence[Prepared]) -> None:
        """See `Database.write_all`; guarded as `write` is.

        Raises:
            LeadershipLost, StoreError: as `write`.
        """
        async with self.write() as connection:
            for text, parameters in steps:
                await connection.exec_driver_sql(text, parameters)
