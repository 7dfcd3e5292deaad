"""GPU-hours: sums that are kept while history is written, so that a report need not read it.

`usage_open` has a row a pod that holds cards now, `usage_job` what must be remembered of its job, `usage_span` what is
over, `usage_sum` the hours of a day by queue, user, namespace, model and resource. All are written in the transaction
of the events themselves. Spans leave with history; sums stay, so retention by age loses no hour.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Interval,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.store.bulk import Bulk
from t9ksched.store.database import Database
from t9ksched.store.history import ACCEPTED, CLOCK_SET, Event, Visibility
from t9ksched.store.rows import BATCH, among, upserting
from t9ksched.store.spans import (
    EVENTS,
    SCHEDULER,
    SUMMED,
    WHOLE,
    Amount,
    Fold,
    GroupKey,
    Job,
    Piece,
    Span,
    SumKey,
    add,
    cards_of,
    says_nothing,
    sums,
    table,
)
from t9ksched.store.tables import history, usage_job, usage_open, usage_span, usage_sum

_WHOLE: Final = sorted(WHOLE)
_ANY_TIME: Final = datetime.min.replace(tzinfo=UTC)
"""Of events before a job's first cards: there is no span yet that they could end or change."""
_STATE: Final = tuple(column.name for column in usage_open.columns)
_COLUMNS: Final = {
    "queue": usage_sum.c.queue,
    "user": usage_sum.c.submitter,
    "namespace": usage_sum.c.namespace,
    "model": usage_sum.c.model,
    "resource": usage_sum.c.resource,
    "month": func.substr(usage_sum.c.day, 1, 7),
}


