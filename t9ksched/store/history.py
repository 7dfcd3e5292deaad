"""What happened, append-only: each job's life, each refusal, each administrative change.

Rows (`history_rows.py`) are never changed (the database itself refuses it); they leave only by age (`purge`). `id`
grows in the order of writing and is the page cursor. Administrative changes (`AUDITED`) are written in the transaction
of the change itself.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import msgspec
from msgspec import structs
from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.store import history_rows
from t9ksched.store.conditions import SELDOM, by_users
from t9ksched.store.database import Database
from t9ksched.store.history_rows import ACCEPTED as ACCEPTED
from t9ksched.store.history_rows import ADMITTED as ADMITTED
from t9ksched.store.history_rows import APPEND, COLUMNS, Wanted
from t9ksched.store.history_rows import BOUND as BOUND
from t9ksched.store.history_rows import CLOCK_SET as CLOCK_SET
from t9ksched.store.history_rows import Event as Event
from t9ksched.store.rows import BATCH, Named, of_jobs
from t9ksched.store.tables import history

SUBMITTED: Final = "submitted"
PHYSICAL: Final = "physicalCards"
"""In the detail of that: what the pod has of physical cards, a number."""
MODELS: Final = "models"
"""Key of the same by model where a pod has cards of several: model, amount, indices."""
WAITING: Final = "waiting"
STARTED: Final = "started"
FINISHED: Final = "finished"
REFUSED: Final = "refused"
DELETED: Final = "deleted"
TAKEN_BACK: Final = "taken-back"
TURNED_AWAY: Final = "turned-away"
"""A node did not admit a pod that was bound to it."""
PREEMPTED: Final = "preempted"
QUEUE_CREATED: Final = "queue-created"
QUEUE_CHANGED: Final = "queue-changed"
QUEUE_DELETED: Final = "queue-deleted"
TOKEN_CREATED: Final = "token-created"
TOKEN_REVOKED: Final = "token-revoked"
RELEASED: Final = "released"
"""A pod gave its cards back: it ended, or was deleted. Of a member of a gang also without cards, if it succeeded."""
SUCCEEDED: Final = "succeeded"
"""Key in the detail of that, true of a member that succeeded; its role, if it had one, is beside it."""
MEMBERS_CHANGED: Final = "queue-members-changed"
JOB_HELD: Final = "job-held"
JOB_RELEASED: Final = "job-released"
JOB_PRIORITISED: Final = "job-prioritised"
JOB_LIMITED: Final = "job-limited"
JOB_PAUSED: Final = "job-paused"
JOB_RESUMED: Final = "job-resumed"
JOB_SCALED: Final = "job-scaled"
JOB_CANCELLED: Final = "job-cancelled"
"""A user's own changes of a job: no administrative ones. One that was cancelled is deleted in a while."""
JOB_EXEC: Final = "job-exec"
"""A command was run in a pod of a job."""
TIME_LIMIT_EXCEEDED: Final = "time-limit-exceeded"
MAX_DURATION_EXCEEDED: Final = "max-duration-exceeded"
START_TIMED_OUT: Final = "start-timed-out"
DEPENDENCY_NOT_MET: Final = "dependency-not-met"
"""A job was ended because what it waited for can never come."""
PLAN_MOVED: Final = "plan-moved"
TIME_LIMIT_NEAR: Final = "time-limit-near"
"""A job is ended by its time limit in a few minutes."""
SUSPENSION_NEAR: Final = "suspension-near"
"""An idle workload is suspended soon."""
SUSPENDED_IDLE: Final = "suspended-idle"
"""A workload that nobody used was suspended."""
IDLE_SINCE: Final = "idleSince"
"""In the detail of that: since when nobody used it. It is suspended once for the time since then."""
NOTIFICATION_ADDED: Final = "notification-added"
"""A user or a manager of a queue named an address that is told what happens; its detail has no secret."""
NOTIFICATION_DELETED: Final = "notification-deleted"
STOPPED: Final = "stopped"
RESUMED: Final = "resumed"
RESERVATION_CREATED: Final = "reservation-created"
RESERVATION_CHANGED: Final = "reservation-changed"
RESERVATION_DELETED: Final = "reservation-deleted"
RESERVATION_RELEASED: Final = "reservation-released"
"""Nobody used an occurrence of a reservation, and its room is free again."""
RESERVATION_NODES_REPLACED: Final = "reservation-nodes-replaced"
"""Nodes that a reservation had chosen were lost, and others took their place."""
CARD_CORDONED: Final = "card-cordoned"
CARD_UNCORDONED: Final = "card-uncordoned"
RESERVATION_MISSED: Final = "reservation-missed"
"""The room of an occurrence was taken until its end."""
RESERVATION_OVER: Final = "reservation-over"
"""An occurrence ended in time."""

