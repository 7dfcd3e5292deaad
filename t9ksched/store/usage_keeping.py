"""Keeps the sums and spans of `usage.py` in step with events, in the transaction that writes those.

Stored are the spans that go on, those that are over, sums of the latter, and what must be remembered of jobs between
events. A single pod that holds cards for the first time has no row of the last kind: its open span says all.
"""

from collections.abc import Collection, Container, Sequence
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
    select,
    tuple_,
    update,
)

from t9ksched.store.bulk import Bulk
from t9ksched.store.conditions import by_users
from t9ksched.store.history import ACCEPTED, BOUND, CLOCK_SET, Event
from t9ksched.store.idle_spans import keep_idle
from t9ksched.store.rows import BATCH, among, of_jobs, upserting
from t9ksched.store.spans import (
    EVENTS,
    SCHEDULER,
    WHOLE,
    Amount,
    Fold,
    Job,
    Span,
    SumKey,
    cards_of,
    says_nothing,
    span_of,
    sums,
)
from t9ksched.store.tables import history, usage_job, usage_open, usage_span, usage_sum

_WHOLE: Final = sorted(WHOLE)
_POD: Final = "Pod"
"""Kind of a job that is one pod, and whose UID is the pod's."""
_OF_POD: Final = f"{_POD}/"
_ANY_TIME: Final = datetime.min.replace(tzinfo=UTC)
"""Of events before a job's first cards: there is no span yet that they could end or change."""
_STATE: Final = tuple(column.name for column in usage_open.columns)


def keep(connection: Connection, events: Sequence[Event]) -> None:
    """Keep the sums in step with events that are about to be written, within the caller's transaction.

    Spans that were open when the clock was set are moved with it: they are as long as they lasted.
    """
    since = 0
    for number, event in enumerate(events):
        if event.event == CLOCK_SET:
            _keep(connection, events[since:number])
            keep_idle(connection, events[since:number])
            _move(connection, timedelta(seconds=float(event.detail.get("seconds", 0))))
            since = number + 1
    _keep(connection, events[since:])
    keep_idle(connection, events[since:])


def _keep(connection: Connection, events: Sequence[Event]) -> None:
    """The same for events between which the clock was not set."""
    told = [event for event in events if event.event in EVENTS and event.uid and not says_nothing(event)]
    if not told:
        return
    agreed = _agreed(told)
    named = _named(told) | {uid for uid, submitter in agreed.items() if submitter is not None}
    known = {str(event.uid) for event in told} - named - agreed.keys()
    jobs = _jobs(connection, known)
    before = {uid: (job.submitter, job.running, set(job.months)) for uid, job in jobs.items()}
    jobs |= _single(connection, known - jobs.keys())
    cards = [cards_of(event) for event in told]
    fresh = {str(event.uid) for event, held in zip(told, cards, strict=True) if held} - jobs.keys()
    with_cards = [
        (event, held) for event, held in zip(told, cards, strict=True) if event.uid in jobs or event.uid in fresh
    ]
    if not with_cards:
        return
    told = [event for event, _ in with_cards]
    _open_spans(connection, jobs, told, before)
    fold = Fold(jobs)
    unsaid = fresh - named
    if unsaid:
        for event in _earlier(connection, [event for event in told if event.uid in unsaid], agreed):
            fold.take(event)
    for event, held in with_cards:
        fold.take(event, held)
    changed = sums(fold.closed, jobs)
    _write_spans(connection, fold)
    _write_sums(connection, changed)
    gone = [uid for uid, job in jobs.items() if job.gone and not job.open]
    kept = [
        _JobRow(uid, job.submitter, job.running, sorted(job.months))
        for uid, job in jobs.items()
        if not (job.gone and not job.open)
        and (before[uid] != (job.submitter, job.running, job.months) if uid in before else not _says_all(job))
    ]
    _PUT_JOBS.write(connection, kept)
    if removed := [uid for uid in gone if uid in before]:
        connection.execute(delete(usage_job).where(among(connection, usage_job.c.uid, removed)))


def _jobs(connection: Connection, uids: Collection[str]) -> dict[str, Job]:
    if not uids:
        return {}
    query = select(usage_job).where(among(connection, usage_job.c.uid, uids))
    rows = (connection.execute(query)).mappings()
    return {row["uid"]: Job(row["submitter"], row["running"], set(row["months"])) for row in rows}


