"""The change log: a reader who follows revisions misses nothing, whichever process writes."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from t9ksched.store import Store, changes
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event


async def test_changes_come_in_order(store: Store) -> None:
    start = await store.changes.head()
    await store.queues.create("a", {}, {})
    await store.queues.create("b", {}, {})
    await store.queues.edit("a", lambda old: (old.labels, {"priority": 1}))
    await store.queues.delete("b")
    found = await store.changes.since(start)
    assert [(change.table, change.key) for change in found] == [("queue", key) for key in "abab"]
    assert [change.revision for change in found] == list(range(start + 1, start + 5))
    assert await store.changes.since(found[-1].revision) == []
    assert [change.key for change in await store.changes.since(start, limit=1)] == ["a"]


async def test_a_batch_takes_one_revision_a_row(store: Store) -> None:
    start = await store.changes.head()
    await store.acceptances.put_many(
        [Acceptance(uid=f"u{i}", kind="Pod", namespace="n", name=f"p{i}") for i in range(5)]
    )
    assert [(change.table, change.key) for change in await store.changes.since(start)] == [
        ("acceptance", f"u{i}") for i in range(5)
    ]


async def test_a_reader_sees_no_gaps_while_many_write(store: Store) -> None:
    start = seen = await store.changes.head()
    order: list[int] = []

    async def read() -> None:
        nonlocal seen
        while len(order) < 30:
            assert await store.changes.wait(seen, timeout=30)
            for change in await store.changes.since(seen):
                order.append(change.revision)
                seen = change.revision

    await asyncio.gather(read(), *(store.queues.create(f"q{i}", {}, {}) for i in range(30)))
    assert order == list(range(start + 1, start + 31))


async def test_wait_returns_at_once_when_behind_and_false_when_nothing_comes(store: Store) -> None:
    head = await store.changes.head()
    assert await store.changes.wait(head - 1, timeout=0)
    assert not await store.changes.wait(head, timeout=0)


async def test_a_waiter_that_is_woken_again_and_again_looks_no_more_often_for_that(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, looks = await store.changes.head(), 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        return head

    monkeypatch.setattr(store.changes, "head", look)
    monkeypatch.setattr(changes, "AGAIN_SECONDS", 60.0)
    waiting = asyncio.create_task(store.changes.wait(head, timeout=30))
    for _ in range(100):
        store.changes._wake()
        await asyncio.sleep(0)
    assert looks == 1
    waiting.cancel()


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_what_a_scheduler_writes_all_the_time_wakes_no_reader(store: Store) -> None:
    told: list[str] = []
    store.database.after_write(lambda: told.append("written"))
    store.database.after_change(lambda: told.append("changed"))
    await store.tell([], [Event(event="bound")], [])
    assert told == ["written"]
    await store.queues.create("q", {}, {})
    assert told[1:] == ["written", "changed"]


async def test_another_process_wakes_the_waiter(store: Store, address: str) -> None:
    """Two stores on one database stand for two processes."""
    head = await store.changes.head()
    async with await Store.open(address) as other:
        waiting = asyncio.create_task(store.changes.wait(head, timeout=30))
        await other.queues.create("q", {}, {})
        assert await waiting


async def test_purge_forgets_by_age(store: Store) -> None:
    await store.queues.create("q", {}, {})
    head = await store.changes.head()
    assert await store.changes.purge(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert await store.changes.purge(datetime.now(UTC) + timedelta(hours=1)) == head
    assert await store.changes.since(0) == []
    assert await store.changes.head() == head, "revisions go on where they were"
