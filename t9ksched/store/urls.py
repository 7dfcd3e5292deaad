"""Database addresses: one style for users, the driver's own underneath.

Users write `sqlite:///relative/or//absolute/path`, a plain file name, or `postgresql://user:password@host/name`. The
same address serves the asynchronous engine and the synchronous migrations.
"""

import os
from contextlib import suppress
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from t9ksched.store.errors import StoreError


def parse(address: str) -> URL:
    """The address without any driver, backend `sqlite` or `postgresql`.

    Raises:
        StoreError: neither SQLite nor PostgreSQL, or no address at all.
    """
    text = address.strip()
    if "://" not in text:
        if not text:
            raise StoreError("the database address is empty: write sqlite:///path or postgresql://user@host/name")
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            f"the database address cannot be read ({error}): write sqlite:///path or postgresql://user@host/name"
        ) from None
    backend = {"postgres": "postgresql"}.get(url.get_backend_name(), url.get_backend_name())
    if backend not in ("sqlite", "postgresql"):
        raise StoreError(
            f"databases of the kind {backend!r} are not supported: use sqlite:///path or postgresql://user@host/name"
        )
    if backend == "sqlite" and (not url.database or url.database == ":memory:"):
        raise StoreError("an SQLite database needs a file: write sqlite:///path/to/file.db")
    return url.set(drivername=backend)


def for_async(url: URL) -> URL:
    """The address for the asynchronous engine: aiosqlite, or psycopg 3."""
    return url.set(drivername="sqlite+aiosqlite" if is_sqlite(url) else "postgresql+psycopg")


def for_sync(url: URL) -> URL:
    """The address for the synchronous engine of the migrations."""
    return url.set(drivername="sqlite+pysqlite" if is_sqlite(url) else "postgresql+psycopg")


def is_sqlite(url: URL) -> bool:
    """Whether the address names an SQLite file."""
    return url.get_backend_name() == "sqlite"


def keep_private(url: URL) -> None:
    """See that the file of an SQLite database, made here if it is missing, can be read by its owner alone."""
    path = Path(url.database or "")
    if not is_sqlite(url) or (url.database or "").startswith("file:"):
        return
    with suppress(OSError):  # whoever connects is told what is wrong with the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        for file in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
            if file.exists() and file.stat().st_mode & 0o077:
                file.chmod(0o600)


def shown(url: URL) -> str:
    """The address as it may be printed: without the password, wherever it was written."""
    hidden = url.difference_update_query([name for name in url.query if name in ("password", "sslpassword")])
    return hidden.render_as_string(hide_password=True)
