"""Small SQL that several repositories share: inserting what may exist already, on both databases."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

from sqlalchemy import JSON, Column, ColumnElement, String, Table, any_, bindparam, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from t9ksched.store.bulk import Bulk, Speaker

T = TypeVar("T")


class Named(Protocol):
    """What names a job; an event does."""

    @property
    def namespace(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def uid(self) -> str | None: ...


BATCH = 1000
"""Rows a statement; keeps one transaction's memory and one lock's time small."""


def inserting(connection: Speaker, table: Table) -> Any:
    """An insertion in the words of the connection's database, which knows conflicts."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return _postgresql().insert(table)


@cache
def _postgresql() -> Any:
    """Of SQLAlchemy, for databases of that kind only: its import takes as long as ten of this room's modules."""
    from sqlalchemy.dialects import postgresql

    return postgresql


def among(speaker: Speaker, column: Column[str], values: Iterable[str]) -> ColumnElement[bool]:
    """Whether a text is one of these: as one parameter, so that the statement is the same for any number of them.

    `in_` writes a parameter for each value, and both SQLAlchemy and SQLite read such a statement anew each time.
    """
    wanted = sorted(values)
    if speaker.dialect.name == "sqlite":
        return column.in_(select(func.json_each(bindparam(None, wanted, JSON)).table_valued("value").c.value))
    return column == any_(bindparam(None, wanted, _postgresql().ARRAY(String)))


def of_jobs(speaker: Speaker, table: Table, jobs: Iterable[Named]) -> Iterable[ColumnElement[bool]]:
    """Conditions of which each selects rows of some of these jobs, and all of them together those of all: rows are
    found by namespace and name, which an index has in the order in which they are written.
    """
    spaces: defaultdict[str | None, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for job in jobs:
        if job.uid is not None and job.name is not None:
            names, uids = spaces[job.namespace]
            names.add(job.name)
            uids.add(job.uid)
    for namespace, (names, uids) in spaces.items():
        named = among(speaker, table.c.name, names) & among(speaker, table.c.uid, uids)
        yield (table.c.namespace == namespace) & named


async def insert_new(connection: AsyncConnection, table: Table, row: dict[str, Any]) -> bool:
    """Insert one row; False, with nothing written, if its key is taken."""
    statement = inserting(connection, table).values(row).on_conflict_do_nothing().returning(*table.primary_key)
    return (await connection.execute(statement)).first() is not None


async def upsert(
    connection: AsyncConnection, table: Table, rows: Sequence[dict[str, Any]], *, keep: Iterable[str] = ()
) -> None:
    """Insert rows, or write over those of the same primary key; columns in `keep` stay as first written."""
    if rows:
        await connection.execute(_upsert(connection, table, rows[0], keep), list(rows))


def _upsert(
    connection: Speaker, table: Table, names: Iterable[str], keep: Iterable[str], adds: Collection[str] = ()
) -> Any:
    statement = inserting(connection, table)
    fixed = {column.name for column in table.primary_key} | set(keep)
    changed = {name: statement.excluded[name] for name in names if name not in fixed}
    changed |= {name: table.c[name] + statement.excluded[name] for name in adds}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)


def inserting_missing(table: Table, names: Sequence[str], cut: Mapping[str, int]) -> Bulk[Any]:
    """Inserts objects with these columns if their key is new; leaves existing rows unchanged."""
    return Bulk(table, names, lambda connection: inserting(connection, table).on_conflict_do_nothing(), cut=cut)


def upserting(
    table: Table, names: Sequence[str], keep: Iterable[str] = (), adds: Collection[str] = (), **options: Any
) -> Bulk[Any]:
    """As `upsert`, for many objects with these columns; those in `adds` are added to what is there."""
    columns, kept = tuple(names), tuple(keep)
    return Bulk(table, columns, lambda connection: _upsert(connection, table, columns, kept, adds), **options)


def lengths(table: Table, *names: str) -> dict[str, int]:
    """How long the texts in these columns may be."""
    return {name: table.c[name].type.length for name in names}  # type: ignore[attr-defined]


def batches(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """The rows in slices of `BATCH`."""
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))
