"""Work beside the event loop ends before its caller goes on, cancelled or not, and keeps no lock."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import Connection, insert, select, update
from sqlalchemy.sql.expression import Executable

from t9ksched.store import Store
from t9ksched.store.tables import meta, revision_counter

FAR = 1_000_000
QUESTIONS = {
    "select": select(revision_counter),
    "returning": update(revision_counter).values(value=FAR).returning(revision_counter.c.value),
}


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_cancelled_transaction_is_over_when_its_caller_goes_on(tmp_path: Path, times: int) -> None:
    begun, release = threading.Event(), threading.Event()

    def act(connection: Connection) -> None:
        connection.execute(insert(meta), {"key": "k", "value": 1})
        begun.set()
        release.wait(10)

    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    task = asyncio.create_task(store.database.transact(act))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done(), "it does not leave while its thread writes"
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.close()
    assert not (tmp_path / "store.db-wal").exists(), "no process has the file open any more"


async def test_a_closed_store_is_one_file_also_if_another_process_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await Store.open(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as forgotten:
        forgotten.execute("SELECT * FROM meta").fetchall()
        await store.queues.create("kept", {}, {})
        await store.close()
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
    async with await Store.open(f"sqlite:///{copy}", migrate=False) as copied:
        assert await copied.queues.get("kept") is not None


@asynccontextmanager
async def cancelled_before_the_rows(patched: pytest.MonkeyPatch, work: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Cancels work between its first question and the rows. In the block its traceback lives on, and the cursor in it,
    as they do in a cycle that the garbage collector has not found yet.
    """
    asked = asyncio.Event()

    async def never(_: aiosqlite.Cursor) -> None:
        asked.set()
        await asyncio.Event().wait()

    with patched.context() as patch:
        patch.setattr(aiosqlite.Cursor, "fetchall", never)
        task = asyncio.create_task(work)
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as held:
            await task
    yield
    assert held.tb is not None


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_a_writer_cancelled_before_the_rows_come_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: Executable
) -> None:
    async def write() -> None:
        async with store.database.write() as connection:
            await connection.execute(question)

    path = tmp_path / "store.db"
    store = await Store.open(f"sqlite:///{path}")
    async with cancelled_before_the_rows(monkeypatch, write()):
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as another:
            another.execute("BEGIN IMMEDIATE")
            assert another.execute("SELECT value FROM revision_counter").fetchone() != (FAR,), "it is undone"
            another.execute("ROLLBACK")
        await store.close()
        assert not (tmp_path / "store.db-wal").exists(), "no process has the file open any more"


async def test_a_reader_cancelled_before_the_rows_come_keeps_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    async with cancelled_before_the_rows(monkeypatch, store.changes.touched("queue", 0)):
        await store.close()
        assert not (tmp_path / "store.db-wal").exists(), "no process has the file open any more"


async def test_a_task_cancelled_again_and_again_leaves_nothing_that_waits_for_ever(tmp_path: Path) -> None:
    """What it gave back may still be being closed when the store is, and is waited for."""
    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    reading, release = asyncio.Event(), threading.Event()

    async def read() -> None:
        async with store.database.read() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            driver._tx.put_nowait((None, lambda: release.wait(10)))
            reading.set()
            await connection.execute(QUESTIONS["select"])

    task = asyncio.create_task(read())
    await reading.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    closing_ = asyncio.create_task(store.close())
    await asyncio.sleep(0.05)
    assert not closing_.done(), "it does not leave while a thread has the file open"
    release.set()
    await closing_
    if left:
        _, left = await asyncio.wait(left, timeout=10)
    assert not left, "a close waits for a thread that has ended"


async def test_what_is_given_back_to_a_closed_store_is_closed(store: Store) -> None:
    async with store.database.read() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await connection.execute(QUESTIONS["select"])
        await store.close()
    if isinstance(driver, aiosqlite.Connection):
        assert driver._connection is None
    else:
        assert driver.closed
