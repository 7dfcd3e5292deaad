"""GPU-hours: sums that are kept while history is written, so that a report need not read it.

`usage_open` has a row a pod that holds cards now, `usage_job` what must be remembered of its job (of a single pod its
only span says it), `usage_span` what is over, `usage_sum` the hours of a day by queue, user, namespace, model and
resource. All are written in the transaction of the events themselves (`usage_keeping.py`). Spans leave with history;
sums stay, so retention by age loses no hour.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, delete, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.store.database import Database
from t9ksched.store.history import RELEASED, Event, Visibility
from t9ksched.store.idle_spans import idle_hours
from t9ksched.store.idle_tables import usage_idle
from t9ksched.store.rows import BATCH, among
from t9ksched.store.spans import SCHEDULER, SUMMED, Amount, GroupKey, Piece, Span, add, pieces, span_of, table
from t9ksched.store.tables import usage_job, usage_open, usage_span, usage_sum

_COLUMNS: Final = {
    "queue": usage_sum.c.queue,
    "user": usage_sum.c.submitter,
    "namespace": usage_sum.c.namespace,
    "model": usage_sum.c.model,
    "resource": usage_sum.c.resource,
    "month": func.substr(usage_sum.c.day, 1, 7),
}


class Holder(NamedTuple):
    """A pod that holds cards: the UID and the title of its job, and the queue that pays."""

    uid: str
    namespace: str
    job: str
    queue: str
    pod: str

    def released(self, at: datetime) -> Event:
        """The event that tells that it gave them back."""
        kind, _, name = self.job.partition("/")
        return Event(
            event=RELEASED,
            at=at,
            kind=kind,
            namespace=self.namespace,
            name=name,
            uid=self.uid,
            queue=self.queue,
            actor=SCHEDULER,
            detail={"pod": self.pod},
        )


class Usage:
    """The repository of sums and spans."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self,
        by: Sequence[str],
        *,
        since: datetime | None,
        until: datetime,
        now: datetime,
        seen_by: Visibility | None = None,
    ) -> dict[GroupKey, Amount]:
        """Hours of the window, grouped; what goes on counts up to `until`, at most to `now`.

        By what sums are kept of, whole days come from them and the rest of a day from spans; by job, node or card all
        comes from spans. A window that cuts through a day older than the retention loses that part of the day.
        """
        until = min(until, now)
        if since is not None and since >= until:
            return {}
        if not set(by) <= SUMMED:
            return await self._from_spans(by, since, until, seen_by)
        days, edges = _days(since, until, now)
        async with self._database.read() as connection:
            total = await _from_sums(connection, by, days, seen_by) if days else {}
            parts = [(lo, hi, await _closed(connection, lo, hi, seen_by)) for lo, hi in edges]
            again = await _again(connection, since, until, seen_by)
            running, months = await _running(connection, seen_by)
            counted = {(uid, month) for uid, known in months.items() for month in known}
            if since is not None or edges:
                unsure = {span.uid for _, _, spans in parts for span in spans} | {span.uid for span in again}
                counted = await _in_sums(connection, unsure | {uid for uid, _ in counted}, days, counted)
            idle = await idle_hours(connection, by, since, until, _seen(usage_idle, seen_by))
        add(total, idle)
        once = _Once(counted)
        # In a thread: other requests shall not wait for sums over many.
        for lo, hi, spans in (*parts, (since, until, running)):
            add(total, await asyncio.to_thread(table, spans, by, since=lo, until=hi, mark=once.mark))
            once.known()
        jobs = await asyncio.to_thread(table, again, by, since=since, until=until, mark=once.mark)
        add(total, {key: Amount(jobs=one.jobs) for key, one in jobs.items() if one.jobs})
        return total

    async def _from_spans(
        self, by: Sequence[str], since: datetime | None, until: datetime, seen_by: Visibility | None
    ) -> dict[GroupKey, Amount]:
        async with self._database.read() as connection:
            spans = await _closed(connection, since, until, seen_by)
            running, _ = await _running(connection, seen_by)
            idle = await idle_hours(connection, by, since, until, _seen(usage_idle, seen_by))
        found = await asyncio.to_thread(table, [*spans, *running], by, since=since, until=until)
        add(found, idle)
        return found

    async def running(self, before: datetime) -> AsyncIterator[list[Span]]:
        """Spans that go on and began before that time, a thousand at a time."""
        after = ("", "")
        while True:
            async with self._database.read() as connection:
                spans = await _open_page(connection, after, [usage_open.c.bound_at < before])
            yield spans
            if len(spans) < BATCH:
                return
            after = (spans[-1].uid, spans[-1].pod)

    async def holders(self, before: datetime) -> AsyncIterator[list[Holder]]:
        """The pods of these spans, at a fraction of the cost."""
        key = tuple_(usage_open.c.uid, usage_open.c.pod)
        columns = [usage_open.c[name] for name in Holder._fields]
        query = select(*columns).where(usage_open.c.bound_at < before).order_by(usage_open.c.uid, usage_open.c.pod)
        after = ("", "")
        while True:
            rows = await self._database.fetch(query.where(key > after).limit(BATCH))
            holders = [Holder(*row) for row in rows]
            yield holders
            if len(holders) < BATCH:
                return
            after = (holders[-1].uid, holders[-1].pod)

    async def purge(self, before: datetime) -> int:
        """Drop spans that were over before that time, their sums stay; how many. Works in small transactions."""
        dropped = 0
        while True:
            async with self._database.write() as connection:
                old = select(usage_span.c.id).where(usage_span.c.ended_at < before).limit(BATCH).scalar_subquery()
                count = int((await connection.execute(delete(usage_span).where(usage_span.c.id.in_(old)))).rowcount)
            dropped += count
            if count < BATCH:
                break
        async with self._database.write() as connection:
            await connection.execute(delete(usage_idle).where(usage_idle.c.free_until < before))
        return dropped


