"""What can go wrong with the database, in words an operator can act on. SQLAlchemy's own errors end here."""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout


class StoreError(Exception):
    """The database could not do what was asked; the message says why and what to do.

    `public` is the message for users: it names neither the database's address nor its user.
    """

    public = "the database cannot be used now"


class DatabaseUnreachable(StoreError):
    """No connection, or it was lost; trying again later may help."""

    public = "the database cannot be reached now"


class DatabaseBusy(StoreError):
    """Another process holds the database, or every connection is taken; trying again soon may help."""

    public = "the database is busy"


class SchemaMismatch(StoreError):
    """The tables are not those this program was made for."""

    public = "the database is of another version than the service: run `t9ksched db upgrade`"


class RowExists(StoreError):
    """A row of this key exists already."""


class RowMissing(StoreError):
    """No row of this key."""


class RevisionChanged(StoreError):
    """The row was changed since the caller read it; `current` is its revision now."""

    def __init__(self, message: str, current: int) -> None:
        super().__init__(message)
        self.current = current


_BUSY = ("database is locked", "database table is locked", "database schema is locked")
_TOO_LONG = ("due to lock timeout", "due to statement timeout")
_NO_TABLE = ("no such table", "no such column", "undefinedtable", "undefinedcolumn", "does not exist")
_GONE = (
    "unable to open database",
    "connection",
    "server closed",
    "terminating",
    "starting up",
    "shutting down",
    "disk i/o error",
    "readonly database",
    "disk is full",
    "file is not a database",
    "no space left",
    "could not translate host",
    "name or service not known",
    "authentication failed",
    "closed database",
)


def translate(error: Exception, shown_url: str) -> StoreError:
    """An error of SQLAlchemy or a driver in our words. `shown_url` is the database's address without its password."""
    if isinstance(error, PoolTimeout):
        return DatabaseBusy(f"every connection to {shown_url} is in use: try again in a moment")
    cause = str(getattr(error, "orig", None) or error).strip()
    first = cause.splitlines()[0] if cause else type(error).__name__
    low = f"{type(getattr(error, 'orig', error)).__name__}: {cause}".lower()
    if any(text in low for text in _BUSY):
        return DatabaseBusy(
            f"the database {shown_url} is locked by another process: SQLite serves one t9ksched at a time;"
            " stop the other one, or use PostgreSQL"
        )
    if any(text in low for text in _TOO_LONG):
        return DatabaseBusy(
            f"the database {shown_url} took too long ({first}): try again; pg_stat_activity shows what it is busy with"
        )
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if any(text in low for text in _NO_TABLE) and 'database "' not in low and 'role "' not in low:
        return SchemaMismatch(
            f"the database {shown_url} lacks tables of this version ({first}): run `t9ksched db upgrade --db URL`"
        )
    if lost or any(text in low for text in _GONE) or "does not exist" in low:
        return DatabaseUnreachable(
            f"the database {shown_url} cannot be reached ({first}): check the address and that it runs"
        )
    return StoreError(f"the database {shown_url} refused ({first})")
