"""Notifications: where they go, and the outbox of those that are still to be sent.

Rows of the outbox are written by `notification_filling.py`. The leader sends them and removes each once it was sent; a
leader that is lost between the two has its successor send it again, with the same `id` in its body. Times are the
caller's.
"""

import secrets
import uuid
from base64 import b64encode
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import structs
from sqlalchemy import delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.model.notification import TEST, Address
from t9ksched.store import history
from t9ksched.store.database import Database
from t9ksched.store.errors import RowMissing, StoreError
from t9ksched.store.history import Event
from t9ksched.store.notification_filling import row_of
from t9ksched.store.notification_tables import notification, notification_target
from t9ksched.store.notified_events import Said

KEY_PREFIX: Final = "whsec_"
"""As the convention of Standard Webhooks has it: what follows is base64."""
MOST_FAILURES: Final = 20
"""After so many in a row a target is disabled, about half a day; and a notification is given up after so many tries."""
KEPT: Final = timedelta(days=7)
"""How long a notification waits at most, such as for a target that is disabled."""
_FIRST_PAUSE: Final = timedelta(seconds=10)
_LONGEST_PAUSE: Final = timedelta(hours=1)
_KEY_BYTES: Final = 32
_ERROR: Final = 300
"""Characters of an error that are kept."""

_target = notification_target.c
_row = notification.c


class TooManyTargets(StoreError):
    """One user, or one queue, has as many targets as it may have."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a user wants to be told, or with `queue` those who manage that queue.

    Attributes:
        within: if not empty, only jobs of these queues, as the token said by which it was made.
        kind: `webhook`, `mail`, or the name of a service.
        url, key: secrets; of a webhook, what its notifications are signed with.
        shown: what people see of the URL.
        failures: in a row; nothing is sent before `retry_at`, and none while `disabled_at` is set.
        last_error: empty if the last attempt succeeded, at `last_at`.
    """

    id: str
    owner: str
    queue: str | None
    within: list[str]
    kind: str
    url: str
    shown: str
    key: str
    events: list[str]
    created_at: datetime
    failures: int = 0
    retry_at: datetime
    disabled_at: datetime | None = None
    last_at: datetime | None = None
    last_error: str = ""

    def __repr__(self) -> str:
        return f"Target({self.id!r}, {self.shown!r})"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that is still to be sent to `target`; `attempts` are those that failed."""

    id: int
    target: str
    body: dict[str, Any]
    attempts: int


def new_target(
    address: Address, owner: str, events: Sequence[str], *, queue: str | None = None, within: Collection[str] = ()
) -> Target:
    """A target with a key of its own; it is not stored yet."""
    now = datetime.now(UTC)
    return Target(
        id=uuid.uuid4().hex[:12],
        owner=owner,
        queue=queue,
        within=sorted(within),
        kind=address.kind,
        url=address.url,
        shown=address.shown,
        key=KEY_PREFIX + b64encode(secrets.token_bytes(_KEY_BYTES)).decode(),
        events=list(events),
        created_at=now,
        retry_at=now,
    )


def pause_after(failures: int) -> timedelta:
    """How long to wait after so many failures in a row: twice as long each time, an hour at most."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(2 ** min(failures - 1, 20)))