NODE_ADDED: Final = "node-added"
NODE_REMOVED: Final = "node-removed"
NODE_READY: Final = "node-ready"
NODE_NOT_READY: Final = "node-not-ready"
NODE_CORDONED: Final = "node-cordoned"
"""Kubernetes lets no new pod be placed there."""
NODE_UNCORDONED: Final = "node-uncordoned"
NODE_EVENTS: Final = frozenset({NODE_ADDED, NODE_REMOVED, NODE_READY, NODE_NOT_READY, NODE_CORDONED, NODE_UNCORDONED})

AUDITED: Final = frozenset(
    {
        QUEUE_CREATED,
        QUEUE_CHANGED,
        QUEUE_DELETED,
        MEMBERS_CHANGED,
        TOKEN_CREATED,
        TOKEN_REVOKED,
        JOB_HELD,
        JOB_RELEASED,
        JOB_PRIORITISED,
        JOB_LIMITED,
        JOB_EXEC,
        STOPPED,
        RESUMED,
        RESERVATION_CREATED,
        RESERVATION_CHANGED,
        RESERVATION_DELETED,
        CARD_CORDONED,
        CARD_UNCORDONED,
        NOTIFICATION_ADDED,
        NOTIFICATION_DELETED,
    }
)
"""Events that are administrative changes."""
OUTCOMES: Final = frozenset({RESERVATION_RELEASED, RESERVATION_MISSED, RESERVATION_OVER})
"""Events that say what became of an occurrence of a reservation: `from`, `to` and `message`."""
OF_EVERY_LIFE: Final = frozenset(
    {ACCEPTED, ADMITTED, BOUND, DELETED, FINISHED, REFUSED, RELEASED, STARTED, SUBMITTED, WAITING}
)
"""Events of the lives of all jobs, of which most of history consists: what asks for one of them names the job too."""
EVENTS: Final = (
    AUDITED
    | OUTCOMES
    | OF_EVERY_LIFE
    | NODE_EVENTS
    | {
        TAKEN_BACK,
        TURNED_AWAY,
        PREEMPTED,
        JOB_PAUSED,
        JOB_RESUMED,
        JOB_SCALED,
        JOB_CANCELLED,
        TIME_LIMIT_EXCEEDED,
        MAX_DURATION_EXCEEDED,
        START_TIMED_OUT,
        DEPENDENCY_NOT_MET,
        PLAN_MOVED,
        TIME_LIMIT_NEAR,
        SUSPENSION_NEAR,
        SUSPENDED_IDLE,
        RESERVATION_NODES_REPLACED,
        CLOCK_SET,
    }
)
"""All that there are."""
TEXT: Final = 2000
"""Characters of one text in an event that is no administrative change."""
_OF_NAMES: Final = frozenset({ACCEPTED, ADMITTED, BOUND})
"""Events of which the texts are names, that are short by their nature: most events are of these."""
AUDIT_RETENTION: Final = timedelta(days=730)
"""Administrative changes are kept at least this long, however short the retention of the rest is."""


_first = history.alias()
_OWN: Final = exists().where(
    _first.c.uid == history.c.uid, _first.c.event.in_((SUBMITTED, ACCEPTED)), by_users(_first.c.actor)
)
"""Asked of each row's job, of which there are few; a list of all jobs of a submitter would be long."""


class Visibility(msgspec.Struct, frozen=True):
    """What one user may see of histories: those of the user's own jobs, and of the queues and namespaces the user
    rules.

    With `within` only what lies in these queues, or in none.
    """

    user: str
    queues: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()

    def condition(self) -> ColumnElement[bool]:
        """As SQL: rows that the user wrote or that lie in those queues and namespaces, and all rows of jobs of the
        user.
        """
        seen = or_(history.c.actor == self.user, _OWN.where(_first.c.actor == self.user))
        if self.queues:
            seen |= history.c.queue.in_(self.queues)
        if self.namespaces:
            seen |= history.c.namespace.in_(self.namespaces)
        if not self.within:
            return seen
        return and_(seen, or_(history.c.queue.in_(self.within), history.c.queue.is_(None)))


async def record(connection: AsyncConnection, event: Event) -> None:
    """Write one event within the caller's transaction: either both the change and its record are written or neither."""
    await connection.run_sync(APPEND.write, [event])


Before = Callable[[Connection, Sequence[Event]], None]


