"""The tables, as SQLAlchemy Core knows them; `migrations/` creates them, and a test keeps the two equal.

Times are UTC and aware on both databases. JSON columns keep the order in which users wrote their keys. A `revision` is
the number of a row in `change_log`: it grows by every change of anything, in the order of commits.
"""

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text

from t9ksched.store.conditions import BY_USERS, SELDOM, WAITING, where
from t9ksched.store.moment import Moment

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Serial = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts rows by itself only in a column declared INTEGER."""


def _large(*columns: str) -> list[Column[Any]]:
    """Numbers such as moments in nanoseconds since the epoch."""
    return [Column(name, BigInteger, nullable=False) for name in columns]


queue = Table(
    "queue",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("uid", String(36), nullable=False, unique=True),
    Column("labels", JSON, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("members", JSON, nullable=False),
    Column("draining", Boolean, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

api_token = Table(
    "api_token",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("owner", String(253), nullable=False),
    Column("role", String(20), nullable=False),
    Column("groups", JSON, nullable=False),
    Column("queues", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("last_used_at", Moment),
)

acceptance = Table(
    "acceptance",
    metadata,
    Column("uid", String(36), primary_key=True),
    Column("kind", String(63), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    Column("group_uid", String(36)),
    Column("group_name", String(253)),
    Column("submitter", String(253)),
    Column("groups", JSON, nullable=False),
    Column("permitted_by", String(320)),
    Column("queue", String(63)),
    Column("priority", Integer, nullable=False),
    Column("time_limit_seconds", BigInteger),
    Column("cards", JSON, nullable=False),
    Column("requests", JSON, nullable=False),
    Column("accepted_at", Moment, nullable=False),
    Column("replicas", Integer),
    Column("started_at", Moment),
    Column("began_with", Integer),
    Column("began_roles", JSON),
)

history = Table(
    "history",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("at", Moment, nullable=False),
    Column("event", String(40), nullable=False),
    Column("kind", String(63)),
    Column("namespace", String(63)),
    Column("name", String(253)),
    Column("uid", String(36)),
    Column("queue", String(63)),
    Column("actor", String(253)),
    Column("detail", JSON, nullable=False),
    Index("ix_history_users_uid", "uid", **where(BY_USERS)),
    *(Index(f"ix_history_seldom_{column}_id", column, "id", **where(SELDOM)) for column in ("event", "queue")),
    Index(None, "namespace", "name", "id"),
)

job = Table(
    "job",
    metadata,
    Column("uid", String(36), primary_key=True),
    Column("kind", String(63), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    Column("queue", String(63)),
    Column("phase", String(20), nullable=False),
    Column("submitted_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Column("deleted_at", Moment),
    Column("shape", JSON, nullable=False),
    Column("submitter", String(253)),
    Index("ix_job_waiting_submitter", "submitter", **where(WAITING)),
    *(Index(None, *of) for of in (("namespace", "kind", "name"), ("queue", "phase"), ("submitted_at", "uid"))),
    Index("ix_job_live", "submitted_at", "uid", **where("deleted_at IS NULL")),
    Index("ix_job_finished_at", "finished_at", **where("finished_at IS NOT NULL")),
    Index("ix_job_gone_submitter", "submitter", "submitted_at", "uid", **where("deleted_at IS NOT NULL")),
)

job_control = Table(
    "job_control",
    metadata,
    Column("uid", String(36), primary_key=True),
    Column("held", Boolean, nullable=False),
    Column("priority", Integer),
    Column("by", String(253), nullable=False),
    Column("at", Moment, nullable=False),
    Column("time_limit_seconds", BigInteger),
    Column("released_at", Moment),
    Column("limited_at", Moment),
)
"""What was decided about a job, by the job's UID."""

