"""The tables of notifications; see `tables.py` for what holds of all tables."""

from sqlalchemy import JSON, Column, Index, Integer, String, Table, Text

from t9ksched.store.moment import Moment
from t9ksched.store.tables import Serial, metadata

notification_target = Table(
    "notification_target",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(253), nullable=False, index=True),
    Column("queue", String(63), index=True),
    Column("within", JSON, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("url", Text, nullable=False),
    Column("shown", String(320), nullable=False),
    Column("key", String(64), nullable=False),
    Column("events", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("retry_at", Moment, nullable=False),
    Column("disabled_at", Moment),
    Column("last_at", Moment),
    Column("last_error", Text, nullable=False),
)
"""Where a user, or with `queue` those who manage a queue, want to be told. `url` and `key` are secrets. `failures` are
those in a row; nothing is sent before `retry_at`, nor while it is disabled. `last_error` is empty if the last attempt,
at `last_at`, succeeded."""

notification = Table(
    "notification",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("target", String(32), nullable=False),
    Column("body", JSON, nullable=False),
    Column("at", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Moment, nullable=False),
    Index(None, "target", "due_at"),
)
"""What is still to be sent: written with the record of what happened, gone once it is sent."""