class History:
    """The repository of events. `before` is told of those about to be written, in the same transaction."""

    def __init__(self, database: Database, before: Before | None = None) -> None:
        self._database = database
        self._before = before

    async def append_many(self, events: Sequence[Event]) -> None:
        """Write events in their order, a thousand a transaction."""
        for start in range(0, len(events), BATCH):
            await self._database.transact(partial(self.add, events=events[start : start + BATCH]))

    def add(self, connection: Connection, events: Sequence[Event]) -> None:
        """Write events within the caller's transaction."""
        if self._before is not None:
            self._before(connection, events)
        history_rows.write(connection, [_bounded(event) for event in events])

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
        actor: str | None = None,
        events: Collection[str] | None = None,
        queues: Collection[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        seen_by: Visibility | None = None,
        after: int = 0,
        limit: int = 200,
        newest_first: bool = False,
    ) -> list[Event]:
        """Events that match every filter given, oldest first, those after the cursor `after`.

        With `newest_first` the order is turned round, and the cursor is the smallest id seen (0 for the first page).
        Quick are questions about one job, by its namespace and name, and about events that are not of every life.
        """
        filters = {"uid": uid, "namespace": namespace, "name": name, "kind": kind, "queue": queue, "actor": actor}
        names = [frozenset(some) for some in (events, None if event is None else (event,)) if some is not None]
        wanted = Wanted(frozenset.intersection(*names) if names else None, since, until, after, newest_first)
        query = select(*COLUMNS).order_by(history.c.id.desc() if newest_first else history.c.id).limit(limit)
        if event is not None or events:
            named = {event} if event is not None else set(events or ())
            query = query.where(text(SELDOM)) if named.isdisjoint(OF_EVERY_LIFE) else query
        if queues is not None:
            query = query.where(history.c.queue.in_(queues))
        if seen_by is not None:
            query = query.where(seen_by.condition())
        for column, value in filters.items():
            if value is not None:
                query = query.where(history.c[column] == value)
        rows, asked = await self._database.fetch(query.where(*wanted.rows())), limit
        found = wanted.of(rows)
        while len(found) < limit and len(rows) == asked:  # rows had events that are not wanted, and many may
            last, asked = rows[-1][-1], max(limit, BATCH)
            behind = history.c.id < last if newest_first else history.c.id > last
            rows = await self._database.fetch(query.where(*wanted.rows(), behind).limit(asked))
            found += wanted.of(rows)
        return found[:limit]

    async def last_times(self, jobs: Sequence[Named]) -> dict[str, datetime]:
        """When the last event of each of these jobs was, by UID; unknown jobs are left out."""
        found: dict[str, datetime] = {}
        for start in range(0, len(jobs), BATCH):
            async with self._database.read() as connection:
                for chosen in of_jobs(connection, history, jobs[start : start + BATCH]):
                    query = select(history.c.uid, func.max(history.c.at)).where(chosen).group_by(history.c.uid)
                    for uid, at in (await connection.execute(query)).all():
                        found[uid] = at
        return found

    async def submitter(self, uid: str) -> str | None:
        """The user who submitted the object of that UID by this service; None if it was created otherwise."""
        chosen = (history.c.uid == uid) & (history.c.event == SUBMITTED) & by_users(history.c.actor)
        rows = await self._database.fetch(select(history.c.actor).where(chosen).order_by(history.c.id).limit(1))
        return str(rows[0][0]) if rows else None

    async def purge(self, before: datetime) -> int:
        """Drop events older than `before`, administrative ones only past `AUDIT_RETENTION`; how many.

        Works in small transactions. Rows are in the order of their times but for some that clocks wrote which were set:
        it walks from the first row on, and ends where it finds a thousand that are newer. Those that a clock dated to
        the future do not end it.
        """
        dropped, last = 0, 0
        now = datetime.now(UTC)
        audit_before = min(before, now - AUDIT_RETENTION)
        while True:
            page = select(history.c.id, history.c.at, history.c.event).where(history.c.id > last)
            found = await self._database.fetch(page.order_by(history.c.id).limit(BATCH))
            old = [id_ for id_, at, event in found if at < (audit_before if event in AUDITED else before)]
            if old:
                async with self._database.write() as connection:
                    dropped += int((await connection.execute(delete(history).where(history.c.id.in_(old)))).rowcount)
            if len(found) < BATCH or (any(at <= now for _, at, _ in found) and all(at >= before for _, at, _ in found)):
                return dropped
            last = found[-1][0]


def _bounded(event: Event) -> Event:
    """An event without texts of any length, which users may have written; what was decided about is kept whole."""
    if event.event in _OF_NAMES or event.event in AUDITED:
        return event
    for value in event.detail.values():  # nearly all are short
        if isinstance(value, str) and len(value) > TEXT:
            break
    else:
        return event
    cut = {
        key: f"{value[:TEXT]}… ({len(value)} characters)" if isinstance(value, str) and len(value) > TEXT else value
        for key, value in event.detail.items()
    }
    return structs.replace(event, detail=cut)
