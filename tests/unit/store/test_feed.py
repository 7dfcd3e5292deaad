"""The feed of history tells every event once and in order, though transactions commit in any order or not at all."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from t9ksched.store import Store
from t9ksched.store.feed import BATCH, LONGEST_SECONDS, HistoryFeed
from t9ksched.store.history import Event, Visibility, record


def event(name: str, **fields: object) -> Event:
    return Event(event="started", name=name, **fields)  # type: ignore[arg-type]


async def begun(store: Store) -> HistoryFeed:
    feed = store.feed()
    await feed.begin()
    return feed


async def names(feed: HistoryFeed) -> list[str | None]:
    return [one.name for one in await feed.news()]


@asynccontextmanager
async def writing(store: Store, name: str) -> AsyncIterator[None]:
    """A transaction that took an id and has not committed inside the block."""
    async with store.database.write() as connection:
        await record(connection, event(name))
        yield


async def test_it_begins_at_the_end_and_goes_on(store: Store) -> None:
    await store.history.append_many([event("old")])
    feed = await begun(store)
    assert await names(feed) == []
    await store.history.append_many([event(str(number)) for number in range(BATCH + 5)])
    found = [*await names(feed), *await names(feed)]
    assert found == [str(number) for number in range(BATCH + 5)]
    assert await names(feed) == []


@pytest.fixture
async def postgres_store(postgres_with_tables: str) -> AsyncIterator[Store]:
    async with await Store.open(postgres_with_tables) as store:
        yield store


@pytest.mark.postgres
async def test_what_was_numbered_before_is_awaited(postgres_store: Store) -> None:
    feed = await begun(postgres_store)
    async with writing(postgres_store, "first"):
        await postgres_store.history.append(event("second"))
        assert await names(feed) == []
        assert await names(feed) == [], "nor at the second look, while it is at work"
    assert await names(feed) == ["first", "second"]


@pytest.mark.postgres
async def test_what_is_undone_is_not_awaited(postgres_store: Store) -> None:
    feed = await begun(postgres_store)

    async def undo() -> None:
        async with writing(postgres_store, "undone"):
            await postgres_store.history.append(event("second"))
            assert await names(feed) == []
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await undo()
    assert await names(feed) == ["second"]


@pytest.mark.postgres
async def test_new_gaps_do_not_put_off_the_oldest(postgres_store: Store) -> None:
    """At every look some transaction is at work that was at the look before."""
    feed = await begun(postgres_store)
    with pytest.raises(RuntimeError):
        async with writing(postgres_store, "undone"):
            raise RuntimeError
    await postgres_store.history.append(event("0"))
    found: list[str | None] = []
    async with AsyncExitStack() as stack:
        older = AsyncExitStack()
        for number in range(1, 5):
            younger = await stack.enter_async_context(AsyncExitStack())
            await younger.enter_async_context(writing(postgres_store, f"late-{number}"))
            await postgres_store.history.append(event(str(number)))
            found += await names(feed)
            await older.aclose()
            older = younger
        assert found[:1] == ["0"]
    found += await names(feed)
    assert found == ["0", *(name for number in range(1, 5) for name in (f"late-{number}", str(number)))]


@pytest.mark.postgres
async def test_transactions_of_others_hold_nothing_up_for_ever(postgres_store: Store) -> None:
    """Any transaction of the server keeps its oldest number back, also one of another program."""
    now = 0.0
    feed = HistoryFeed(postgres_store.database, lambda: now)
    await feed.begin()
    async with postgres_store.database.write() as connection:
        await connection.exec_driver_sql("SELECT pg_current_xact_id()")
        with pytest.raises(RuntimeError):
            async with writing(postgres_store, "undone"):
                raise RuntimeError
        await postgres_store.history.append(event("next"))
        assert [await names(feed), await names(feed)] == [[], []]
        now += LONGEST_SECONDS + 1
        assert await names(feed) == ["next"]


@pytest.mark.postgres
async def test_it_begins_when_all_before_is_settled(postgres_store: Store) -> None:
    """What a client lists after that begin has all that the feed does not tell."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(writing(postgres_store, "early"))
        await postgres_store.history.append(event("old"))
        beginning = asyncio.create_task(begun(postgres_store))
        for _ in range(5):
            await postgres_store.ping()
        assert not beginning.done()
    feed = await beginning
    assert [one.name for one in await postgres_store.history.list()] == ["early", "old"]
    assert await names(feed) == []


@pytest.mark.postgres
async def test_many_writers_at_once(postgres_store: Store) -> None:
    """Eight writers, a quarter of whose transactions are undone; a reader that looks all the time."""
    feed, dice, committed = await begun(postgres_store), random.Random(3), set[str]()

    async def write(writer: int) -> None:
        for number in range(40):
            name, undo = f"{writer}-{number}", dice.random() < 0.25
            try:
                async with postgres_store.database.write() as connection:
                    for part in range(dice.randint(1, 4)):
                        await record(connection, event(f"{name}-{part}"))
                        if not undo:
                            committed.add(f"{name}-{part}")
                    if undo:
                        raise RuntimeError
            except RuntimeError:
                pass

    seen: list[str | None] = []
    writers = asyncio.gather(*(write(writer) for writer in range(8)))
    while not writers.done():
        seen += await names(feed)
    await writers
    while more := await names(feed):
        seen += more
    assert (len(seen), set(seen)) == (len(set(seen)), committed)


async def test_a_page_has_all_that_a_user_may_see(store: Store) -> None:
    await store.history.append_many(
        [
            event("mine", actor="ann"),
            event("other", uid="u2", actor="bob"),
            event("of my queue", queue="q"),
            event("of my space", namespace="ml"),
            Event(event="submitted", uid="u1", actor="ann", name="job"),
            event("of my job", uid="u1"),
            Event(event="queue-closed", queue="x", name="public"),
        ]
    )
    feed = await begun(store)
    seen_by = Visibility("ann", frozenset({"q"}), frozenset({"ml"}))

    async def page(after: int, upto: int, who: Visibility | None = seen_by) -> list[str | None]:
        return [one.name for one in await feed.page(after, upto, 100, who, ["queue-closed"])]

    assert await page(0, 7) == ["mine", "of my queue", "of my space", "job", "of my job", "public"]
    assert await page(1, 4) == ["of my queue", "of my space"]
    assert len(await page(0, 7, None)) == 7
    assert await feed.owners(["u1", "u2", "u3"]) == {"u1": {"ann"}}
