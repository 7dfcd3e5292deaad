"""The table of idle workloads; see `tables.py` for what holds of all tables."""

from sqlalchemy import Column, Index, Table

from t9ksched.store.moment import Moment
from t9ksched.store.tables import Serial, metadata, span_columns

usage_idle = Table(
    "usage_idle",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    *span_columns(key=False),
    Column("idle_since", Moment, nullable=False),
    Column("ended_at", Moment, nullable=False),
    Column("free_until", Moment, index=True),
    Index("ix_usage_idle_uid", "uid"),
)
"""Pods that nobody used from `idle_since` until they were suspended (`ended_at`); their cards were free from then until
the workload had cards again or was deleted (`free_until`)."""
