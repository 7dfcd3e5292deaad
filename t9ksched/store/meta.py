"""Small facts about the installation, by key: JSON values that fit nowhere else."""

from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from t9ksched.store.database import Database
from t9ksched.store.rows import insert_new, upsert, upserting
from t9ksched.store.tables import meta

_TOLD: Final = "told"
"""Key of the mark of the last transaction of those that bear one."""


class Meta:
    """A dictionary that outlives the process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(meta.c.value).where(meta.c.key == key))).one_or_none()
        return default if row is None else row[0]

    async def set(self, key: str, value: Any) -> None:
        """Write a value over whatever was there."""
        async with self._database.write() as connection:
            await upsert(connection, meta, [{"key": key, "value": value}])

    async def set_once(self, key: str, value: Any) -> Any:
        """Write a value unless there is one. Returns the value in force, which another process may have written."""
        async with self._database.write() as connection:
            await insert_new(connection, meta, {"key": key, "value": value})
        return await self.get(key)


class _Fact(NamedTuple):
    """A row of `meta`."""

    key: str
    value: str


_PUT: Final = upserting(meta, _Fact._fields)


def is_new(connection: Connection, mark: str) -> bool:
    """Note this mark, within the caller's transaction; whether the transaction before it that bore one had another.

    One that was not heard of may have been carried out all the same: who carries it out again with its mark learns
    that here. A transaction that is still under way is waited for.
    """
    last = connection.execute(select(meta.c.value).where(meta.c.key == _TOLD).with_for_update()).scalar()
    if last == mark:
        return False
    _PUT.write(connection, [_Fact(_TOLD, mark)])
    return True
