"""A former leader in a process of its own, which stops itself (SIGSTOP) at a named point of a fenced write.

    python -m tests.chaos.frozen ADDRESS EPOCH DOOR POINT LEASE

`LEASE` is the duration of its lease in seconds, from which follow the limits of its sessions.

Once it goes on it prints one line: how that write ended, and how another one ends after it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text

from t9ksched.model.leadership import Timing
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store

BEFORE, FIRST, BETWEEN, COMMIT = "before", "first", "between", "commit"
POINTS = (BEFORE, FIRST, BETWEEN, COMMIT)
"""Before the transaction begins, before its first statement, between two of them, before it is committed."""
_PUT = text(
    "INSERT INTO meta (key, value) VALUES (:key, '\"stale\"') ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
)
Stop = Callable[[str], None]


async def by_write(store: Store, stop: Stop) -> None:
    stop(BEFORE)
    async with store.database.write() as connection:
        stop(FIRST)
        await connection.execute(_PUT, {"key": "one"})
        stop(BETWEEN)
        await connection.execute(_PUT, {"key": "two"})
        stop(COMMIT)


async def by_transact(store: Store, stop: Stop) -> None:
    def act(connection: Connection) -> None:
        stop(FIRST)
        connection.execute(_PUT, {"key": "one"})
        stop(BETWEEN)
        connection.execute(_PUT, {"key": "two"})
        stop(COMMIT)

    stop(BEFORE)
    await store.database.transact(act)


async def by_edit(store: Store, stop: Stop) -> None:
    """The door that writes its last statements and the commit as one message, while it holds a row's lock."""

    def change(record: Any) -> tuple[dict[str, str], dict[str, Any]]:
        stop(BETWEEN)
        return {"written": "stale"}, record.spec

    stop(BEFORE)
    await store.queues.edit("default", change)


DOORS = {"write": by_write, "transact": by_transact, "edit": by_edit}


async def main(address: str, epoch: int, door: str, point: str, lease: int) -> None:
    def stop(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGSTOP)

    async with await Store.open(address, migrate=False, timing=Timing.of(lease)) as store:
        mine = store.fenced(lambda: epoch)
        ends = []
        for act in (DOORS[door](mine, stop), mine.meta.set("one", "stale")):
            try:
                await act
                ends.append("written")
            except StoreError as error:
                ends.append(type(error).__name__)
        sys.stdout.write(" ".join(ends))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5], int(sys.argv[5])))
