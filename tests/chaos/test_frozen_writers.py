"""A leader that is frozen in the middle of a write neither holds its successor up nor writes over it once it thaws.

Real processes on a real PostgreSQL. Nothing is timed: the successor leads and writes while the other one is frozen.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from t9ksched.model.leadership import DURATION
from t9ksched.store import Store
from t9ksched.store.errors import DatabaseBusy
from t9ksched.store.instance import _END_FORMER, FENCED, Instances, LeadershipLost
from tests import forkserver
from tests.chaos.frozen import BEFORE, BETWEEN, COMMIT, POINTS

pytestmark = pytest.mark.postgres
TIMEOUT_SECONDS = 120.0
REFUSED = {"LeadershipLost", "DatabaseUnreachable"}
"""The fence refused it, or the server had ended its session."""


@pytest.fixture
def postgres(postgres_with_tables: str) -> str:
    """A database that a leader of this release left."""
    return postgres_with_tables


@contextmanager
def frozen(address: str, epoch: int, door: str, point: str, lease: int) -> Iterator[forkserver.Process]:
    """A former leader that stands at that point."""
    arguments = [address, str(epoch), door, point, str(lease)]
    process = forkserver.start("tests.chaos.frozen", arguments, dict(os.environ), piped=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            assert process.stopped(TIMEOUT_SECONDS), "it ended before it reached that point"
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def thaw(process: forkserver.Process) -> list[str]:
    """Let it go on; how its writes ended."""
    process.send_signal(signal.SIGCONT)
    process.wait(TIMEOUT_SECONDS)
    assert process.stdout is not None
    return process.stdout.read().split()


async def takes_over(address: str, epoch: int, door: str, point: str, lease: int = DURATION) -> None:
    """A successor leads and writes what the frozen one was writing; then that one thaws."""
    async with await Store.open(address, migrate=False) as store:
        with frozen(address, epoch, door, point, lease) as former:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                later = await store.instances.lead("http://two", "two")
                mine = store.fenced(lambda: later)
                await mine.meta.set("one", "fresh")
                await mine.queues.edit("default", lambda record: ({"written": "fresh"}, record.spec))
            first, second = thaw(former)
        assert first in REFUSED
        assert second == "LeadershipLost", "the fence refuses it on a new connection too"
        assert (await store.meta.get("one"), await store.meta.get("two")) == ("fresh", None)
        queue = await store.queues.get("default")
        assert queue is not None
        assert queue.labels == {"written": "fresh"}


async def first_leader(address: str) -> int:
    async with await Store.open(address) as store:
        return await store.instances.lead("http://one", "one")


CASES = [
    *((door, point) for door in ("write", "transact") for point in POINTS),
    *(("edit", point) for point in (BEFORE, BETWEEN)),  # its last statements and the commit are one message
]


@pytest.mark.parametrize(("door", "point"), CASES)
async def test_a_frozen_writer_neither_blocks_nor_writes(postgres: str, door: str, point: str) -> None:
    await takes_over(postgres, await first_leader(postgres), door, point)


async def test_the_successor_does_not_wait_for_limits_of_time(postgres: str) -> None:
    """It ends the session of the former leader, which the server would keep for a third of an hour."""
    await takes_over(postgres, await first_leader(postgres), "write", COMMIT, lease=3600)


async def test_the_server_ends_what_the_successor_may_not(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the former leader has another role in the database."""

    async def may_not(*_: object) -> None:
        """Nothing is ended."""

    monkeypatch.setattr(Instances, "_end", may_not)
    await takes_over(postgres, await first_leader(postgres), "write", COMMIT)


async def test_a_leader_of_the_release_before_is_ended(postgres: str) -> None:
    """It locked the row of the leadership for as long as its transactions lasted."""
    await first_leader(postgres)
    with psycopg.connect(postgres) as former:
        former.execute("SELECT epoch FROM scheduler_instance FOR SHARE")
        async with asyncio.timeout(TIMEOUT_SECONDS), await Store.open(postgres, migrate=False) as store:
            assert await store.instances.lead("http://two", "two") == 2
        with pytest.raises(psycopg.OperationalError):
            former.execute("SELECT 1")


async def test_others_are_not_ended(postgres: str) -> None:
    """Who reads, who writes beside the fence, and who leads now."""
    async with await Store.open(postgres) as store:
        first = await store.instances.lead("http://one", "one")
        async with store.database.write() as honest:
            await honest.execute(text("INSERT INTO meta (key, value) VALUES ('honest', '1')"))
            second = await store.instances.lead("http://two", "two")
        assert await store.meta.get("honest") == 1
        async with store.fenced(lambda: second).database.write() as mine:
            await mine.execute(text("INSERT INTO meta (key, value) VALUES ('mine', '1')"))
            await store.instances._end(_END_FORMER, {"mark": FENCED, "epoch": second}, "test")
        assert await store.meta.get("mine") == 1
        with pytest.raises(LeadershipLost):
            await store.fenced(lambda: first).meta.set("stale", 1)


@pytest.mark.parametrize("point", [BETWEEN, COMMIT])
async def test_the_fence_alone_refuses(postgres: str, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """With limits of an hour, and without ending anything: leading does not wait, and the commit is refused."""

    async def may_not(*_: object) -> None:
        """Nothing is ended."""

    monkeypatch.setattr(Instances, "_end", may_not)
    epoch = await first_leader(postgres)
    async with await Store.open(postgres, migrate=False) as store:
        with frozen(postgres, epoch, "write", point, 3600) as former:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                later = await store.instances.lead("http://two", "two")
                await store.instances.beat(later)
                await store.fenced(lambda: later).meta.set("another", "fresh")
            assert thaw(former) == ["LeadershipLost", "LeadershipLost"]
        assert [await store.meta.get(key) for key in ("one", "two", "another")] == [None, None, "fresh"]


async def test_on_sqlite_others_are_told_that_the_file_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One machine, one file: a writer that is frozen keeps it, and no other process leads meanwhile."""
    monkeypatch.setattr("t9ksched.store.sqlite_file.BUSY_TIMEOUT_MS", 100)
    address = f"sqlite:///{tmp_path / 'store.db'}"
    epoch = await first_leader(address)
    async with await Store.open(address, migrate=False) as store:
        with frozen(address, epoch, "write", BETWEEN, DURATION) as former:
            with pytest.raises(DatabaseBusy, match="locked by another process"):
                await store.instances.lead("http://two", "two")
            assert thaw(former) == ["written", "written"]
        assert await store.instances.lead("http://two", "two") == epoch + 1