def _named(told: Sequence[Event]) -> set[str]:
    """Pods of which these events tell first that they were accepted, and from whom: each is bound once in its life, so
    that nothing is stored of it yet.
    """
    accepted: set[str] = set()
    bound: set[str] = set()
    for event in told:
        if event.kind == _POD and event.event == ACCEPTED:
            accepted.add(str(event.uid))
        elif event.event == BOUND and event.uid in accepted:
            bound.add(event.uid)
    return bound


def _agreed(told: Sequence[Event]) -> dict[str, str | None]:
    """By UID who submitted the pods of which these events tell that they were bound, and with it what was agreed: of
    these nothing is stored yet. None is nobody, as far as the scheduler knew; REST may have written who it was.
    """
    return {
        str(event.uid): submitter if isinstance(submitter := event.detail["submitter"], str) else None
        for event in told
        if event.event == BOUND and event.kind == _POD and "submitter" in event.detail
    }


def _single(connection: Connection, uids: Collection[str]) -> dict[str, Job]:
    """The jobs among these of which the open span of a single pod says all."""
    if not uids:
        return {}
    query = select(usage_open).where(among(connection, usage_open.c.uid, uids))
    found: dict[str, Job] = {}
    for row in connection.execute(query).mappings():
        span = span_of(row)
        span.stored = True
        found[span.uid] = Job(span.submitter, span.ran is not None, open={span.pod: span})
    return found


def _says_all(job: Job) -> bool:
    """Whether the only span that a job ever had is open, and that of a single pod."""
    return not job.months and len(job.open) == 1 and next(iter(job.open.values())).job.startswith(_OF_POD)


def _open_spans(connection: Connection, jobs: dict[str, Job], told: Sequence[Event], known: Collection[str]) -> None:
    """Read the open spans that the events may end or change: all of a job, or those of one pod; of jobs that are
    `known` by a row.
    """
    if not known:
        return
    whole = {str(event.uid) for event in told if event.event in WHOLE and event.uid in known}
    pods = {(str(event.uid), str(event.detail.get("pod"))) for event in told if event.uid in known}
    single = sorted(pair for pair in pods if pair[0] not in whole)
    chosen = [among(connection, usage_open.c.uid, whole)] if whole else []
    key = tuple_(usage_open.c.uid, usage_open.c.pod)
    chosen += [key.in_(single[start : start + BATCH]) for start in range(0, len(single), BATCH)]
    for one in chosen:
        for row in (connection.execute(select(usage_open).where(one))).mappings():
            span = span_of(row)
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


def _earlier(connection: Connection, told: Sequence[Event], agreed: Container[str]) -> list[Event]:
    """Events of jobs before they first got cards, as far as these name the submitter or say that the job runs. Pods may
    be told of under the name of another job than the one of their UID, which they were placed in: who submitted that
    one is found by the UID. So is it for those with which something was agreed: the scheduler says all else of them.
    """
    if not told:
        return []
    submitted = among(connection, history.c.uid, {str(event.uid) for event in told}) & by_users(history.c.actor)
    submitter = history.c.detail["submitter"].as_string()
    speaks = (history.c.event != ACCEPTED) | (history.c.actor != SCHEDULER) | submitter.is_not(None)
    found: dict[int, Event] = {}
    unsaid = [event for event in told if event.uid not in agreed]
    for jobs in (*of_jobs(connection, history, unsaid), submitted):
        query = select(history.c.id, history.c.uid, history.c.event, history.c.actor, submitter)
        for id_, uid, event, actor, name in connection.execute(
            query.where(jobs & history.c.event.in_(_WHOLE) & speaks)
        ):
            found[id_] = Event(uid=uid, event=event, at=_ANY_TIME, actor=actor, detail={"submitter": name})
    return [found[id_] for id_ in sorted(found)]


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
_ADD_OPEN: Final[Bulk[Span]] = upserting(usage_open, _STATE, attributes=_ATTRIBUTES, in_order_of="uid")
"""What is stored already was written by a transaction of which the answer was lost."""
_ADD_CLOSED: Final[Bulk[Span]] = Bulk(
    usage_span, (*_STATE, "ended_at"), lambda _: insert(usage_span).inline(), attributes=_ATTRIBUTES
)
_PUT_JOBS: Final[Bulk[_JobRow]] = upserting(usage_job, _JobRow._fields)
_ADD_SUMS: Final[Bulk[_SumRow]] = upserting(usage_sum, _SumRow._fields, adds=("amount", "held", "jobs"))
