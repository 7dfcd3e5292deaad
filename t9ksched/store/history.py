"""What happened, append-only: each job's life, each refusal, each administrative change.

Rows are never changed; they leave only by age (`purge`). `id` grows in the order of writing and is the page cursor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import RowMapping

from t9ksched.store.database import Database
from t9ksched.store.rows import BATCH, batches
from t9ksched.store.tables import history

SUBMITTED: Final = "submitted"
ACCEPTED: Final = "accepted"
ADMITTED: Final = "admitted"
BOUND: Final = "bound"
WAITING: Final = "waiting"
STARTED: Final = "started"
FINISHED: Final = "finished"
REFUSED: Final = "refused"
DELETED: Final = "deleted"
TAKEN_BACK: Final = "taken-back"
PREEMPTED: Final = "preempted"
QUEUE_CREATED: Final = "queue-created"
QUEUE_CHANGED: Final = "queue-changed"
QUEUE_DELETED: Final = "queue-deleted"
TOKEN_CREATED: Final = "token-created"
TOKEN_REVOKED: Final = "token-revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, to which job and in which queue, by whom. `id` is 0 until it is stored."""

    event: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    queue: str | None = None
    actor: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    id: int = 0


class History:
    """The repository of events."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append_many(self, events: Sequence[Event]) -> None:
        """Write events in their order, a thousand a transaction."""
        rows = [{name: getattr(event, name) for name in Event.__slots__ if name != "id"} for event in events]
        for batch in batches(rows):
            async with self._database.write() as connection:
                await connection.execute(insert(history), list(batch))

    async def append(self, event: Event) -> None:
        """Write one event."""
        await self.append_many([event])

    async def list(
        self,
        *,
        uid: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        event: str | None = None,
        after: int = 0,
        limit: int = 200,
    ) -> list[Event]:
        """Events that match every filter given, oldest first, those after the cursor `after`."""
        filters = {"uid": uid, "namespace": namespace, "name": name, "kind": kind, "queue": queue, "event": event}
        query = select(history).where(history.c.id > after).order_by(history.c.id).limit(limit)
        for column, value in filters.items():
            if value is not None:
                query = query.where(history.c[column] == value)
        async with self._database.read() as connection:
            return [_event(row) for row in (await connection.execute(query)).mappings()]

    async def purge(self, before: datetime) -> int:
        """Drop events older than `before`, in small transactions; how many."""
        dropped = 0
        while True:
            async with self._database.write() as connection:
                old = select(history.c.id).where(history.c.at < before).limit(BATCH).scalar_subquery()
                count = int((await connection.execute(delete(history).where(history.c.id.in_(old)))).rowcount)
            dropped += count
            if count < BATCH:
                return dropped


def _event(row: RowMapping) -> Event:
    return Event(**row)
