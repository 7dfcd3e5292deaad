"""Queues: the record that the scheduler, the REST service and the projected Queue objects follow.

Every change takes a new revision, which is also the ETag; labels, spec, members and the draining mark share it. A
caller that names the revision it read gets an error when that is no longer current, so no edit is lost silently. A
change made `by` a user is written to history in the same transaction. The ordering is always written into the spec: a
new queue gets the default, a change that leaves it out keeps it.
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.model.names import DEFAULT_QUEUE
from t9ksched.model.queue import with_ordering
from t9ksched.store import changes, history, history_rows
from t9ksched.store.bulk import Statement
from t9ksched.store.database import Database
from t9ksched.store.errors import RevisionChanged, RowExists, RowMissing
from t9ksched.store.history import Event
from t9ksched.store.notifications import forget_queue
from t9ksched.store.rows import insert_new
from t9ksched.store.tables import queue


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue as stored.

    `labels`, `spec` and `members` are JSON as users write it; a `draining` queue starts nothing more; `revision`
    changes with every edit.
    """

    name: str
    uid: str
    labels: dict[str, str]
    spec: dict[str, Any]
    members: dict[str, Any]
    draining: bool
    revision: int
    created_at: datetime
    updated_at: datetime

    def written(self) -> dict[str, Any]:
        """What administrators decide about it, for the record of a change."""
        shown = {"labels": self.labels, "spec": self.spec, "members": self.members}
        return shown | ({"draining": True} if self.draining else {})


_COLUMNS = tuple(queue.c[name] for name in QueueRecord.__slots__)

_CHANGING = ("labels", "spec", "members", "draining", "revision", "updated_at")
_UPDATE = Statement(
    {key: queue.c[key].type for key in _CHANGING} | {"of": queue.c.name.type},
    lambda _: update(queue).where(queue.c.name == bindparam("of")).values({key: bindparam(key) for key in _CHANGING}),
)

Edit = Callable[[QueueRecord], tuple[dict[str, str], dict[str, Any]]]
"""From the queue as it is to its new labels and spec; may raise to leave it as it is."""


