"""What is told of single pods until they are bound: kept back so that it is one row, and nothing of it lost."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.scheduler.report import sql_writer
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.errors import DatabaseUnreachable
from t9ksched.store.history import ACCEPTED, ADMITTED, BOUND, CLOCK_SET, DELETED, STARTED, WAITING, Event
from tests.unit.scheduler.report.test_sql_writer import running

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Written(NamedTuple):
    accepted: list[str]
    events: list[tuple[str | None, str]]


class Store:
    """Keeps what each transaction wrote; while `away` none succeeds."""

    def __init__(self) -> None:
        self.wrote: list[Written] = []
        self.away = False

    async def tell(self, accepted: Sequence[Acceptance], events: Sequence[Event], *_: object) -> None:
        await self.ping()
        self.wrote.append(Written([one.uid for one in accepted], [(one.uid, one.event) for one in events]))

    async def ping(self) -> None:
        if self.away:
            raise DatabaseUnreachable("away")

    @property
    def accepted(self) -> list[str]:
        return [uid for one in self.wrote for uid in one.accepted]

    @property
    def events(self) -> list[tuple[str | None, str]]:
        return [event for one in self.wrote for event in one.events]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_PAUSE", 0.001)


def told(event: str, uid: str | None = "a") -> Event:
    return Event(event=event, at=NOW, kind="Pod", uid=uid)


def accept(writer: SqlWriter, uid: str = "a") -> None:
    writer.accepted_pod(Acceptance(uid=uid, kind="Pod", namespace="n", name=uid), told(ACCEPTED, uid))


async def passes() -> None:
    """Time for several writes."""
    await asyncio.sleep(0.03)


async def test_a_pod_that_is_bound_soon_is_written_at_once() -> None:
    store = Store()
    async with running(store) as writer:
        accept(writer)
        accept(writer, "b")
        writer.event(told(ADMITTED))
        await passes()
        assert not store.wrote
        assert writer.backlog == 2
        writer.event(told(BOUND))
        await passes()
        assert store.wrote == [Written(["a"], [("a", ACCEPTED), ("a", ADMITTED), ("a", BOUND)])]
    assert store.wrote[1:] == [Written(["b"], [("b", ACCEPTED)])], "the service stops"


@pytest.mark.parametrize("event", [WAITING, STARTED, DELETED, BOUND])
async def test_anything_else_that_is_told_ends_the_wait(event: str) -> None:
    store = Store()
    async with running(store) as writer:
        accept(writer)
        writer.event(told(event))
        await passes()
        assert store.wrote == [Written(["a"], [("a", ACCEPTED), ("a", event)])]


async def test_what_was_agreed_anew_is_written_after_what_was_before() -> None:
    store = Store()
    async with running(store) as writer:
        accept(writer)
        writer.accepted([Acceptance(uid="a", kind="Pod", namespace="n", name="a", replicas=2)])
        await passes()
        assert store.accepted == ["a", "a"]
        accept(writer, "b")
        accept(writer, "b")
        await passes()
        assert store.accepted == ["a", "a", "b"]


async def test_time_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "KEPT_SECONDS", 0.02)
    store = Store()
    async with running(store) as writer:
        accept(writer)
        writer.event(told(ADMITTED))
        async with asyncio.timeout(5):
            while not store.wrote:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert store.wrote == [Written(["a"], [("a", ACCEPTED), ("a", ADMITTED)])]
        assert not writer.backlog


async def test_whoever_asks_for_all_gets_all() -> None:
    store = Store()
    async with running(store) as writer:
        accept(writer)
        await asyncio.wait_for(writer.flushed(), 5)
        assert store.accepted == ["a"]


async def test_nothing_is_kept_back_while_the_database_is_away() -> None:
    store = Store()
    async with running(store) as writer:
        accept(writer)
        store.away = True
        writer.event(told(STARTED, "other"))
        await passes()
        accept(writer, "b")
        writer.event(told(ADMITTED))
        store.away = False
        await asyncio.wait_for(writer.flushed(), 5)
        assert sorted(store.accepted) == ["a", "b"]
        assert [event for uid, event in store.events if uid == "a"] == [ACCEPTED, ADMITTED]


async def test_what_was_before_the_clock_was_set_is_written_before() -> None:
    store = Store()
    async with running(store) as writer:
        accept(writer)
        writer._clock_set(timedelta(seconds=5), NOW)
        writer.event(told(BOUND))
        await passes()
    assert [event for _, event in store.events] == [ACCEPTED, CLOCK_SET, BOUND]


async def test_of_more_than_fit_into_a_transaction_all_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_writer, "_BATCH", 2)
    monkeypatch.setattr(sql_writer, "_EVENTS", 6)
    store = Store()
    async with running(store) as writer:
        for number in range(7):
            writer.event(told(STARTED, str(number)))
        await asyncio.wait_for(writer.flushed(), 5)
        assert [len(one.events) for one in store.wrote] == [6, 1]


_EVENTS = st.sampled_from([ACCEPTED, ADMITTED, BOUND, WAITING, DELETED])


@given(st.lists(st.tuples(st.sampled_from("abc"), _EVENTS), max_size=30))
def test_every_event_of_a_pod_is_written_once_and_in_order(events: list[tuple[str, str]]) -> None:
    async def run() -> Store:
        store = Store()
        async with running(store) as writer:
            for number, (uid, event) in enumerate(events):
                if event == ACCEPTED:
                    accept(writer, uid)
                else:
                    writer.event(told(event, uid))
                if number % 7 == 6:
                    await asyncio.sleep(0.002)
        return store

    store = asyncio.run(run())
    for uid in "abc":
        assert [event for event in store.events if event[0] == uid] == [event for event in events if event[0] == uid]
        assert store.accepted.count(uid) == events.count((uid, ACCEPTED))