class Notifications:
    """The repository of targets and of what is to be sent to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, target: Target, most: int, *, by: str) -> None:
        """Write a target.

        Raises:
            TooManyTargets: its user, or its queue, has `most` already.
        """
        same = _target.queue == target.queue
        if target.queue is None:
            same = _target.queue.is_(None) & (_target.owner == target.owner)
        async with self._database.write() as connection:
            count = (await connection.execute(select(func.count()).where(same))).scalar_one()
            if count >= most:
                whose = f"the queue {target.queue!r}" if target.queue is not None else f"{target.owner!r}"
                raise TooManyTargets(f"{whose} has {count} addresses for notifications, the most there may be")
            await connection.execute(insert(notification_target), structs.asdict(target))
            await _note(connection, history.NOTIFICATION_ADDED, target, by)

    async def list(self) -> list[Target]:
        """All targets, the oldest first."""
        query = select(notification_target).order_by(_target.created_at, _target.id)
        return [Target(**row._mapping) for row in await self._database.fetch(query)]

    async def get(self, id_: str) -> Target | None:
        """One target."""
        rows = await self._database.fetch(select(notification_target).where(_target.id == id_))
        return Target(**rows[0]._mapping) if rows else None

    async def delete(self, target: Target, *, by: str) -> None:
        """Remove a target, and what is still to be sent to it.

        Raises:
            RowMissing: it is gone already.
        """
        async with self._database.write() as connection:
            found = await connection.execute(delete(notification_target).where(_target.id == target.id))
            if not found.rowcount:
                raise _missing(target.id)
            await connection.execute(delete(notification).where(_row.target == target.id))
            await _note(connection, history.NOTIFICATION_DELETED, target, by)

    async def test(self, target: Target, now: datetime, by: str) -> str:
        """Have a test sent to it, at once; the `id` of it. A target that is disabled is tried once more: if that fails
        it is disabled again.

        Raises:
            RowMissing: it is gone.
        """
        row = row_of(target.id, Said(TEST, frozenset(), f"a test of notifications, asked for by {by}"), None, None, now)
        mine = _target.id == target.id
        values: dict[str, Any] = {"retry_at": now}
        async with self._database.write() as connection:
            found = (await connection.execute(select(_target.disabled_at).where(mine).with_for_update())).first()
            if found is None:
                raise _missing(target.id)
            if found[0] is not None:
                values |= {"disabled_at": None, "failures": MOST_FAILURES - 1}
            await connection.execute(update(notification_target).where(mine).values(values))
            await connection.execute(insert(notification), row)
        return str(row["body"]["id"])

    async def ready(self, now: datetime, most: int, busy: Collection[str] = ()) -> Sequence[Target]:
        """Targets to which something can be sent now, those that work first; without the `busy` ones."""
        due = exists().where(_row.target == _target.id, _row.due_at <= now)
        open_ = _target.disabled_at.is_(None) & (_target.retry_at <= now) & _target.id.not_in(sorted(busy))
        query = select(notification_target).where(open_ & due).order_by(_target.failures, _target.retry_at, _target.id)
        return [Target(**row._mapping) for row in await self._database.fetch(query.limit(most))]

    async def due(self, target: str, now: datetime, most: int) -> Sequence[Waiting]:
        """What is to be sent to it now: what was not tried yet first, each in the order of what happened."""
        columns = (_row.id, _row.target, _row.body, _row.attempts)
        query = select(*columns).where((_row.target == target) & (_row.due_at <= now))
        rows = await self._database.fetch(query.order_by(_row.attempts, _row.id).limit(most))
        return [Waiting(**row._mapping) for row in rows]

    async def waiting(self) -> int:
        """How many are still to be sent."""
        return int((await self._database.fetch(select(func.count()).select_from(notification)))[0][0])

    async def sent(self, one: Waiting, now: datetime) -> None:
        """It was sent."""
        works = {"failures": 0, "retry_at": now, "last_at": now, "last_error": ""}
        async with self._database.write() as connection:
            await connection.execute(delete(notification).where(_row.id == one.id))
            await connection.execute(update(notification_target).where(_target.id == one.target).values(works))

    async def failed(self, one: Waiting, now: datetime, error: str, *, gone: bool = False) -> "Failed":
        """It could not be sent. With `gone` the receiver wants no more. What becomes of it and of the target."""
        attempts = one.attempts + 1
        given_up = attempts >= MOST_FAILURES or one.body.get("type") == TEST
        async with self._database.write() as connection:
            if given_up:
                await connection.execute(delete(notification).where(_row.id == one.id))
            else:
                later = {"attempts": attempts, "due_at": now + pause_after(attempts)}
                await connection.execute(update(notification).where(_row.id == one.id).values(later))
            mine = _target.id == one.target
            found = await connection.execute(select(_target.failures).where(mine).with_for_update())
            failures = (found.scalar_one_or_none() or 0) + 1
            disabled = gone or failures >= MOST_FAILURES
            values = {"failures": failures, "retry_at": now + pause_after(failures), "last_at": now}
            values |= {"last_error": error[:_ERROR], **({"disabled_at": now} if disabled else {})}
            await connection.execute(update(notification_target).where(mine).values(values))
        return Failed(given_up=given_up, disabled=disabled, failures=failures)

    async def purge(self, now: datetime) -> int:
        """Drop what has waited for longer than `KEPT`, and what is for targets that are gone; how many."""
        orphan = ~exists().where(_target.id == _row.target)
        async with self._database.write() as connection:
            old = delete(notification).where(or_(_row.at < now - KEPT, orphan))
            return int((await connection.execute(old)).rowcount)


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """What a failure led to."""

    given_up: bool
    disabled: bool
    failures: int


async def forget_queue(connection: AsyncConnection, queue: str) -> None:
    """Remove the targets of a queue that is deleted: another of its name is not theirs."""
    await connection.execute(delete(notification_target).where(_target.queue == queue))


async def _note(connection: AsyncConnection, event: str, target: Target, by: str) -> None:
    detail = {"user": target.owner, "address": target.shown, "events": target.events}
    told = Event(event=event, actor=by, queue=target.queue, name=target.id, detail=detail)
    await history.record(connection, told)


def _missing(id_: str) -> RowMissing:
    return RowMissing(f"there is no address for notifications with the id {id_!r}")
