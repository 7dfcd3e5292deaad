"""A copy of an SQLite database that is in use, as it was at one moment. PostgreSQL has tools of its own for that."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from t9ksched.store import urls
from t9ksched.store.bindings import COMPLETE
from t9ksched.store.errors import StoreError


def copy(address: str, target: Path) -> None:
    """Copy the database at `address` into the new file `target`, readable by its owner alone. Writers go on meanwhile.

    Raises:
        StoreError: it is no SQLite file, `target` exists, or one of them cannot be read or written.
    """
    url = urls.parse(address)
    if not urls.is_sqlite(url) or url.database is None:
        raise StoreError(
            f"{urls.shown(url)} is backed up by PostgreSQL's own tool: pg_dump --format=custom --file={target} URL"
        )
    source = Path(url.database).expanduser()
    if not source.is_file():
        raise StoreError(f"there is no database {source}: name the one to copy with --db sqlite:///PATH")
    try:
        # For its owner alone: the copy holds hashes of tokens and the jobs of all users.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise StoreError(f"{target} exists already: choose a new name") from None
    except OSError as error:
        raise StoreError(f"{target} cannot be written ({error.strerror})") from None
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
            _forget_completeness(new)
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise StoreError(f"{source} cannot be copied to {target} ({error})") from None


def _forget_completeness(copied: sqlite3.Connection) -> None:
    """Pods that are bound after the copy was made have no row in it: a scheduler that starts on it reads theirs from
    annotations once, as after an upgrade.
    """
    if copied.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone():
        with copied:
            copied.execute("DELETE FROM meta WHERE key = ?", (COMPLETE,))