class Usage:
    """The repository of sums and spans."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, connection: Connection, events: Sequence[Event]) -> None:
        """Keep the sums in step with events that are about to be written, within the caller's transaction.

        Spans that were open when the clock was set are moved with it: they are as long as they lasted.
        """
        since = 0
        for number, event in enumerate(events):
            if event.event == CLOCK_SET:
                self._take(connection, events[since:number])
                _move(connection, timedelta(seconds=float(event.detail.get("seconds", 0))))
                since = number + 1
        self._take(connection, events[since:])

    def _take(self, connection: Connection, events: Sequence[Event]) -> None:
        """The same for events between which the clock was not set."""
        told = [event for event in events if event.uid and event.event in EVENTS and not says_nothing(event)]
        if not told:
            return
        jobs = _jobs(connection, {str(event.uid) for event in told})
        fresh = {str(event.uid) for event in told if cards_of(event)} - jobs.keys()
        told = [event for event in told if event.uid in jobs or event.uid in fresh]
        if not told:
            return
        before = {uid: (job.submitter, job.running, set(job.months)) for uid, job in jobs.items()}
        _open_spans(connection, jobs, told)
        fold = Fold(jobs)
        for event in _earlier(connection, fresh):
            fold.take(event)
        for event in told:
            fold.take(event)
        changed = sums(fold.closed, jobs)
        _write_spans(connection, fold)
        _write_sums(connection, changed)
        gone = [uid for uid, job in jobs.items() if job.gone and not job.open]
        kept = [
            _JobRow(uid, job.submitter, job.running, sorted(job.months))
            for uid, job in jobs.items()
            if not (job.gone and not job.open) and before.get(uid) != (job.submitter, job.running, job.months)
        ]
        _PUT_JOBS.write(connection, kept)
        if gone:
            connection.execute(delete(usage_job).where(usage_job.c.uid.in_(gone)))

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
            for lo, hi in edges:
                cut = await _closed(connection, lo, hi, seen_by)
                add(total, table(cut, by, since=lo, until=hi, mark=lambda *_: None))
            running, months = await _running(connection, seen_by)
        # In a thread: other requests shall not wait for sums over many.
        goes_on = await asyncio.to_thread(table, running, by, since=since, until=until, mark=_uncounted(months))
        add(total, goes_on)
        return total

    async def _from_spans(
        self, by: Sequence[str], since: datetime | None, until: datetime, seen_by: Visibility | None
    ) -> dict[GroupKey, Amount]:
        async with self._database.read() as connection:
            spans = await _closed(connection, since, until, seen_by)
            running, _ = await _running(connection, seen_by)
        return await asyncio.to_thread(table, [*spans, *running], by, since=since, until=until)

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

    async def purge(self, before: datetime) -> int:
        """Drop spans that were over before that time, their sums stay; how many. Works in small transactions."""
        dropped = 0
        while True:
            async with self._database.write() as connection:
                old = select(usage_span.c.id).where(usage_span.c.ended_at < before).limit(BATCH).scalar_subquery()
                count = int((await connection.execute(delete(usage_span).where(usage_span.c.id.in_(old)))).rowcount)
            dropped += count
            if count < BATCH:
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


def _uncounted(months: dict[str, frozenset[str]]) -> Any:
    """A job counts once in each month; in which it was counted by spans that are over, the sums have it."""

    def mark(_: GroupKey, span: Span, piece: Piece) -> Any:
        month = piece.day[:7]
        return None if month in months.get(span.uid, ()) else (span.uid, month)

    return mark


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
        spans += [_span(row) for row in found]
        if len(found) < BATCH:
            return spans
        after = found[-1]["id"]


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
    return [_span(row) for row in (await connection.execute(query)).mappings()]


def _jobs(connection: Connection, uids: Collection[str]) -> dict[str, Job]:
    query = select(usage_job).where(among(connection, usage_job.c.uid, uids))
    rows = (connection.execute(query)).mappings()
    return {row["uid"]: Job(row["submitter"], row["running"], set(row["months"])) for row in rows}


def _open_spans(connection: Connection, jobs: dict[str, Job], told: Sequence[Event]) -> None:
    """Read the open spans that the events may end or change: all of a job, or those of one pod."""
    whole = {str(event.uid) for event in told if event.event in WHOLE and event.uid in jobs}
    pods = {(str(event.uid), str(event.detail.get("pod"))) for event in told if event.uid in jobs}
    single = sorted(pair for pair in pods if pair[0] not in whole)
    chosen = [among(connection, usage_open.c.uid, whole)] if whole else []
    key = tuple_(usage_open.c.uid, usage_open.c.pod)
    chosen += [key.in_(single[start : start + BATCH]) for start in range(0, len(single), BATCH)]
    for one in chosen:
        for row in (connection.execute(select(usage_open).where(one))).mappings():
            span = _span(row)
            span.stored = True
            jobs[span.uid].open[span.pod] = span


def _move(connection: Connection, by: timedelta) -> None:
    """Move the times of open spans."""

    def moved(column: Column[Any]) -> ColumnElement[Any]:
        if connection.dialect.name == "sqlite":  # times are text there, with microseconds
            text = func.strftime("%Y-%m-%d %H:%M:%f", column, f"{by.total_seconds():+.3f} seconds")
            return text.op("||")("000")
        return column + literal(by, Interval())

    values = {column.name: moved(column) for column in (usage_open.c.bound_at, usage_open.c.ran_at)}
    connection.execute(update(usage_open).values(values))


def _earlier(connection: Connection, uids: Collection[str]) -> list[Event]:
    """Events of jobs before they first got cards, as far as these name the submitter or say that the job runs."""
    if not uids:
        return []
    submitter = history.c.detail["submitter"].as_string()
    speaks = (history.c.event != ACCEPTED) | (history.c.actor != SCHEDULER) | submitter.is_not(None)
    chosen = among(connection, history.c.uid, uids) & history.c.event.in_(_WHOLE) & speaks
    query = select(history.c.uid, history.c.event, history.c.actor, submitter).where(chosen).order_by(history.c.id)
    return [
        Event(uid=uid, event=event, at=_ANY_TIME, actor=actor, detail={"submitter": submitter})
        for uid, event, actor, submitter in connection.execute(query)
    ]


def _write_spans(connection: Connection, fold: Fold) -> None:
    ended = [{"of_uid": span.uid, "of_pod": span.pod} for span in fold.closed if span.stored]
    this_one = (usage_open.c.uid == bindparam("of_uid")) & (usage_open.c.pod == bindparam("of_pod"))
    if ended:
        connection.execute(delete(usage_open).where(this_one), ended)
    _ADD_CLOSED.write(connection, fold.closed)
    running = fold.open
    changed = [
        {"of_uid": span.uid, "of_pod": span.pod, "ran": span.ran, "by": span.submitter}
        for span in running
        if span.stored and span.changed
    ]
    if changed:
        values: dict[str, Any] = {"ran_at": bindparam("ran"), "submitter": bindparam("by")}
        connection.execute(update(usage_open).where(this_one).values(values), changed)
    _ADD_OPEN.write(connection, [span for span in running if not span.stored])


def _write_sums(connection: Connection, changed: dict[SumKey, Amount]) -> None:
    lines = [_SumRow(*key, total.amount, total.held, total.jobs) for key, total in sorted(changed.items())]
    _ADD_SUMS.write(connection, lines)


def _span(row: RowMapping) -> Span:
    values = {name: row[name] for name in _STATE}
    bound, ran = values.pop("bound_at"), values.pop("ran_at")
    ended = row.get("ended_at")
    return Span(**values | {"cards": tuple(values["cards"])}, bound=bound, ran=ran, ended=ended)


class _JobRow(NamedTuple):
    """A row of `usage_job`."""

    uid: str
    submitter: str
    running: bool
    months: list[str]


class _SumRow(NamedTuple):
    """A row of `usage_sum`."""

    day: str
    queue: str
    submitter: str
    namespace: str
    model: str
    resource: str
    amount: int
    held: int
    jobs: int


_ATTRIBUTES: Final = {"bound_at": "bound", "ran_at": "ran", "ended_at": "ended"}
_ADD_OPEN: Final[Bulk[Span]] = Bulk(usage_open, _STATE, lambda _: insert(usage_open).inline(), attributes=_ATTRIBUTES)
_ADD_CLOSED: Final[Bulk[Span]] = Bulk(
    usage_span, (*_STATE, "ended_at"), lambda _: insert(usage_span).inline(), attributes=_ATTRIBUTES
)
_PUT_JOBS: Final[Bulk[_JobRow]] = upserting(usage_job, _JobRow._fields)
_ADD_SUMS: Final[Bulk[_SumRow]] = upserting(usage_sum, _SumRow._fields, adds=("amount", "held", "jobs"))
