"""Conditions of indexes that have some rows of a table only, in SQL."""

from typing import Any, Final

from sqlalchemy import Column, ColumnElement, literal_column, text

SELDOM: Final = (
    "event NOT IN ('accepted', 'admitted', 'bound', 'deleted', 'finished', 'refused', 'released', 'started',"
    " 'submitted', 'waiting')"
)
"""Rows of history that are no part of every job's life. Others are found by their job alone, so that a job that starts
costs few entries of indexes. A query that repeats this condition to the letter can use the indexes that have it."""
BY_USERS: Final = "actor <> 'scheduler'"
"""Rows of history that a scheduler did not write: of a job its submission, and what people did to it. What else is
asked about a job names it."""
WAITING: Final = "phase IN ('Pending', 'Waiting') AND deleted_at IS NULL"
"""Jobs that are counted as waiting, in the same way: what has its place when it is first written has no entry."""


def by_users(actor: "Column[str | None]") -> ColumnElement[bool]:
    """`BY_USERS`, of this column."""
    return actor != literal_column("'scheduler'")


def where(condition: str) -> dict[str, Any]:
    """The option of an index of those rows. The migrations give it to both databases; here SQLite's alone is named,
    because SQLAlchemy loads all of PostgreSQL's words for the other one.
    """
    return {"sqlite_where": text(condition)}
