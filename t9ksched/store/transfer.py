"""Moves a database from SQLite to PostgreSQL: every row of every table, in one transaction.

JSON goes over as the text that it is, so that no key moves and no null becomes another.
"""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import (
    JSON,
    Column,
    Integer,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    select,
    text,
    type_coerce,
)
from sqlalchemy.engine import Connection

from t9ksched.store import schema, urls
from t9ksched.store.errors import StoreError
from t9ksched.store.tables import metadata, revision_counter

_BATCH: Final = 1000


def transfer(source: str, target: str) -> dict[str, int]:
    """Copy an SQLite database that nobody uses into an empty PostgreSQL database; how many rows each table has now.

    Raises:
        StoreError: they are no such databases, or one cannot be read or written. The target is then as it was, with
            tables at most.
    """
    old, new = urls.parse(source), urls.parse(target)
    if not urls.is_sqlite(old) or urls.is_sqlite(new):
        raise StoreError(
            f"{urls.shown(old)} cannot be copied to {urls.shown(new)}: from SQLite to PostgreSQL it goes, and"
            " PostgreSQL's own tools copy one PostgreSQL database into another"
        )
    schema.require_file(source)
    found = schema.current(source)
    if found != schema.newest():
        raise StoreError(
            f"{urls.shown(old)} is at revision {found or 'none'}, this program needs {schema.newest()}:"
            " run `t9ksched db upgrade` on it first"
        )
    schema.upgrade(target)
    # SQLite's write lock, so that nothing is written there meanwhile.
    with schema.locked(source) as before, schema.locked(target) as after:
        _see_that_it_is_empty(after, urls.shown(new))
        return {table.name: _copy(table, before, after) for table in metadata.sorted_tables}


def _see_that_it_is_empty(connection: Connection, shown: str) -> None:
    connection.execute(delete(revision_counter))  # migrations make its only row
    for table in metadata.sorted_tables:
        if connection.execute(select(func.count()).select_from(table)).scalar_one():
            raise StoreError(f"{shown} is in use, its table {table.name} has rows: name a new, empty database")


def _copy(table: Table, before: Connection, after: Connection) -> int:
    """Copy the rows of one table, and let the numbers that PostgreSQL gives follow the last of them."""
    copied = 0
    values = {column.name: _bound(column) for column in table.columns}
    for rows in _read(table, before):
        after.execute(insert(table).values(values), rows)
        copied += len(rows)
    count = after.execute(select(func.count()).select_from(table)).scalar_one()
    if count != copied:
        raise StoreError(f"of the table {table.name} {copied} rows were written and {count} are there")
    for column in table.primary_key:
        if isinstance(column.type, Integer) and column.autoincrement is True:
            statement = text(
                f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column.name}'),"
                f" (SELECT coalesce(max({column.name}), 0) + 1 FROM {table.name}), false)"
            )
            after.execute(statement)
    return copied


def _read(table: Table, before: Connection) -> Iterator[list[dict[str, Any]]]:
    columns = [
        type_coerce(column, Text).label(column.name) if isinstance(column.type, JSON) else column
        for column in table.columns
    ]
    result = before.execute(select(*columns).order_by(*table.primary_key))
    while rows := result.fetchmany(_BATCH):
        yield [{f"new_{name}": value for name, value in row._mapping.items()} for row in rows]


def _bound(column: Column[Any]) -> Any:
    name = f"new_{column.name}"
    return (
        cast(bindparam(name, type_=Text), JSON) if isinstance(column.type, JSON) else bindparam(name, type_=column.type)
    )
