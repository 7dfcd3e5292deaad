"""The writer of SQL: what shares a transaction, what is waited for, and in which order rows are written."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.scheduler.report import sql_writer
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.store.errors import DatabaseUnreachable
from t9ksched.store.history import Event
from t9ksched.store.jobs import Gone, JobRecord

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Store:
    """Keeps what each transaction wrote. One is under way until `go` is set; `away`: none succeeds."""

    def __init__(self) -> None:
        self.wrote: list[list[str]] = []
        self.gone: dict[str, Gone] = {}
        self.marks: list[tuple[str, list[str]]] = []
        """Of each attempt, with the events."""
        self.begun = 0
        self.away = False
        self.go = asyncio.Event()
        self.go.set()

    async def tell(self, _: object, events: Sequence[Event], jobs: Sequence[JobRecord], mark: str = "") -> None:
        self.marks.append((mark, [event.event for event in events]))
        await self._take([*(event.event for event in events), *(f"job {job.uid}" for job in jobs)])

    async def end(self, gone: dict[str, Gone]) -> None:
        self.gone |= gone
        await self._take([f"gone {uid}" for uid in gone])

    async def ping(self) -> None:
        if self.away:
            raise DatabaseUnreachable("away")

    async def _take(self, rows: list[str]) -> None:
        self.begun += 1
        await self.go.wait()
        await self.ping()
        self.wrote.append(rows)


@asynccontextmanager
async def running(store: Any) -> AsyncIterator[SqlWriter]:
    writer = SqlWriter(store)
    task = asyncio.create_task(writer.run())
    await asyncio.sleep(0)
    try:
        yield writer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_PAUSE", 0.001)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def job(uid: str) -> JobRecord:
    return JobRecord(uid=uid, kind="Pod", namespace="n", name=uid, submitted_at=NOW, shape={})


def event(name: str) -> Event:
    return Event(event=name, at=NOW)


async def test_what_comes_during_a_transaction_waits_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_PAUSE", 0.05)
    store = Store()
    async with running(store) as writer:
        store.go.clear()
        writer.event(event("first"))
        await until(lambda: store.begun == 1)
        asked = asyncio.create_task(writer.flushed())
        writer.event(event("second"))
        store.go.set()
        await until(lambda: bool(store.wrote))
        writer.job(job("a"))
        await asyncio.wait_for(writer.flushed(), 5)
        assert store.wrote == [["first"], ["second", "job a"]]
        await asyncio.wait_for(asked, 5)


async def test_many_rows_at_once_are_followed_by_a_longer_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_MANY", 3)
    slept: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    store = Store()
    async with running(store) as writer:
        monkeypatch.setattr(asyncio, "sleep", pause)
        for count in (2, 3, 1):
            for _ in range(count):
                writer.event(event("one"))
            await writer.flushed()
            await sleep(0.01)
        monkeypatch.undo()
    assert slept == [0.001, 0.002, 0.001]


async def test_whoever_asks_waits_for_what_came_before_alone() -> None:
    store = Store()
    async with running(store) as writer:
        busy = True

        async def another(rows: list[str]) -> None:
            store.wrote.append(rows)
            if busy:  # never idle
                writer.event(event("another"))

        store._take = another  # type: ignore[method-assign]
        writer.event(event("first"))
        await asyncio.wait_for(writer.flushed(), 5)
        assert ["first"] in store.wrote
        assert writer.backlog
        busy = False


async def test_all_of_many_rows_are_written_before_whoever_asks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_BATCH", 2)
    monkeypatch.setattr(sql_writer, "_EVENTS", 2)
    store = Store()
    async with running(store) as writer:
        for number in range(5):
            writer.event(event(str(number)))
        writer.gone("x", Gone(NOW))
        await asyncio.wait_for(writer.flushed(), 5)
        assert store.wrote == [["0", "1"], ["2", "3"], ["4"], ["gone x"]]


async def test_each_transaction_has_jobs_of_another_part_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_BATCH", 2)
    monkeypatch.setattr(sql_writer, "_SORTED", 4)
    store = Store()
    async with running(store) as writer:
        for uid in "debacf":
            writer.job(job(uid))
        await asyncio.wait_for(writer.flushed(), 5)
        assert store.wrote == [["job a", "job b"], ["job d", "job e"], ["job c", "job f"]]


async def test_a_job_that_comes_and_goes_during_a_transaction_is_marked_after_it_is_written() -> None:
    store = Store()
    async with running(store) as writer:
        store.go.clear()
        writer.event(event("first"))
        await until(lambda: store.begun == 1)
        writer.job(job("a"))
        writer.gone("a", Gone(NOW))
        store.go.set()
        await asyncio.wait_for(writer.flushed(), 5)
        assert store.wrote == [["first"], ["job a"], ["gone a"]]


async def test_it_ends_with_all_that_waits() -> None:
    store = Store()
    async with running(store) as writer:
        store.go.clear()
        writer.event(event("first"))
        await until(lambda: store.begun == 1)
        writer.event(event("second"))
        writer.gone("x", Gone(NOW))
        asyncio.get_running_loop().call_later(0.01, store.go.set)
    assert store.wrote == [["first"], ["second"], ["gone x"]]


async def test_the_database_counts_as_away_until_all_that_waits_is_written() -> None:
    store = Store()
    async with running(store) as writer:
        store.away = True
        writer.event(event("first"))
        await until(lambda: writer.behind is not None)
        store.begun = 0
        store.away = False
        store.go.clear()
        await until(lambda: store.begun == 1)
        writer.event(event("second"))
        store.go.set()
        await until(lambda: writer.behind is None)
        assert store.wrote == [["first"], ["second"]]


async def test_times_of_a_job_do_not_go_backwards() -> None:
    def at(seconds: float, uid: str = "a", name: str = "bound") -> Event:
        return Event(event=name, at=NOW + timedelta(seconds=seconds), uid=uid)

    writer, heard = SqlWriter(Store()), list[Event]()  # type: ignore[arg-type]
    writer.heard = heard.append
    writer.continues({"b": NOW + timedelta(seconds=9)})
    for one in (at(1.5), at(1), at(1, "b"), at(2), at(1, "c"), at(8, "b"), at(10, "b")):
        writer.event(one)
    assert [(event.at - NOW).total_seconds() for event in heard] == [1.5, 1.5, 9, 2, 1, 9, 10]
    writer.gone("a", Gone(NOW))
    writer.event(at(3, name="released"))
    assert "a" not in writer._last, "of what outlives its job nothing is remembered"
    writer._clock_set(timedelta(seconds=-60), NOW)
    writer.event(at(0, "b"))
    assert heard[-1].at == NOW


async def test_that_the_end_of_a_job_was_told_is_remembered_until_it_is_written() -> None:
    store = Store()
    async with running(store) as writer:
        for uid, told in (("a", True), ("b", False), ("a", False), ("b", True), ("c", False), ("c", False)):
            writer.gone(uid, Gone(NOW, "Running" if told else "Pending", told))
        await asyncio.wait_for(writer.flushed(), 5)
    told = {uid: (one.phase, one.told) for uid, one in store.gone.items()}
    assert told == {"a": ("Running", True), "b": ("Running", True), "c": ("Pending", False)}


async def test_events_of_which_the_answer_was_lost_are_told_again_by_themselves_with_their_mark() -> None:
    store = Store()
    store.away = True
    async with running(store) as writer:
        writer.event(event("a"))
        await until(lambda: len(store.marks) == 1)
        writer.event(event("b"))
        store.away = False
        await asyncio.wait_for(writer.flushed(), 10)
    (first, told), (again, same), (other, rest) = store.marks
    assert (told, same, rest) == (["a"], ["a"], ["b"])
    assert first == again != other
    assert writer.backlog == 0
