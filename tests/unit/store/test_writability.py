"""Whether ordinary transactions can be written: what the probe finds, and what a failed write is called."""

import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from t9ksched.store import Store
from t9ksched.store.errors import (
    DatabaseFaulty,
    DatabaseFull,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnreachable,
    StoreError,
    translate,
)

URL = "postgresql://t9k@db.internal:5432/x"


@pytest.mark.parametrize(
    ("error", "kind", "public"),
    [
        (sqlite3.OperationalError("database or disk is full"), DatabaseFull, "has no space left"),
        (sqlite3.OperationalError("database is locked"), DatabaseLocked, "is locked by another process"),
        (sqlite3.OperationalError("attempt to write a readonly database"), DatabaseReadOnly, "is read-only"),
        (sqlite3.OperationalError("disk I/O error"), DatabaseFaulty, "is faulty"),
        (sqlite3.DatabaseError("database disk image is malformed"), DatabaseFaulty, "is faulty"),
        (
            psycopg.errors.DiskFull('could not extend file "base/1/2": No space left on device'),
            DatabaseFull,
            "has no space left",
        ),
        (
            psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"),
            DatabaseReadOnly,
            "is read-only",
        ),
        (
            psycopg.OperationalError('connection to server at "10.0.0.7" failed: refused'),
            DatabaseUnreachable,
            "cannot be reached now",
        ),
    ],
)
def test_a_failed_write_says_which_kind_of_failure_it_is(error: Exception, kind: type[StoreError], public: str) -> None:
    """And what a user is told names no address and no file."""
    for seen in (error, OperationalError("INSERT INTO t", {}, error)):
        failed = translate(seen, URL)
        assert type(failed) is kind
        assert failed.public.endswith(public)
        assert "/" not in failed.public + failed.remedy
        assert "db.internal" in str(failed)


async def test_each_probe_writes_something_new(tmp_path: Path) -> None:
    """SQLite writes nothing where the content is that of before, and then finds no fault with a full disk."""
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        log = tmp_path / "store.db-wal"
        await store.check_writable()
        for _ in range(3):
            before = log.stat().st_size
            await store.check_writable()
            assert log.stat().st_size > before


async def test_a_disk_with_little_room_counts_as_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        disk = SimpleNamespace(f_blocks=1000, f_bfree=3, f_bavail=3, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda _: disk)
        with pytest.raises(DatabaseFull, match="12288 bytes left"):
            await store.check_writable()
        disk.f_blocks = 0  # a file system that does not say how large it is
        await store.check_writable()


async def test_after_a_failed_write_the_probe_needs_room_for_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        await _no_larger(store, monkeypatch)
        await store.check_writable()  # a little has room
        with pytest.raises(DatabaseFull):
            await store.meta.set("large", "x" * 100_000)
        for _ in range(2):
            assert isinstance(store.write_fault, DatabaseFull)
            with pytest.raises(DatabaseFull):
                await store.check_writable()
        monkeypatch.undo()
        await store.database.close()  # it is opened again, without the limit
        await store.check_writable()
        assert store.write_fault is None


async def test_what_is_refused_for_its_content_is_no_fault_of_the_database(store: Store) -> None:
    with pytest.raises(StoreError):
        async with store.database.write() as connection:
            await connection.execute(text("INSERT INTO meta (key, value) VALUES (NULL, NULL)"))
    assert store.write_fault is None


@pytest.mark.postgres
async def test_a_read_only_server_takes_no_probe(postgres_with_tables: str) -> None:
    async with await Store.open(postgres_with_tables, migrate=False) as store:
        async with store.database.write() as connection:
            name = (await connection.execute(text("SELECT current_database()"))).scalar_one()
            await connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        await store.database.close()
        await store.ping()
        with pytest.raises(DatabaseReadOnly):
            await store.check_writable()


async def _no_larger(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the file of the database may not grow."""
    async with store.database.read() as connection:
        pages = (await connection.execute(text("PRAGMA page_count"))).scalar_one()
    known = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
    monkeypatch.setattr("t9ksched.store.sqlite_file.PRAGMAS", (*known, f"max_page_count={pages}"))
    await store.database.close()  # it is opened again
