"""What jobs wait for, by UID of the job that waits: which job each name meant when it was first seen, and since when it
is over as the waiting job wants it.

A name is used again, and what was waited for is deleted: neither changes what was found once, also after a restart.
Only the leader writes.
"""

from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import delete, select

from t9ksched.store.database import Database
from t9ksched.store.rows import among, batches, upsert
from t9ksched.store.tables import job_dependency


class Waited(msgspec.Struct, frozen=True, kw_only=True):
    """One job that another waits for.

    Attributes:
        uid: of the job that waits.
        target: the name that it gives, as `Kind/name`.
        target_uid: of the job that was meant; empty where that is several.
        met_at: since when it need not be waited for any more, in nanoseconds since the epoch; 0 while it must.
    """

    uid: str
    target: str
    target_uid: str = ""
    met_at: int = 0


class Dependencies:
    """The repository of what jobs wait for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, rows: Sequence[Waited]) -> None:
        """Write these, each in place of the former one."""
        for batch in batches(rows):
            async with self._database.write() as connection:
                await upsert(connection, job_dependency, [msgspec.structs.asdict(row) for row in batch])

    async def all(self) -> list[Waited]:
        """Every row, in the order of UIDs and names: what a scheduler reads when it starts."""
        query = select(job_dependency).order_by(job_dependency.c.uid, job_dependency.c.target)
        async with self._database.read() as connection:
            return [Waited(**row) for row in (await connection.execute(query)).mappings()]

    async def forget(self, uids: Collection[str]) -> None:
        """Remove the rows of these jobs, which wait for nothing any more."""
        for batch in batches(sorted(uids)):
            async with self._database.write() as connection:
                await connection.execute(delete(job_dependency).where(among(connection, job_dependency.c.uid, batch)))
