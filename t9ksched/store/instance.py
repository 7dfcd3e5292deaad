"""The address and the epoch of the leading scheduler.

The epoch grows with each leadership. A former leader that wakes from a pause is refused because its epoch is old, so
that it never overwrites its successor's rows.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog
from sqlalchemy import TextClause, delete, select, text, update

from t9ksched.store.database import Database
from t9ksched.store.errors import DatabaseBusy, StoreError
from t9ksched.store.rows import inserting
from t9ksched.store.tables import scheduler_instance

log = structlog.get_logger(__name__)

_ROW = 1
FENCED: Final = 0x7439_6B65
"""First key of the advisory locks that mark transactions of leaders on PostgreSQL ("t9ke"); the second is the epoch.
They are shared, so no session waits for one.
"""
_END_FORMER: Final = text(
    "SELECT pid, pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
    " AND classid = :mark AND CAST(objid AS bigint) < :epoch AND granted AND pid <> pg_backend_pid()"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_END_HOLDERS: Final = text(
    "SELECT pid, pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'scheduler_instance'::regclass"
    " AND mode IN ('RowShareLock', 'RowExclusiveLock') AND granted AND pid <> pg_backend_pid()"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Only leaders lock rows of that table: this release for the time of a message to the server, earlier ones for that of
their transactions.
"""
_TRIES: Final = 3
_LOCK_TIMEOUT_MS: Final = 1000
"""Milliseconds to wait for the row of the leadership, which leaders of this release hold for one message to the
server."""


class LeadershipLost(StoreError):
    """Another scheduler has led since: stop writing."""


class Instance(msgspec.Struct, frozen=True):
    """The leader as it last reported. `address` is the base URL of `/internal/v1`."""

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
        """Take over as leader (the caller holds the lease); the epoch of this leadership.

        What former leaders have under way is ended: it would be refused anyway, and may hold rows that we write.

        Raises:
            StoreError: the database is away, or a session that cannot be ended holds the row of the leadership.
        """
        for last in range(_TRIES - 1, -1, -1):
            try:
                epoch = await self._begin(address, identity)
            except DatabaseBusy:
                if self._database.is_sqlite or not last:
                    raise
                await self._end(_END_HOLDERS, {}, "holds the row of the leadership")
            else:
                break
        if not self._database.is_sqlite:
            await self._end(_END_FORMER, {"mark": FENCED, "epoch": epoch}, "writes for a former leader")
        return epoch

    async def _begin(self, address: str, identity: str) -> int:
        now = datetime.now(UTC)
        row = {"address": address, "identity": identity, "started_at": now, "heartbeat_at": now}
        statement = inserting(self._database, scheduler_instance).values(id=_ROW, epoch=1, **row)
        statement = statement.on_conflict_do_update(
            index_elements=[scheduler_instance.c.id], set_=row | {"epoch": scheduler_instance.c.epoch + 1}
        ).returning(scheduler_instance.c.epoch)
        return int((await self._database.alone(statement, lock=_LOCK_TIMEOUT_MS))[0][0])

    async def _end(self, sessions: TextClause, values: dict[str, int], why: str) -> None:
        """End sessions of our own role; those of others end by the limits of their sessions."""
        try:
            async with self._database.read() as connection:
                ended = [row[0] for row in (await connection.execute(sessions, values)).all()]
        except StoreError as error:
            log.warning("sessions of a former leader could not be ended, they end by themselves", error=str(error))
            return
        if ended:
            log.warning("sessions ended", why=why, pids=ended)

    async def beat(self, epoch: int) -> None:
        """Say that the leader of this epoch is alive.

        Raises:
            LeadershipLost: a later epoch has begun.
        """
        mine = update(scheduler_instance).where(scheduler_instance.c.epoch == epoch)
        beat = mine.values(heartbeat_at=datetime.now(UTC)).returning(scheduler_instance.c.epoch)
        if not await self._database.alone(beat):
            raise LeadershipLost(f"leadership {epoch} has ended: another scheduler leads now")

    async def resign(self, epoch: int) -> None:
        """Leave in an orderly way: the address goes, the epoch stays counted."""
        mine = update(scheduler_instance).where(scheduler_instance.c.epoch == epoch)
        await self._database.alone(mine.values(address="").returning(scheduler_instance.c.epoch))

    async def forget(self) -> None:
        """Remove the row, epoch and all; for a database copied from another cluster."""
        async with self._database.write() as connection:
            await connection.execute(delete(scheduler_instance))