def _days(
    since: datetime | None, until: datetime, now: datetime
) -> tuple[tuple[str | None, str | None] | None, list[tuple[datetime, datetime]]]:
    """The whole days `[first, end)` of a window, None for no bound, and what is left of it at its ends."""
    edges = []
    first: datetime | None = None
    end = None if until >= now else _midnight(until)
    if since is not None:
        first = _midnight(since)
        if first < since:
            first += timedelta(days=1)
            if end is not None and first > end:
                return None, [(since, until)]
            edges.append((since, min(first, until)))
    if end is not None and end < until:
        edges.append((end, until))
    if first is not None and first >= (end or now):
        return None, edges
    return (_day(first), _day(end)), edges


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%d")


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


class _Once:
    """Counts a job once in each month, in one table after another, unless it is `counted` by the sums."""

    def __init__(self, counted: set[tuple[str, str]]) -> None:
        self._counted = counted
        self._now: set[tuple[str, str]] = set()

    def mark(self, _: GroupKey, span: Span, piece: Piece) -> tuple[str, str] | None:
        """As what a span counts in the month of a piece of it."""
        sign = (span.uid, piece.day[:7])
        if sign in self._counted:
            return None
        self._now.add(sign)
        return sign

    def known(self) -> None:
        """The table is made."""
        self._counted |= self._now
        self._now.clear()


async def _in_sums(
    connection: AsyncConnection,
    uids: set[str],
    days: tuple[str | None, str | None] | None,
    by_rows: set[tuple[str, str]],
) -> set[tuple[str, str]]:
    """Which of these jobs the sums of those days count, and in which months: on the first day of the span that was over
    first. Where history does not have that any more it is as `by_rows` says.
    """
    found: dict[tuple[str, str], str] = {}
    wanted = sorted(uids)
    for start in range(0, len(wanted), BATCH):
        chosen = among(connection, usage_span.c.uid, wanted[start : start + BATCH])
        for row in (await connection.execute(select(usage_span).where(chosen).order_by(usage_span.c.id))).mappings():
            span = span_of(row)
            if span.ended is not None:
                for piece in pieces(span, None, span.ended):
                    found.setdefault((span.uid, piece.day[:7]), piece.day)
    first, end = days or ("", "")
    counted = {sign for sign, day in found.items() if (first is None or day >= first) and (end is None or day < end)}
    return counted | (by_rows - found.keys())


