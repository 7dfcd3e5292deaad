"""Every store test runs twice: on an SQLite file and on a real PostgreSQL, each time on a fresh database."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from t9ksched.store import Store, schema


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables: copying it is a tenth of the time that migrating takes."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    schema.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The name of a PostgreSQL database with all tables."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE store_template")
    schema.upgrade(make_url(postgres_server).set(database="store_template").render_as_string(hide_password=False))
    return "store_template"


@pytest.fixture
async def store(address: str, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A store with all its tables."""
    url = make_url(address)
    if url.get_backend_name() == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), str(url.database))
    else:
        template = request.getfixturevalue("postgres_template")
        with psycopg.connect(request.getfixturevalue("postgres_server"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {url.database}")
            connection.execute(f"CREATE DATABASE {url.database} TEMPLATE {template}")
    async with await Store.open(address, migrate=False) as opened:
        yield opened
