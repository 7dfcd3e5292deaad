"""Conditions of indexes that have some rows of a table only, in SQL."""

from typing import Any, Final

from sqlalchemy import text

SELDOM: Final = (
    "event NOT IN ('accepted', 'admitted', 'bound', 'deleted', 'finished', 'refused', 'released', 'started',"
    " 'submitted', 'waiting')"
)
"""Rows of history that are no part of every job's life. Others are found by their job alone, so that a job that starts
costs few entries of indexes. A query that repeats this condition to the letter can use the indexes that have it."""
WAITING: Final = "phase IN ('Pending', 'Waiting') AND deleted_at IS NULL"
"""Jobs that are counted as waiting, in the same way: what has its place when it is first written has no entry."""


def where(condition: str) -> dict[str, Any]:
    """The options of an index of those rows, on both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
