"""The tables' versions: up, down, and whether this program and the database agree.

Migrations are Alembic's, found in the package; no ini file is needed. They run synchronously, one process at a time.
Alembic is imported when there is something to migrate: its import takes as long as the rest of this room's. A new
SQLite database is made in one go (`fresh.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from t9ksched.model.leadership import SessionLimits
from t9ksched.packaged import folder
from t9ksched.store import fresh, urls
from t9ksched.store.database import engine_options
from t9ksched.store.errors import DatabaseUnreachable, SchemaMismatch, translate
from t9ksched.store.in_use import require_unused
from t9ksched.store.sqlite_file import prepare_sqlite

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x7439_6B73
"""Advisory lock of PostgreSQL that lets one process migrate at a time ("t9ks")."""
_VERSION = "alembic_version"
"""Alembic's own table."""


def upgrade(address: str, revision: str = "head") -> str:
    """Bring the tables to `revision` (the newest by default); the revision reached.

    Raises:
        StoreError: the database is out of reach, or newer than this program.
    """
    with locked(address) as connection:
        check(connection)
        if revision == "head" and _revision(connection) == newest():
            return newest()
        if revision == "head" and fresh.fill(connection, newest()):
            return newest()
        from alembic import command

        command.upgrade(_config(connection), revision)
        return _revision(connection) or "base"


def downgrade(address: str, revision: str, *, unused: bool = False) -> str:
    """Take the tables back to `revision` (`base`: none at all); the revision reached.

    Raises:
        StoreError: as `upgrade`; also for an unknown revision; with `unused`, while a service uses the database.
    """
    from alembic import command
    from alembic.util import CommandError

    require_file(address)
    with locked(address) as connection:
        check(connection)
        if unused:
            require_unused(connection)
        try:
            if not revision:
                raise CommandError("no revision is named")
            command.downgrade(_config(connection), revision)
        except CommandError as error:
            raise SchemaMismatch(
                f"cannot go down to {revision!r} ({error}): known are base, {', '.join(revisions())}"
            ) from error
        return _revision(connection) or "base"


def current(address: str) -> str | None:
    """The revision of the tables there are; None for an empty database, also one whose file is not made yet.

    Raises:
        StoreError: the database is out of reach.
    """
    if missing_file(address) is not None:
        return None
    with locked(address) as connection:
        return _revision(connection)


def clock(address: str) -> datetime | None:
    """The time by the clock of a PostgreSQL server; None for SQLite, which has none of its own.

    Raises:
        StoreError: the database is out of reach.
    """
    if urls.is_sqlite(urls.parse(address)):
        return None
    with locked(address) as connection:
        moment: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return moment


def newest() -> str:
    """The revision this program was made for."""
    return _revisions()[-1]


def revisions() -> list[str]:
    """All revisions this program knows, oldest first."""
    return list(_revisions())


@cache
def _revisions() -> tuple[str, ...]:
    """By the names of the files, which begin with their revision and count up."""
    return tuple(sorted(file.name.partition("_")[0] for file in (folder("migrations") / "versions").glob("[0-9]*.py")))


def missing_file(address: str) -> Path | None:
    """The file of an SQLite database that is not there; connecting would make it."""
    url = urls.parse(address)
    if not urls.is_sqlite(url) or not url.database or url.database.startswith("file:"):
        return None
    path = Path(url.database).expanduser()
    return None if path.exists() or not path.parent.is_dir() else path


def require_file(address: str) -> None:
    """See that the file of an SQLite database is there. Raises DatabaseUnreachable."""
    if (path := missing_file(address)) is not None:
        raise DatabaseUnreachable(
            f"there is no file {path}: check the address; the first start makes it, or t9ksched db upgrade"
        )


def check(connection: Connection) -> None:
    """See that the database is not newer than this program.

    Raises:
        SchemaMismatch: it is.
    """
    found = _revision(connection)
    if found is not None and found not in revisions():
        raise SchemaMismatch(
            f"the database has revision {found}, which this program (made for {newest()}) does not know:"
            " it was written by a newer t9ksched; install that version,"
            " or go down with its `t9ksched db downgrade` first"
        )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {_VERSION}")).scalars().all()
    return str(found[0]) if found else None


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@contextmanager
def locked(address: str) -> Iterator[Connection]:
    """One transaction that holds the right to migrate; SQLite's write lock, or an advisory lock of PostgreSQL."""
    url = urls.parse(address)
    if urls.is_sqlite(url) and url.database is not None:
        parent = Path(url.database).expanduser().parent
        if not parent.is_dir():
            raise DatabaseUnreachable(
                f"the folder {parent} of the database file does not exist: create it, or choose another file"
            )
    urls.keep_private(url)
    engine = create_engine(
        urls.for_sync(url), poolclass=NullPool, **engine_options(url, limits=SessionLimits.migrating())
    )
    if urls.is_sqlite(url):
        prepare_sqlite(engine)
    try:
        with engine.execution_options(t9k_begin="BEGIN IMMEDIATE").begin() as connection:
            if not urls.is_sqlite(url):
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield connection
    except SQLAlchemyError as error:
        raise translate(error, urls.shown(url)) from error
    finally:
        engine.dispose()
