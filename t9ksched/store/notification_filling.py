"""Fills the outbox of notifications in the transaction that records what happened: neither is there without the other.

Of a job the user is told who submitted it, as its record says, and those who manage its queue. Members of a gang are
evicted one by one, which is one eviction to users.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, func, insert, or_, select

from t9ksched.model.notification import PREEMPTED
from t9ksched.store import history
from t9ksched.store.history import Event
from t9ksched.store.notification_tables import notification, notification_target
from t9ksched.store.notified_events import Said, said
from t9ksched.store.rows import among, of_jobs
from t9ksched.store.tables import acceptance, job
from t9ksched.store.tables import history as past

SAME_EVICTION: Final = timedelta(seconds=60)
"""Members of one gang that are evicted within this time are evicted together."""


class _Told(NamedTuple):
    event: Event
    said: Said


def enqueue(connection: Connection, events: Sequence[Event]) -> None:
    """Write what is to be sent because of these events, which are written already, within the caller's transaction."""
    told = [_Told(event, meaning) for event in events if (meaning := said(event)) is not None]
    if not told or connection.execute(select(notification_target.c.id).limit(1)).first() is None:
        return
    told = list(_once(connection, told))
    submitters = _submitters(connection, {str(one.event.uid) for one in told})
    queues = {one.event.queue for one in told if one.event.queue}
    wanting = _wanting(connection, set(submitters.values()), queues)
    now = datetime.now(UTC)
    rows = [
        row_of(target.id, one.said, one.event, submitters.get(str(one.event.uid)), now)
        for one in told
        for target in (*wanting.get((one.event.queue, None), ()), *_own(wanting, submitters, one))
        if _concerns(target, one, submitters.get(str(one.event.uid)))
    ]
    if rows:
        connection.execute(insert(notification), rows)


def row_of(target: str, said: Said, event: Event | None, submitter: str | None, now: datetime) -> dict[str, Any]:
    """A row of the outbox: its body is what receivers get. `id` tells them what they had before."""
    about: dict[str, str | None] = {
        name: getattr(event, name, None) for name in ("kind", "namespace", "name", "uid", "queue")
    }
    at = event.at if event is not None else now
    body: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "type": said.type,
        "at": at.astimezone(UTC).isoformat(timespec="seconds"),
    }
    body |= about | {"submitter": submitter, "message": said.message}
    return {"target": target, "body": body, "at": now, "attempts": 0, "due_at": now}


def _once(connection: Connection, told: Iterable[_Told]) -> Iterable[_Told]:
    """All but evictions of further members of a gang."""
    told = list(told)
    evicted = Counter(str(one.event.uid) for one in told if one.said.type == PREEMPTED)
    jobs = [one.event for one in told if one.said.type == PREEMPTED]
    before = _evictions(connection, jobs, min((one.event.at for one in told), default=datetime.now(UTC)))
    seen: set[str] = set()
    for one in told:
        uid = str(one.event.uid)
        if one.said.type != PREEMPTED:
            yield one
        elif uid not in seen and before.get(uid, 0) <= evicted[uid]:
            seen.add(uid)
            yield one


def _evictions(connection: Connection, jobs: Iterable[Event], first: datetime) -> Mapping[str, int]:
    """How many evictions are on record of each job within the time that counts as one, those just written included."""
    recent = (past.c.event == history.PREEMPTED) & (past.c.at >= first - SAME_EVICTION)
    found: dict[str, int] = {}
    for these in of_jobs(connection, past, jobs):
        query = select(past.c.uid, func.count()).where(these & recent).group_by(past.c.uid)
        found |= {row[0]: row[1] for row in connection.execute(query)}
    return found


def _submitters(connection: Connection, uids: Collection[str]) -> dict[str, str]:
    """Who submitted the jobs of these UIDs, as far as that is on record."""
    found: dict[str, str] = {}
    for column in (acceptance.c, job.c):  # what is known of the job itself wins
        query = select(column.uid, column.submitter).where(among(connection, column.uid, uids))
        found |= {uid: submitter for uid, submitter in connection.execute(query) if submitter}
    return found


def _own(wanting: "_Wanting", submitters: Mapping[str, str], told: _Told) -> Sequence[Any]:
    """The targets of the user who submitted the job."""
    submitter = submitters.get(str(told.event.uid))
    return () if submitter is None else wanting.get((None, submitter), ())


_Wanting = Mapping[tuple[str | None, str | None], Sequence[Any]]
"""Targets by their queue, or else by their user."""


def _wanting(connection: Connection, users: Collection[str], queues: Collection[str]) -> _Wanting:
    """Targets that are in use, of these users for themselves and of these queues."""
    column = notification_target.c
    own = and_(column.queue.is_(None), among(connection, column.owner, users))
    chosen = or_(own, among(connection, column.queue, queues)) & column.disabled_at.is_(None)
    query = select(column.id, column.owner, column.queue, column.within, column.events).where(chosen)
    found: defaultdict[tuple[str | None, str | None], list[Any]] = defaultdict(list)
    for target in connection.execute(query.order_by(column.id)):
        found[target.queue, None if target.queue is not None else target.owner].append(target)
    return found


def _concerns(target: Any, told: _Told, submitter: str | None) -> bool:
    queue = told.event.queue
    if told.said.answers.isdisjoint(target.events):
        return False
    if target.queue is not None:
        return bool(target.queue == queue)
    return target.owner == submitter and (not target.within or not queue or queue in target.within)