job_run = Table(
    "job_run",
    metadata,
    Column("uid", String(36), primary_key=True),
    *_large("bound_at", "ran_at"),
    Column("near", Boolean, nullable=False),
    Column("missed", Integer, nullable=False),
    *_large("missed_at", "retry_at"),
    Column("why", Text, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("ended_code", String(40), nullable=False),
    Column("ended_limit", BigInteger),
    Column("message", Text, nullable=False),
    Column("limit", BigInteger),
    *_large("limit_at", "reserved_until"),
    Column("ended_asked", BigInteger),
)
"""Since when a job runs and how its last run ended; times in nanoseconds since the epoch, limits in seconds."""

job_dependency = Table(
    "job_dependency",
    metadata,
    Column("uid", String(36), primary_key=True),
    Column("target", String(320), primary_key=True),
    Column("target_uid", String(36), nullable=False),
    *_large("met_at"),
)
"""What a job waits for, by the job's UID: the job that a name meant, and since when it is over (0 while it is not)."""

stop = Table(
    "stop",
    metadata,
    Column("what", String(20), primary_key=True),
    Column("until", Moment),
    Column("by", String(253), nullable=False),
    Column("at", Moment, nullable=False),
    Column("why", Text, nullable=False),
)
"""What the scheduler must not do for now."""

promise = Table(
    "promise",
    metadata,
    Column("owner", String(36), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("node", String(253), nullable=False),
    Column("pods", Integer, nullable=False),
    Column("takes", JSON, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("since", Moment, nullable=False),
    Column("until", Moment, nullable=False),
)
"""Room that victims leave, for so many pods alike on a node, by the UID of the gang that they were evicted for."""

planned_start = Table(
    "planned_start",
    metadata,
    Column("owner", String(36), primary_key=True),
    Column("queue", String(63), nullable=False),
    Column("rank", Integer, nullable=False),
    *_large("begins", "ends"),
    Column("places", JSON, nullable=False),
)
"""When and where a waiting gang is to start, by its UID; times in nanoseconds since the epoch, `ends` 0 for never."""

forecast = Table(
    "forecast",
    metadata,
    Column("uid", String(36), primary_key=True),
    Column("queue", String(63), nullable=False),
    *_large("first_at", "first_earliest", "first_latest"),
    Column("first_basis", String(10), nullable=False),
    *_large("last_at", "last_earliest", "last_latest"),
    Column("last_basis", String(10), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("settled_at", BigInteger, nullable=False, index=True),
)
"""The first and the last forecast of a job's start by its UID, and when it started, in nanoseconds since the epoch.
`settled_at` is 0 while the job waits; `started_at` stays 0 if it never starts."""

binding = Table(
    "binding",
    metadata,
    Column("pod_uid", String(36), primary_key=True),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    Column("node", String(253), nullable=False),
    Column("cards", JSON, nullable=False),
    Column("share", Integer, nullable=False),
    *(Column(name, JSON(none_as_null=True)) for name in ("parts", "devices", "units")),
    Column("worth", BigInteger),
    Column("honoured", Boolean, nullable=False),
    Column("at", Moment, nullable=False),
    Column("group_name", String(253)),
    Column("role", String(63)),
    Column("queue", String(63)),
    Column("job_uid", String(36)),
)
"""Which cards a pod was given when its binding was decided; `parts` has what it has of each where they are divided."""

usage_job = Table(
    "usage_job",
    metadata,
    Column("uid", String(36), primary_key=True),
    Column("submitter", String(253), nullable=False),
    Column("running", Boolean, nullable=False),
    Column("months", JSON, nullable=False),
)
"""What must be remembered of jobs that have cards, to go on counting them; of single pods their open span says it."""


def span_columns(*, key: bool) -> list[Column[Any]]:
    """Of a pod on its cards; `job` is `Kind/name`, `worth` is null for whole cards, `models` for cards of one model."""
    return [
        Column("uid", String(36), primary_key=key, nullable=False),
        Column("pod", String(253), primary_key=key, nullable=False),
        Column("namespace", String(63), nullable=False),
        Column("job", String(320), nullable=False),
        Column("queue", String(63), nullable=False),
        Column("submitter", String(253), nullable=False),
        Column("node", String(253), nullable=False),
        Column("cards", JSON, nullable=False),
        Column("worth", BigInteger),
        Column("resource", String(253), nullable=False),
        Column("model", String(253), nullable=False),
        Column("models", JSON(none_as_null=True)),
        Column("bound_at", Moment, nullable=False),
        Column("ran_at", Moment),
    ]


usage_open = Table("usage_open", metadata, *span_columns(key=True))
"""Pods that hold cards now."""

usage_span = Table(
    "usage_span",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    *span_columns(key=False),
    Column("ended_at", Moment, nullable=False, index=True),
)
"""Pods that held cards."""

usage_sum = Table(
    "usage_sum",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("queue", String(63), primary_key=True),
    Column("submitter", String(253), primary_key=True),
    Column("namespace", String(63), primary_key=True),
    Column("model", String(253), primary_key=True),
    Column("resource", String(253), primary_key=True),
    *_large("amount", "held", "jobs"),
)
"""Card-microseconds of a day (UTC) by spans that are over, of them those before the job ran, and jobs (each counted
once a month)."""

idempotency_key = Table(
    "idempotency_key",
    metadata,
    Column("owner", String(253), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("request", String(64), nullable=False),
    Column("mark", String(32), nullable=False),
    Column("claim", String(32), nullable=False),
    Column("until", Moment, nullable=False),
    Column("at", Moment, nullable=False, index=True),
    Column("status", Integer),
    Column("answer", Text),
)
"""Requests that users may repeat: SHA-256 of the key and of what was asked, and the answer once there is one. Until
then the attempt `claim` works on it, which is taken for lost after `until`."""

outbox = Table(
    "outbox",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(253), nullable=False),
    Column("key", String(64)),
    Column("groups", JSON, nullable=False),
    Column("at", Moment, nullable=False),
    Column("latest", Moment, nullable=False),
    Column("state", String(20), nullable=False),
    Column("claim", String(32), nullable=False),
    Column("replica", String(253), nullable=False),
    Column("until", Moment, nullable=False, index=True),
    Column("objects", JSON, nullable=False),
    Column("uids", JSON, nullable=False),
    Index(None, "owner", "key"),
)
"""Submissions whose objects are being created or removed: written before the first object, gone once all is recorded.

`claim` of `replica` works on it until `until`, and created objects until `latest` at the last. `state` has to be there:
a statement that writes none in place of it makes its transaction fail."""

reservation = Table(
    "reservation",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("uid", String(36), nullable=False, unique=True),
    Column("spec", JSON, nullable=False),
    Column("nodes", JSON, nullable=False),
    Column("ended", JSON),
    Column("revision", BigInteger, nullable=False),
    Column("created_by", String(253)),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("outcome", JSON),
    Column("blocked", Moment),
    Column("used_until", Moment),
)
"""Reservations by administrators: what they wrote, the nodes that were chosen, the latest occurrence that ended early
(`from`, `why`) and what became of the latest that is over (`from`, `to`, `outcome`, `at`). `blocked` is the beginning
of the occurrence of which others held room when it was last looked at, `used_until` is until when an occurrence was
used or not free: its end while it is."""

card_cordon = Table(
    "card_cordon",
    metadata,
    Column("node", String(253), primary_key=True),
    Column("card", Integer, primary_key=True, autoincrement=False),
    Column("why", Text, nullable=False),
    Column("by", String(253), nullable=False),
    Column("at", Moment, nullable=False),
)
"""Cards that take no new work, by the name of their node and their index."""

change_log = Table(
    "change_log",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("table_name", String(40), nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Moment, nullable=False, index=True),
)

revision_counter = Table(
    "revision_counter",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
)
"""One row; its lock is what makes revisions commit in order."""

scheduler_instance = Table(
    "scheduler_instance",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("address", String(253), nullable=False),
    Column("identity", String(253), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("heartbeat_at", Moment, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", String(63), primary_key=True),
    Column("value", JSON, nullable=False),
)
