"""Work beside the event loop ends before whoever asked for it goes on, cancelled or not."""

import asyncio
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert

from t9ksched.store import Store
from t9ksched.store.tables import meta


async def test_a_cancelled_transaction_is_over_when_its_caller_goes_on(tmp_path: Path) -> None:
    begun, release = threading.Event(), threading.Event()

    def act(connection: Connection) -> None:
        connection.execute(insert(meta), {"key": "k", "value": 1})
        begun.set()
        release.wait(10)

    store = await Store.open(f"sqlite:///{tmp_path}/store.db")
    task = asyncio.create_task(store.database.transact(act))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done(), "it does not leave while its thread writes"
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.close()
    assert not (tmp_path / "store.db-wal").exists(), "nobody has the file open any more"


async def test_a_closed_store_is_one_file_whoever_else_has_it_open(tmp_path: Path) -> None:
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
