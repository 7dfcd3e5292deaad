"""A new SQLite database in one go: the tables as all migrations leave them, prepared in `migrations/sqlite.sql`.

To run the migrations one after the other on an empty file takes as long as the rest of a start. `make reference` writes
the script anew, and a test holds it equal to what they make. A script of another revision than the newest is not used.
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy import inspect
from sqlalchemy.engine import Connection

from t9ksched.packaged import folder

_SCRIPT: Final = "sqlite.sql"
_FIRST: Final = "-- Revision "


def fill(connection: Connection, revision: str) -> bool:
    """Make the tables of this revision in a database that has none; False where migrations must do it."""
    if connection.dialect.name != "sqlite" or inspect(connection).get_table_names():
        return False
    script = folder("migrations") / _SCRIPT
    lines = iter(script.read_text().splitlines()) if script.is_file() else iter(())
    if not next(lines, "").startswith(f"{_FIRST}{revision} "):
        return False
    for statement in _statements(lines):
        connection.exec_driver_sql(statement)
    return True


def _statements(lines: Iterator[str]) -> Iterator[str]:
    found = ""
    for line in lines:
        found += line + "\n"
        if sqlite3.complete_statement(found):
            yield found
            found = ""


def dump(database: Path) -> str:
    """The script that makes the tables of this database, and the rows that are in it."""
    with closing(sqlite3.connect(database)) as connection:
        made = connection.execute(
            "SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ).fetchall()
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        rows = [line for line in connection.iterdump() if line.startswith("INSERT INTO")]
    first = f"{_FIRST}{revision} of all tables, as the migrations make them; written by `make reference`."
    tables = [f"{sql};" for kind, sql in made if kind == "table"]
    others = [f"{sql};" for kind, sql in made if kind != "table"]
    return "\n".join([first, *tables, *rows, *others]) + "\n"


def written() -> str:
    """The script as migrations of a new database make it."""
    from t9ksched.store import schema

    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "new.db"
        schema.upgrade(f"sqlite:///{file}", schema.newest())
        return dump(file)