class Queues:
    """The repository of queues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[QueueRecord]:
        """All queues, by name."""
        return [QueueRecord(*row) for row in await self._database.fetch(select(*_COLUMNS).order_by(queue.c.name))]

    async def of(self, names: Iterable[str]) -> dict[str, QueueRecord]:
        """The queues of these names, by and in the order of names; unknown ones are left out."""
        query = select(*_COLUMNS).where(queue.c.name.in_(list(names))).order_by(queue.c.name)
        return {row.name: QueueRecord(*row) for row in await self._database.fetch(query)}

    async def get(self, name: str) -> QueueRecord | None:
        """The queue of that name, if there is one."""
        return (await self.of([name])).get(name)

    async def create(
        self,
        name: str,
        labels: dict[str, str],
        spec: dict[str, Any],
        members: dict[str, Any] | None = None,
        *,
        by: str | None = None,
    ) -> QueueRecord:
        """Create a queue. Without `members`, only its namespaceSelector admits users.

        Raises:
            RowExists: there is one of that name.
        """
        async with self._database.write() as connection:
            revision = await changes.append(connection, "queue", name)
            now, spec = datetime.now(UTC), with_ordering(spec, None)
            record = QueueRecord(name, str(uuid.uuid4()), labels, spec, members or {}, False, revision, now, now)
            if not await insert_new(connection, queue, _row(record)):
                raise RowExists(f"the queue {name!r} exists already")
            await _note(connection, history.QUEUE_CREATED, by, None, record)
            return record

    async def edit(
        self,
        name: str,
        edit: Edit,
        expected: int | None = None,
        *,
        members: dict[str, Any] | None = None,
        draining: bool | None = None,
        by: str | None = None,
    ) -> QueueRecord:
        """Change a queue in one transaction: `edit` gets the stored queue and returns the new labels and spec.

        `members` replaces them, `draining` sets or ends that state, both in the same step. A queue that is opened by an
        edit of its spec drains no longer.
        An edit that changes nothing keeps the revision.

        Raises:
            RowMissing: no such queue.
            RevisionChanged: `expected` is given and no longer current.
        """

        def change(before: QueueRecord) -> QueueRecord:
            labels, spec = edit(before)
            spec = with_ordering(spec, before.spec)
            opened = bool(before.spec.get("closed")) and not spec.get("closed")
            drains = before.draining and not opened if draining is None else draining
            who = before.members if members is None else members
            return replace(before, labels=labels, spec=spec, members=who, draining=drains)

        return await self._change(name, change, expected, history.QUEUE_CHANGED, by)

    async def set_members(
        self, name: str, members: dict[str, Any], expected: int | None = None, *, by: str | None = None
    ) -> QueueRecord:
        """Set the members of a queue.

        Raises:
            RowMissing, RevisionChanged: as `edit`.
        """
        return await self._change(
            name, lambda before: replace(before, members=members), expected, history.MEMBERS_CHANGED, by
        )

    async def delete(self, name: str, expected: int | None = None, *, by: str | None = None) -> QueueRecord:
        """Remove a queue, and where those who manage it wanted to be told; as it was.

        Raises:
            RowMissing, RevisionChanged: as `edit`.
        """
        async with self._database.write() as connection:
            before = await _require(connection, name, expected)
            await changes.append(connection, "queue", name)
            await connection.execute(delete(queue).where(queue.c.name == name))
            await forget_queue(connection, name)
            await _note(connection, history.QUEUE_DELETED, by, before, None)
            return before

    async def ensure_default(self) -> None:
        """See that the queue `default` exists: open to everyone, without quota (made at the first start only)."""
        if await self.get(DEFAULT_QUEUE) is not None:
            return
        async with self._database.write() as connection:
            revision = await changes.append(connection, "queue", DEFAULT_QUEUE)
            now, spec, open_to_all = datetime.now(UTC), with_ordering({}, None), {"everyone": True}
            record = QueueRecord(DEFAULT_QUEUE, str(uuid.uuid4()), {}, spec, open_to_all, False, revision, now, now)
            if not await insert_new(connection, queue, _row(record)):
                await connection.rollback()  # another process was faster

    async def _change(
        self,
        name: str,
        change: Callable[[QueueRecord], QueueRecord],
        expected: int | None,
        event: str,
        by: str | None,
    ) -> QueueRecord:
        async with self._database.write() as connection:
            # The row is locked: the next transaction reads what this one commits.
            before = await _require(connection, name, expected)
            after = change(before)
            if after == before:
                return before
            revision = await changes.append(connection, "queue", name)
            after = replace(after, revision=revision, updated_at=datetime.now(UTC))
            row = {key: value for key, value in _row(after).items() if key in _CHANGING} | {"of": name}
            told = [] if by is None else [_event(event, by, before, after)]
            steps = [_UPDATE.prepared(self._database, [row]), history_rows.APPEND.prepared(self._database, told)]
            await self._database.finish(connection, steps)
            return after


async def _note(
    connection: AsyncConnection, event: str, by: str | None, before: QueueRecord | None, after: QueueRecord | None
) -> None:
    if by is not None:
        await history.record(connection, _event(event, by, before, after))


def _event(event: str, by: str, before: QueueRecord | None, after: QueueRecord | None) -> Event:
    about = after or before
    assert about is not None
    detail = {key: one.written() for key, one in (("before", before), ("after", after)) if one is not None}
    return Event(event=event, queue=about.name, actor=by, detail=detail)


async def _find(connection: AsyncConnection, name: str) -> QueueRecord | None:
    row = (await connection.execute(select(*_COLUMNS).where(queue.c.name == name).with_for_update())).one_or_none()
    return None if row is None else QueueRecord(*row)


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


def _row(record: QueueRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in QueueRecord.__slots__}
