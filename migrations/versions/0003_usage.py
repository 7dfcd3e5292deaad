"""Sums of GPU-hours, kept while history is written, and made here from the history there is.

The folding is written out, as the tables are: a migration must not change when the program does.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
PAGE = 5000
UNKNOWN = "unknown"
EVENTS = (
    "submitted",
    "accepted",
    "bound",
    "released",
    "started",
    "finished",
    "deleted",
    "taken-back",
    "preempted",
)
AMOUNTS = ("amount", "held", "jobs")
DAY = ("day", "queue", "submitter", "namespace", "model", "resource")


def _span_columns(*, key: bool) -> list[sa.Column[Any]]:
    columns = [
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("pod", sa.String(253), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("job", sa.String(320), nullable=False),
        sa.Column("queue", sa.String(63), nullable=False),
        sa.Column("submitter", sa.String(253), nullable=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("cards", sa.JSON, nullable=False),
        sa.Column("resource", sa.String(253), nullable=False),
        sa.Column("model", sa.String(253), nullable=False),
        sa.Column("bound_at", MOMENT, nullable=False),
        sa.Column("ran_at", MOMENT),
    ]
    return [*columns, sa.PrimaryKeyConstraint("uid", "pod", name="pk_usage_open")] if key else columns  # type: ignore[list-item]


def upgrade() -> None:
    """Create the tables and fill them."""
    tables = {
        "job": op.create_table(
            "usage_job",
            sa.Column("uid", sa.String(36), nullable=False),
            sa.Column("submitter", sa.String(253), nullable=False),
            sa.Column("running", sa.Boolean, nullable=False),
            sa.Column("months", sa.JSON, nullable=False),
            sa.PrimaryKeyConstraint("uid", name="pk_usage_job"),
        ),
        "open": op.create_table("usage_open", *_span_columns(key=True)),
        "span": op.create_table(
            "usage_span",
            sa.Column("id", SERIAL, nullable=False, autoincrement=True),
            *_span_columns(key=False),
            sa.Column("ended_at", MOMENT, nullable=False),
            sa.PrimaryKeyConstraint("id", name="pk_usage_span"),
        ),
        "sum": op.create_table(
            "usage_sum",
            sa.Column("day", sa.String(10), nullable=False),
            sa.Column("queue", sa.String(63), nullable=False),
            sa.Column("submitter", sa.String(253), nullable=False),
            sa.Column("namespace", sa.String(63), nullable=False),
            sa.Column("model", sa.String(253), nullable=False),
            sa.Column("resource", sa.String(253), nullable=False),
            sa.Column("amount", sa.BigInteger, nullable=False),
            sa.Column("held", sa.BigInteger, nullable=False),
            sa.Column("jobs", sa.BigInteger, nullable=False),
            sa.PrimaryKeyConstraint(*DAY, name="pk_usage_sum"),
        ),
    }
    op.create_index("ix_usage_span_ended_at", "usage_span", ["ended_at"])
    _fill(tables)


def downgrade() -> None:
    """Remove the tables; what history still tells is summed again on the way up."""
    op.drop_index("ix_usage_span_ended_at", "usage_span")
    for table in ("usage_sum", "usage_span", "usage_open", "usage_job"):
        op.drop_table(table)


def _fill(tables: dict[str, sa.Table]) -> None:
    """Fold history into the tables."""
    connection = op.get_bind()
    jobs: dict[str, dict[str, Any]] = {}
    sums: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    closed: list[dict[str, Any]] = []

    def close(job: dict[str, Any], pod: str, at: datetime) -> None:
        span = job["open"].pop(pod, None)
        if span is not None:
            span["ended_at"] = max(at, span["bound_at"])
            _add(sums, span, job["months"])
            closed.append(span)

    def flush(least: int) -> None:
        if len(closed) >= least:
            op.bulk_insert(tables["span"], closed)
            closed.clear()

    for row in _history(connection):
        job = jobs.setdefault(row.uid, {"submitter": UNKNOWN, "running": False, "months": set(), "open": {}})
        job["last"] = at = _aware(row.at)
        detail = row.detail or {}
        pod = str(detail.get("pod"))
        if row.event in ("submitted", "accepted"):
            if row.actor and row.actor != "scheduler":
                job["submitter"] = row.actor
        elif row.event == "bound":
            close(job, pod, at)
            cards = sorted({index for which in (detail.get("cards") or {}).values() for index in which})
            if cards:
                job["open"][pod] = {
                    "uid": row.uid,
                    "pod": pod,
                    "namespace": row.namespace or UNKNOWN,
                    "job": f"{row.kind}/{row.name}",
                    "queue": row.queue or UNKNOWN,
                    "submitter": job["submitter"],
                    "node": str(detail.get("node")),
                    "cards": cards,
                    "resource": str(detail.get("resource") or UNKNOWN)[:253],
                    "model": detail.get("model") or UNKNOWN,
                    "bound_at": at,
                    "ran_at": at if job["running"] else None,
                }
        elif row.event == "started":
            job["running"] = True
            for span in job["open"].values():
                span["ran_at"] = span["ran_at"] or max(at, span["bound_at"])
        elif row.event == "deleted" and row.actor not in (None, "scheduler"):
            continue  # somebody asked for it: its pods held their cards until they were gone
        elif row.event == "released":
            close(job, pod, at)
        else:
            chosen = [pod] if row.event == "preempted" and detail.get("pod") else list(job["open"])
            for one in chosen:
                close(job, one, at)
            job["running"] = row.event == "preempted" and bool(job["open"]) and job["running"]
            if row.event == "deleted":
                del jobs[row.uid]
        flush(PAGE)
    _end_what_is_gone(connection, jobs, close)
    flush(1)
    lasting = {uid: job for uid, job in jobs.items() if job["open"]}
    for start in range(0, len(lasting), PAGE):
        piece = dict(list(lasting.items())[start : start + PAGE])
        op.bulk_insert(tables["open"], [span for job in piece.values() for span in job["open"].values()])
        op.bulk_insert(tables["job"], [_job(uid, job) for uid, job in piece.items()])
    lines = [dict(zip((*DAY, *AMOUNTS), (*key, *amounts), strict=True)) for key, amounts in sums.items()]
    for start in range(0, len(lines), PAGE):
        op.bulk_insert(tables["sum"], lines[start : start + PAGE])


def _history(connection: sa.Connection) -> Iterator[Any]:
    history = sa.table(
        "history",
        sa.column("id", sa.BigInteger),
        sa.column("at", MOMENT),
        *(sa.column(name, sa.String) for name in ("event", "uid", "kind", "namespace", "name", "queue", "actor")),
        sa.column("detail", sa.JSON),
    )
    after = 0
    while True:
        wanted = (history.c.id > after) & history.c.uid.is_not(None)
        rows = connection.execute(sa.select(history).where(wanted).order_by(history.c.id).limit(PAGE)).all()
        yield from (row for row in rows if row.event in EVENTS)
        if len(rows) < PAGE:
            return
        after = rows[-1].id


def _end_what_is_gone(connection: sa.Connection, jobs: dict[str, dict[str, Any]], close: Any) -> None:
    """Jobs that are over without a word in history about their last pods: they held nothing after their end."""
    job = sa.table(
        "job", sa.column("uid", sa.String), sa.column("finished_at", MOMENT), sa.column("deleted_at", MOMENT)
    )
    known = {row.uid: row for row in connection.execute(sa.select(job)).all()}
    for uid, one in jobs.items():
        row = known.get(uid)
        end = one["last"] if row is None else row.finished_at or row.deleted_at
        if one["open"] and end is not None:
            for pod in list(one["open"]):
                close(one, pod, _aware(end))


def _add(sums: dict[tuple[str, ...], list[int]], span: dict[str, Any], months: set[str]) -> None:
    """Add a span to its days; the first of its job in a month counts the job."""
    start, end, cards = span["bound_at"], span["ended_at"], len(span["cards"])
    ran, microsecond = span["ran_at"] or end, timedelta(microseconds=1)
    while start < end:
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        stop = min(end, midnight + timedelta(days=1))
        day = midnight.strftime("%Y-%m-%d")
        total = sums[(day, *(span[name] for name in DAY[1:]))]
        total[0] += (stop - start) // microsecond * cards
        total[1] += max(timedelta(0), min(stop, ran) - start) // microsecond * cards
        if day[:7] not in months:
            months.add(day[:7])
            total[2] += 1
        start = stop


def _job(uid: str, job: dict[str, Any]) -> dict[str, Any]:
    return {
        "uid": uid,
        "submitter": job["submitter"],
        "running": job["running"],
        "months": sorted(job["months"]),
    }


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
