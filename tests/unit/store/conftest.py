"""Every store test runs twice: on an SQLite file and on a real PostgreSQL, each time on a fresh database."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from t9ksched.store import Store
from tests.postgresql import create_database


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
async def store(address: str, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A store with all its tables."""
    url = make_url(address)
    if url.get_backend_name() == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), str(url.database))
    else:
        template = request.getfixturevalue("postgres_template")
        server = request.getfixturevalue("postgres_server")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {url.database}")
        create_database(server, str(url.database), template)
    async with await Store.open(address, migrate=False) as opened:
        yield opened