def _seen(source: Any, visibility: Visibility | None) -> list[ColumnElement[bool]]:
    if visibility is None:
        return []
    columns = source.c
    seen = or_(
        columns.submitter == visibility.user,
        columns.queue.in_(visibility.queues),
        columns.namespace.in_(visibility.namespaces),
    )
    return [seen, columns.queue.in_(visibility.within)] if visibility.within else [seen]


async def _from_sums(
    connection: AsyncConnection, by: Sequence[str], days: tuple[str | None, str | None], visibility: Visibility | None
) -> dict[GroupKey, Amount]:
    groups = [_COLUMNS[name] for name in by]
    amounts = (func.sum(usage_sum.c.amount), func.sum(usage_sum.c.held), func.sum(usage_sum.c.jobs))
    query = select(*groups, *amounts).where(*_seen(usage_sum, visibility)).group_by(*groups)
    first, end = days
    query = query if first is None else query.where(usage_sum.c.day >= first)
    query = query if end is None else query.where(usage_sum.c.day < end)
    found = (await connection.execute(query)).all()
    return {tuple(row[:-3]): Amount(int(row[-3]), int(row[-2]), int(row[-1])) for row in found}


async def _closed(
    connection: AsyncConnection, since: datetime | None, until: datetime, visibility: Visibility | None
) -> list[Span]:
    wanted = [usage_span.c.bound_at < until, *_seen(usage_span, visibility)]
    if since is not None:
        wanted.append(usage_span.c.ended_at > since)
    spans: list[Span] = []
    after = 0
    while True:
        query = select(usage_span).where(usage_span.c.id > after, *wanted).order_by(usage_span.c.id).limit(BATCH)
        found = (await connection.execute(query)).mappings().all()
        spans += [span_of(row) for row in found]
        if len(found) < BATCH:
            return spans
        after = found[-1]["id"]


async def _again(
    connection: AsyncConnection, since: datetime | None, until: datetime, visibility: Visibility | None
) -> list[Span]:
    """Spans within the window, over by now, of jobs that had cards before it in the same month, where the sums count
    them.
    """
    begin = None if since is None else _midnight(since).replace(day=1)
    if since is None or begin is None or begin == since:
        return []
    before = select(usage_span.c.uid).where(usage_span.c.ended_at > begin, usage_span.c.bound_at < since)
    within = [usage_span.c.ended_at > since, usage_span.c.bound_at < until, usage_span.c.uid.in_(before)]
    query = select(usage_span).where(*within, *_seen(usage_span, visibility))
    return [span_of(row) for row in (await connection.execute(query)).mappings()]


async def _running(
    connection: AsyncConnection, visibility: Visibility | None
) -> tuple[list[Span], dict[str, frozenset[str]]]:
    """Spans that go on, and the months that their jobs were counted in."""
    spans: list[Span] = []
    after = ("", "")
    while page := await _open_page(connection, after, _seen(usage_open, visibility)):
        spans += page
        after = (page[-1].uid, page[-1].pod)
    months: dict[str, frozenset[str]] = {}
    uids = list(dict.fromkeys(span.uid for span in spans))
    for start in range(0, len(uids), BATCH):
        chosen = among(connection, usage_job.c.uid, uids[start : start + BATCH])
        counted = await connection.execute(select(usage_job.c.uid, usage_job.c.months).where(chosen))
        months |= {uid: frozenset(found) for uid, found in counted.all()}
    return spans, months


async def _open_page(
    connection: AsyncConnection, after: tuple[str, str], wanted: Sequence[ColumnElement[bool]]
) -> list[Span]:
    """The next open spans, in the order of their keys."""
    key = tuple_(usage_open.c.uid, usage_open.c.pod)
    query = select(usage_open).where(key > after, *wanted).order_by(usage_open.c.uid, usage_open.c.pod).limit(BATCH)
    return [span_of(row) for row in (await connection.execute(query)).mappings()]
