"""Every store test runs twice: on an SQLite file and on a real PostgreSQL, each time on a fresh database."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from t9ksched.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database: with all tables for a test that takes a `store`, else empty."""
    tables = "store" in request.fixturenames
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_with_tables" if tables else "postgres"))
    path = tmp_path / "store.db"
    if tables:
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
    return f"sqlite:///{path}"


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    """A store with all its tables."""
    async with await Store.open(address, migrate=False) as opened:
        yield opened
