"""Whether services use a database now, as far as the database itself can tell."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import inspect, select, text
from sqlalchemy.engine import Connection

from t9ksched.store.errors import StoreError
from t9ksched.store.tables import scheduler_instance

_SILENT: Final = timedelta(seconds=10)
"""A leader that was not heard of for so long has ended, however it did."""
_SESSIONS: Final = text(
    "SELECT count(*), count(DISTINCT client_addr), min(host(client_addr)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 't9ksched' AND pid <> pg_backend_pid()"
)
_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.2
_REMEDY: Final = "stop the scheduler and REST first, for they write to the tables that go"


def require_unused(connection: Connection) -> None:
    """See that no service uses the database: by the sessions that PostgreSQL knows, or, as
    SQLite knows none, by the leader's heartbeat.

    Raises:
        StoreError: one does.
    """
    if connection.dialect.name == "postgresql":
        sessions, hosts, host = _sessions(connection)
        if sessions:
            where = f" from {host}" if hosts == 1 else f" from {hosts} hosts" if hosts else ""
            raise StoreError(
                f"the database is in use by other t9ksched processes ({sessions} sessions{where}): {_REMEDY}"
            )
        return
    if not inspect(connection).has_table(scheduler_instance.name):
        return
    columns = scheduler_instance.c
    leader = connection.execute(select(columns.identity, columns.address, columns.heartbeat_at)).first()
    if leader is not None and leader.address and (silent := datetime.now(UTC) - leader.heartbeat_at) < _SILENT:
        raise StoreError(
            f"the database is in use by the scheduler {leader.identity}, heard of {silent.total_seconds():.0f} seconds"
            f" ago: {_REMEDY}; one that has ended counts for {_SILENT.total_seconds():.0f} seconds"
        )


def _sessions(connection: Connection) -> tuple[int, int, str]:
    """Other sessions of ours, on how many hosts, and one of those. Of processes that just ended some may still go."""
    for _ in range(_TRIES):
        sessions, hosts, host = connection.execute(_SESSIONS).one()
        if not sessions:
            break
        time.sleep(_PAUSE_SECONDS)
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
    return sessions, hosts, host
