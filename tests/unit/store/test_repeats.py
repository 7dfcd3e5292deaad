"""Requests that may be repeated: claimed by one attempt at a time, answered once, kept for a day, within a size."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import inspect

from t9ksched.store import Store, repeats, schema
from t9ksched.store.repeats import LEASE, RETENTION, Attempt, Busy, OtherRequest, Stored
from t9ksched.store.tables import idempotency_key

REVISION = "0009"
NOW = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)


async def begin(store: Store, key: str = "k", request: str = "r", at: datetime = NOW, owner: str = "ann") -> Attempt:
    attempt = await store.repeats.begin(owner, key, request, at)
    assert isinstance(attempt, Attempt), attempt
    return attempt


async def answer(store: Store, attempt: Attempt, text: str = '{"items":[]}') -> None:
    await store.submissions.put([], [], [], [store.repeats.answering(attempt, 201, text)])


async def keys(store: Store) -> list[str]:
    return sorted(row.key for row in await store.database.fetch(idempotency_key.select()))


async def test_an_answer_is_given_again(store: Store, address: str) -> None:
    first = await begin(store)
    assert await store.repeats.begin("ann", "k", "r", NOW + LEASE / 3) == Busy(LEASE * 2 / 3)
    told = '{"name":"größe","quote":"it\'s; 100%"}'
    await answer(store, first, told)
    async with await Store.open(address, migrate=False) as other:
        assert await other.repeats.begin("ann", "k", "r", NOW + LEASE * 9) == Stored(201, told)
        assert await other.repeats.begin("ann", "k", "another", NOW) == OtherRequest()
        assert (await begin(other, owner="bob", request="another")).resumed is False


async def test_a_lost_attempt_is_taken_over_with_its_mark(store: Store) -> None:
    first = await begin(store)
    await store.repeats.renew(first, NOW + LEASE * 2)
    assert await store.repeats.begin("ann", "k", "r", NOW + LEASE) == Busy(LEASE)
    second = await begin(store, at=NOW + LEASE * 2)
    assert (second.mark, second.resumed) == (first.mark, True)
    await store.repeats.renew(first, NOW)
    await store.repeats.give_up(first)
    await answer(store, first, "late")
    assert isinstance(await store.repeats.begin("ann", "k", "r", NOW + LEASE * 2), Busy)
    await answer(store, second, "right")
    assert await store.repeats.begin("ann", "k", "r", NOW) == Stored(201, "right")


async def test_of_attempts_at_the_same_moment_one_wins(store: Store, address: str) -> None:
    async with await Store.open(address, migrate=False) as other:
        found = await asyncio.gather(*(one.repeats.begin("ann", "k", "r", NOW) for one in (store, other) * 4))
    assert sorted(type(one).__name__ for one in found) == ["Attempt", *["Busy"] * 7]


async def test_a_key_given_up_is_free(store: Store) -> None:
    first = await begin(store)
    await store.repeats.give_up(first)
    assert (await begin(store, request="another")).mark != first.mark


async def test_a_day_later_a_key_is_new(store: Store) -> None:
    first = await begin(store)
    await answer(store, first)
    later = await begin(store, request="another", at=NOW + RETENTION)
    assert (later.resumed, later.mark != first.mark) == (False, True)
    assert await store.repeats.begin("ann", "k", "another", NOW + RETENTION) == Busy(LEASE)


async def test_old_keys_are_swept(store: Store) -> None:
    for number in range(3):
        await answer(store, await begin(store, f"old{number}"))
    await begin(store, "lost")
    await answer(store, await begin(store, "young", at=NOW + timedelta(hours=1)))
    assert await store.repeats.purge(NOW + RETENTION - timedelta(seconds=1)) == 0
    assert await store.repeats.purge(NOW + RETENTION) == 4
    assert await keys(store) == ["young"]


async def test_of_each_user_the_newest_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MAX_STORED", 4000)
    for number in range(4):
        at = NOW + timedelta(seconds=number)
        await answer(store, await begin(store, f"ann{number}", at=at), "x" * 1000)
        await answer(store, await begin(store, f"bob{number}", at=at, owner="bob"), "x" * 100)
    await begin(store, "ann-at-work")
    assert await store.repeats.purge(NOW) == 2
    assert await keys(store) == ["ann-at-work", "ann2", "ann3", "bob0", "bob1", "bob2", "bob3"]


async def test_the_table_comes_and_goes_with_its_rows(address: str) -> None:
    schema.upgrade(address)
    async with await Store.open(address) as store:
        await answer(store, await begin(store))
        await store.queues.create("q", {}, {})
    before = schema.revisions()[schema.revisions().index(REVISION) - 1]
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await keys(store) == []
        assert await store.queues.get("q") is not None
        await begin(store, request="another")
        async with store.database.read() as connection:
            names = await connection.run_sync(lambda it: inspect(it).get_indexes("idempotency_key"))
    assert [index["name"] for index in names] == ["ix_idempotency_key_at"]
