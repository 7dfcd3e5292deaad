"""Database addresses: one style for users, the driver's own underneath.

Users write `sqlite:///relative/or//absolute/path`, a plain file name, or `postgresql://user:password@host/name`. The
same address serves the asynchronous engine and the synchronous migrations.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from t9ksched.model.leadership import Keepalive, SessionLimits, Timing
from t9ksched.store.errors import StoreError

_CONNECT_SECONDS = 5


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


def session(url: URL, timing: Timing, limits: SessionLimits | None = None) -> dict[str, Any]:
    """Keywords for every PostgreSQL connection of ours, so that neither end waits for one that is gone: limits of the
    session (those for any session without `limits`), probes and time limits of TCP at both ends. What the address says
    wins.
    """
    limits, tcp = limits or SessionLimits.usual(timing), Keepalive.of(timing)
    server = {
        "statement_timeout": limits.statement,
        "lock_timeout": limits.lock,
        "idle_in_transaction_session_timeout": limits.silent,
        "tcp_keepalives_idle": tcp.idle,
        "tcp_keepalives_interval": tcp.interval,
        "tcp_keepalives_count": tcp.count,
        "tcp_user_timeout": tcp.unacknowledged,
    }
    given = url.query.get("options", "")
    texts = [f"-c {name}={value}" for name, value in server.items()]
    ours = {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "t9ksched",
        "keepalives": 1,
        "keepalives_idle": tcp.idle,
        "keepalives_interval": tcp.interval,
        "keepalives_count": tcp.count,
        "tcp_user_timeout": tcp.unacknowledged,
    }
    chosen = {name: value for name, value in ours.items() if name not in url.query}
    return chosen | {"options": " ".join([*texts, *([given] if isinstance(given, str) else given)]).strip()}


def is_sqlite(url: URL) -> bool:
    """Whether the address names an SQLite file."""
    return url.get_backend_name() == "sqlite"


def keep_private(url: URL) -> None:
    """See that the file of an SQLite database, made here if it is missing, can be read by its owner alone."""
    path = Path(url.database or "")
    if not is_sqlite(url) or (url.database or "").startswith("file:"):
        return
    with suppress(OSError):  # connecting reports what is wrong with the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        for file in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
            if file.exists() and file.stat().st_mode & 0o077:
                file.chmod(0o600)


def shown(url: URL) -> str:
    """The address as it may be printed: without the password, wherever it was written."""
    hidden = url.difference_update_query([name for name in url.query if name in ("password", "sslpassword")])
    return hidden.render_as_string(hide_password=True)
