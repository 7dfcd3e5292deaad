"""Idle and free GPU-hours: what workloads held unused before they were suspended for that, and what was free then.

A row is a pod that a workload had when it was suspended. Its cards were idle from the last use until then, and free
from then until the workload has cards again, or is deleted. Rows leave with history.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import structs
from sqlalchemy import ColumnElement, Connection, insert, or_, select, update
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.model.idle_policy import KINDS
from t9ksched.store.history import BOUND, DELETED, IDLE_SINCE, SUSPENDED_IDLE, Event
from t9ksched.store.idle_tables import usage_idle
from t9ksched.store.spans import Amount, GroupKey, add, span_of, table
from t9ksched.store.tables import usage_open, usage_span

_KINDS: Final = frozenset(KINDS.values())
_JUST_ENDED: Final = timedelta(minutes=1)
"""A pod that ended so shortly before its workload was known to be suspended ended by that."""
_COLUMNS: Final = tuple(column.name for column in usage_open.columns)


def keep_idle(connection: Connection, events: Sequence[Event]) -> None:
    """Follow events that are about to be written, within the transaction that writes them, after their spans were."""
    for event in events:
        if event.kind not in _KINDS or event.uid is None:
            continue
        if event.event == SUSPENDED_IDLE:
            _suspended(connection, event)
        elif event.event in (BOUND, DELETED):
            mine = (usage_idle.c.uid == event.uid) & usage_idle.c.free_until.is_(None)
            ended = usage_idle.c.ended_at <= event.at
            connection.execute(update(usage_idle).where(mine & ended).values(free_until=event.at))


def _suspended(connection: Connection, event: Event) -> None:
    known = (usage_idle.c.uid == event.uid) & (usage_idle.c.ended_at == event.at)
    if connection.execute(select(usage_idle.c.id).where(known).limit(1)).first() is not None:
        return  # the answer of the transaction that wrote it was lost
    since = _moment(event.detail.get(IDLE_SINCE), event.at)
    # Later events of the same transaction are in the spans already: what was bound later is none of these pods.
    had = (usage_open.c.uid == event.uid) & (usage_open.c.bound_at <= event.at)
    pods = connection.execute(select(usage_open).where(had)).mappings().all()
    if not pods:
        had = (usage_span.c.uid == event.uid) & (usage_span.c.bound_at <= event.at)
        just = usage_span.c.ended_at >= event.at - _JUST_ENDED
        pods = connection.execute(select(usage_span).where(had & just)).mappings().all()
    again = _bound_after(connection, event)
    if lines := [_line(pod, min(max(since, pod["bound_at"]), event.at), event.at) | again for pod in pods]:
        connection.execute(insert(usage_idle), lines)


def _bound_after(connection: Connection, event: Event) -> dict[str, datetime]:
    """When it had cards again, if that is on record already: a suspension before a crash is written after it."""
    found: list[datetime] = []
    for spans in (usage_open, usage_span):
        later = (spans.c.uid == event.uid) & (spans.c.bound_at > event.at)
        found += connection.execute(select(spans.c.bound_at).where(later).order_by(spans.c.bound_at).limit(1)).scalars()
    return {"free_until": min(found)} if found else {}


def _line(pod: RowMapping, since: datetime, at: datetime) -> dict[str, Any]:
    return {name: pod[name] for name in _COLUMNS} | {"idle_since": since, "ended_at": at}


def _moment(text: Any, usual: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return usual
    return found if found.tzinfo else found.replace(tzinfo=UTC)


async def idle_hours(
    connection: AsyncConnection,
    by: Sequence[str],
    since: datetime | None,
    until: datetime,
    seen: Sequence[ColumnElement[bool]],
) -> dict[GroupKey, Amount]:
    """Idle and free card-microseconds of the window, grouped as a report is."""
    window = [usage_idle.c.idle_since < until]
    if since is not None:
        window.append(or_(usage_idle.c.free_until.is_(None), usage_idle.c.free_until > since))
    rows = (await connection.execute(select(usage_idle).where(*window, *seen))).mappings().all()
    idle, free = [], []
    for row in rows:
        span = span_of(row)
        idle.append(structs.replace(span, bound=row["idle_since"], ended=row["ended_at"]))
        free.append(structs.replace(span, bound=row["ended_at"], ended=row["free_until"]))
    found: dict[GroupKey, Amount] = {}
    for key, amount in table(idle, by, since=since, until=until).items():
        add(found, {key: Amount(idle=amount.amount)})
    for key, amount in table(free, by, since=since, until=until).items():
        add(found, {key: Amount(free=amount.amount)})
    return found
