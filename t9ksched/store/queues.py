"""Queues: the record that the scheduler, the REST service and the projected Queue objects follow.

Every change takes a new revision, which is also the ETag. A caller who says which revision he saw is told when it is no
longer current; nobody's edit is lost silently.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.model.names import DEFAULT_QUEUE
from t9ksched.store import changes
from t9ksched.store.database import Database
from t9ksched.store.errors import RevisionChanged, RowExists, RowMissing
from t9ksched.store.rows import insert_new
from t9ksched.store.tables import queue


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue as stored. `labels` and `spec` are JSON as users write it; `revision` changes with every edit."""

    name: str
    uid: str
    labels: dict[str, str]
    spec: dict[str, Any]
    revision: int
    created_at: datetime
    updated_at: datetime


Edit = Callable[[QueueRecord], tuple[dict[str, str], dict[str, Any]]]
"""From the queue as it is to its new labels and spec; may raise to leave it as it is."""


class Queues:
    """The repository of queues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[QueueRecord]:
        """All queues, by name."""
        async with self._database.read() as connection:
            return [_record(row) for row in (await connection.execute(select(queue).order_by(queue.c.name))).mappings()]

    async def get(self, name: str) -> QueueRecord | None:
        """The queue of that name, if there is one."""
        async with self._database.read() as connection:
            return await _find(connection, name)

    async def create(self, name: str, labels: dict[str, str], spec: dict[str, Any]) -> QueueRecord:
        """A new queue.

        Raises:
            RowExists: there is one of that name.
        """
        async with self._database.write() as connection:
            revision = await changes.append(connection, "queue", name)
            now = datetime.now(UTC)
            record = QueueRecord(name, str(uuid.uuid4()), labels, spec, revision, now, now)
            if not await insert_new(connection, queue, _row(record)):
                raise RowExists(f"the queue {name!r} exists already")
            return record

    async def edit(self, name: str, edit: Edit, expected: int | None = None) -> QueueRecord:
        """Change a queue in one transaction: `edit` sees it as it is and says how it shall be.

        An edit that changes nothing keeps the revision.

        Raises:
            RowMissing: no such queue.
            RevisionChanged: `expected` is given and no longer current.
        """
        async with self._database.write() as connection:
            # The lock of the order comes first: whoever waits here sees the row as the one before him left it.
            revision = await changes.append(connection, "queue", name)
            before = await _require(connection, name, expected)
            labels, spec = edit(before)
            if (labels, spec) == (before.labels, before.spec):
                await connection.rollback()
                return before
            now = datetime.now(UTC)
            values = {"labels": labels, "spec": spec, "revision": revision, "updated_at": now}
            await connection.execute(update(queue).where(queue.c.name == name).values(values))
            return QueueRecord(name, before.uid, labels, spec, revision, before.created_at, now)

    async def delete(self, name: str, expected: int | None = None) -> QueueRecord:
        """Remove a queue; as it was.

        Raises:
            RowMissing, RevisionChanged: as `edit`.
        """
        async with self._database.write() as connection:
            await changes.append(connection, "queue", name)
            before = await _require(connection, name, expected)
            await connection.execute(delete(queue).where(queue.c.name == name))
            return before

    async def ensure_default(self) -> None:
        """See that the queue `default` exists: open, without quota (made at the first start only)."""
        if await self.get(DEFAULT_QUEUE) is not None:
            return
        async with self._database.write() as connection:
            if await _find(connection, DEFAULT_QUEUE) is None:
                revision = await changes.append(connection, "queue", DEFAULT_QUEUE)
                now = datetime.now(UTC)
                record = QueueRecord(DEFAULT_QUEUE, str(uuid.uuid4()), {}, {}, revision, now, now)
                await connection.execute(insert(queue), _row(record))


async def _find(connection: AsyncConnection, name: str) -> QueueRecord | None:
    row = (await connection.execute(select(queue).where(queue.c.name == name))).mappings().one_or_none()
    return None if row is None else _record(row)


async def _require(connection: AsyncConnection, name: str, expected: int | None) -> QueueRecord:
    found = await _find(connection, name)
    if found is None:
        raise RowMissing(f"there is no queue {name!r}")
    if expected is not None and found.revision != expected:
        raise RevisionChanged(
            f"the queue {name!r} was changed since you read it (revision {expected} then, {found.revision} now)",
            found.revision,
        )
    return found


def _record(row: RowMapping) -> QueueRecord:
    return QueueRecord(**row)


def _row(record: QueueRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in QueueRecord.__slots__}
