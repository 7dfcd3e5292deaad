"""What can go wrong with the database, in words an operator can act on. SQLAlchemy's own errors end here."""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout


class StoreError(Exception):
    """The database could not do what was asked; the message says why and what to do.

    `public` is the message for users: it names neither the database's address nor its user. `remedy` is what a user
    can do, empty where waiting is all.
    """

    public = "the database cannot be used now"
    remedy = ""


class DatabaseUnreachable(StoreError):
    """No connection, or it was lost; trying again later may help."""

    public = "the database cannot be reached now"


class DatabaseFull(DatabaseUnreachable):
    """Nothing can be written before there is room on the disk, or in the quota, of the database."""

    public = "the database has no space left"
    remedy = "tell an administrator: the disk of the database is full"


class DatabaseReadOnly(DatabaseUnreachable):
    """The database can be read, and takes no writes."""

    public = "the database is read-only"
    remedy = "tell an administrator: the service must be able to write to the database"


class DatabaseFaulty(DatabaseUnreachable):
    """The file of the database, or the disk below it, fails."""

    public = "the disk or the file of the database is faulty"
    remedy = "tell an administrator: the log of the service says what failed"


class DatabaseBusy(StoreError):
    """Another process holds the database, or every connection is taken; trying again soon may help."""

    public = "the database is busy"


class DatabaseLocked(DatabaseBusy):
    """Another process holds the lock of the SQLite file."""

    public = "the database is locked by another process"
    remedy = "repeat in a moment; if it stays so, tell an administrator"


class DatabaseSlow(DatabaseBusy):
    """A write was given up because it took too long."""

    public = "the database does not complete a write in time: it is locked, or slow"


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
_FULL = ("disk is full", "no space left", "disk full", "diskfull", "quota exceeded")
_READ_ONLY = ("readonly database", "read-only transaction", "read-only file system")
_FAULTY = ("disk i/o error", "malformed", "file is not a database", "input/output error")
_NO_TABLE = ("no such table", "no such column", "undefinedtable", "undefinedcolumn", "does not exist")
_GONE = (
    "unable to open database",
    "connection",
    "server closed",
    "terminating",
    "starting up",
    "shutting down",
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
        return DatabaseLocked(
            f"the database {shown_url} is locked by another process: SQLite serves one t9ksched at a time;"
            " stop the other one, or use PostgreSQL"
        )
    if any(text in low for text in _FULL):
        return DatabaseFull(f"the database {shown_url} has no space left ({first}): make room on its disk")
    if any(text in low for text in _READ_ONLY):
        return DatabaseReadOnly(
            f"the database {shown_url} takes no writes ({first}): see the permissions of its file and its file system,"
            " and on PostgreSQL that the address is that of the primary"
        )
    if any(text in low for text in _FAULTY):
        return DatabaseFaulty(f"the database {shown_url} cannot be used ({first}): see its file and its disk")
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
