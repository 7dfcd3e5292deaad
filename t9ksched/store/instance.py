"""Where the leading scheduler is, and which leadership this is.

The epoch grows with each leadership. A former leader that wakes from a pause is refused by its old epoch, so that it
never writes over its successor's word.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select, update

from t9ksched.store.database import Database
from t9ksched.store.errors import StoreError
from t9ksched.store.tables import scheduler_instance

_ROW = 1


class LeadershipLost(StoreError):
    """Another scheduler has led since: stop writing."""


@dataclass(frozen=True, slots=True)
class Instance:
    """The leader as it last said of itself. `address` is the base URL of `/internal/v1`."""

    address: str
    identity: str
    epoch: int
    started_at: datetime
    heartbeat_at: datetime


class Instances:
    """The one row about the leader."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def current(self) -> Instance | None:
        """The leader last heard of; look at `heartbeat_at` to see whether it still is."""
        table = scheduler_instance.c
        query = select(table.address, table.identity, table.epoch, table.started_at, table.heartbeat_at)
        found = await self._database.fetch(query)
        return Instance(*found[0]) if found else None

    async def lead(self, address: str, identity: str) -> int:
        """Take over as leader (the caller holds the lease); the epoch of this leadership."""
        now = datetime.now(UTC)
        row = {"id": _ROW, "address": address, "identity": identity, "started_at": now, "heartbeat_at": now}
        async with self._database.write() as connection:
            before = (
                await connection.execute(select(scheduler_instance.c.epoch).with_for_update())
            ).scalar_one_or_none()
            epoch = (before or 0) + 1
            if before is None:
                await connection.execute(insert(scheduler_instance), row | {"epoch": epoch})
            else:
                await connection.execute(update(scheduler_instance).values(row | {"epoch": epoch}))
        return epoch

    async def beat(self, epoch: int) -> None:
        """Say that the leader of this epoch is alive.

        Raises:
            LeadershipLost: a later epoch has begun.
        """
        mine = scheduler_instance.c.epoch == epoch
        async with self._database.write() as connection:
            beat = update(scheduler_instance).where(mine).values(heartbeat_at=datetime.now(UTC))
            if not (await connection.execute(beat)).rowcount:
                raise LeadershipLost(f"leadership {epoch} has ended: another scheduler leads now")

    async def resign(self, epoch: int) -> None:
        """Leave in an orderly way: the address goes, the epoch stays counted."""
        mine = scheduler_instance.c.epoch == epoch
        async with self._database.write() as connection:
            await connection.execute(update(scheduler_instance).where(mine).values(address=""))

    async def forget(self) -> None:
        """Remove the row, epoch and all; for a database copied from another cluster."""
        async with self._database.write() as connection:
            await connection.execute(delete(scheduler_instance))
