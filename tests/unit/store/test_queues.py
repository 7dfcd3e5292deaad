"""Queues: every change has its revision, and no edit is lost."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import create_engine, update

from t9ksched.store import Store, schema, urls
from t9ksched.store.errors import RevisionChanged, RowExists, RowMissing
from t9ksched.store.queues import QueueRecord
from t9ksched.store.tables import queue


def set_priority(value: int):
    return lambda old: (old.labels, old.spec | {"priority": value})


async def test_default_queue_is_there_and_is_made_once(store: Store, address: str) -> None:
    first = await store.queues.get("default")
    assert first is not None
    assert (first.labels, first.spec) == ({}, {"ordering": "Backfill"})
    async with await Store.open(address) as again:
        assert await again.queues.get("default") == first


async def test_create_get_list(store: Store) -> None:
    spec = {"quota": {"requests": {"nvidia.com/gpu": "8", "cpu": "64"}}, "priority": 10}
    made = await store.queues.create("a100", {"team": "ml"}, spec)
    assert await store.queues.get("a100") == made
    assert list(made.spec["quota"]["requests"]) == ["nvidia.com/gpu", "cpu"], "keys keep the order they were written in"
    assert [queue.name for queue in await store.queues.list()] == ["a100", "default"]
    assert made.created_at.tzinfo is not None
    assert await store.queues.get("other") is None


async def test_a_name_is_taken_once(store: Store) -> None:
    await store.queues.create("q", {}, {})
    head = await store.changes.head()
    with pytest.raises(RowExists, match="'q' exists"):
        await store.queues.create("q", {}, {"priority": 3})
    assert await store.changes.head() == head, "a refused change takes no revision"


async def test_edit_grows_the_revision_and_keeps_identity(store: Store) -> None:
    made = await store.queues.create("q", {}, {"priority": 1})
    edited = await store.queues.edit("q", set_priority(2), expected=made.revision)
    assert edited.spec == {"priority": 2, "ordering": "Backfill"}
    assert edited.revision > made.revision
    assert (edited.uid, edited.created_at) == (made.uid, made.created_at)
    assert await store.queues.get("q") == edited


@pytest.mark.parametrize("given", [{}, {"ordering": None}])
async def test_the_ordering_is_that_of_new_queues_and_stays_where_a_change_leaves_it_out(
    store: Store, given: dict[str, Any]
) -> None:
    made = await store.queues.create("q", {}, {"priority": 1, **given})
    assert made.spec == {"priority": 1, "ordering": "Backfill"}
    chosen = await store.queues.edit("q", lambda old: (old.labels, {"ordering": "Strict"}))
    replaced = await store.queues.edit("q", lambda old: (old.labels, {"priority": 2, **given}))
    assert (chosen.spec, replaced.spec) == ({"ordering": "Strict"}, {"priority": 2, "ordering": "Strict"})
    assert await store.queues.edit("q", lambda old: (old.labels, {"priority": 2})) == replaced, "nothing changed"
    other = await store.queues.create("r", {}, {"ordering": "BestEffort"})
    assert other.spec == {"ordering": "BestEffort"}


async def test_an_upgrade_writes_the_ordering_that_queues_have(address: str) -> None:
    """Queues of releases whose default was `BestEffort` keep it; so they do under such a release again."""
    specs: dict[str, dict[str, Any]] = {
        "plain": {"priority": 5, "quota": {"requests": {"nvidia.com/gpu": "8", "cpu": "64"}}},
        "null": {"ordering": None},
        "strict": {"ordering": "Strict"},
        "filled": {"ordering": "Backfill", "priority": 1},
        "default": {},
    }
    written = {name: spec | {"ordering": spec.get("ordering") or "BestEffort"} for name, spec in specs.items()}
    before = schema.revisions()[schema.revisions().index("0019") - 1]

    def rewrite(to: dict[str, dict[str, Any]]) -> None:
        engine = create_engine(urls.for_sync(urls.parse(address)))
        with engine.begin() as connection:
            for name, spec in to.items():
                connection.execute(update(queue).where(queue.c.name == name).values(spec=spec))
        engine.dispose()

    async with await Store.open(address) as store:
        for name in specs.keys() - {"default"}:
            await store.queues.create(name, {"of": name}, {}, {"users": ["ann"]})
        revisions = {record.name: record.revision for record in await store.queues.list()}
    schema.downgrade(address, before)
    rewrite(specs)
    async with await Store.open(address) as store:
        first = {record.name: record for record in await store.queues.list()}
        assert {name: record.spec for name, record in first.items()} == written
        assert list(first["plain"].spec["quota"]["requests"]) == ["nvidia.com/gpu", "cpu"], "in the same order"
        assert (first["plain"].labels, first["plain"].members) == ({"of": "plain"}, {"users": ["ann"]})
        assert {name: record.revision for name, record in first.items()} == revisions
        made = await store.queues.create("new", {}, {})
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert {record.name: record for record in await store.queues.list()} == first | {"new": made}


async def test_edit_without_change_keeps_the_revision(store: Store) -> None:
    made = await store.queues.create("q", {}, {"priority": 1})
    head = await store.changes.head()
    assert await store.queues.edit("q", set_priority(1)) == made
    assert await store.changes.head() == head


async def test_a_stale_revision_is_refused(store: Store) -> None:
    made = await store.queues.create("q", {}, {})
    now = await store.queues.edit("q", set_priority(2))
    with pytest.raises(RevisionChanged) as refused:
        await store.queues.edit("q", set_priority(3), expected=made.revision)
    assert refused.value.current == now.revision
    with pytest.raises(RevisionChanged):
        await store.queues.delete("q", expected=made.revision)
    assert await store.queues.get("q") == now


async def test_an_edit_that_raises_changes_nothing(store: Store) -> None:
    made = await store.queues.create("q", {}, {"priority": 1})

    def refuse(_: QueueRecord) -> tuple[dict[str, str], dict[str, object]]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.queues.edit("q", refuse)
    assert await store.queues.get("q") == made


async def test_delete(store: Store) -> None:
    made = await store.queues.create("q", {}, {})
    assert await store.queues.delete("q", expected=made.revision) == made
    assert await store.queues.get("q") is None
    for missing in (store.queues.delete("q"), store.queues.edit("q", set_priority(1))):
        with pytest.raises(RowMissing, match="no queue 'q'"):
            await missing


async def test_concurrent_edits_are_all_kept(store: Store) -> None:
    await store.queues.create("q", {}, {"priority": 0})

    def one_more(old: QueueRecord) -> tuple[dict[str, str], dict[str, int]]:
        return old.labels, {"priority": old.spec["priority"] + 1}

    edits = await asyncio.gather(*(store.queues.edit("q", one_more) for _ in range(20)))
    final = await store.queues.get("q")
    assert final is not None
    assert final.spec == {"priority": 20, "ordering": "Backfill"}
    assert len({edit.revision for edit in edits}) == 20


async def test_of_concurrent_creators_one_wins(store: Store) -> None:
    results = await asyncio.gather(*(store.queues.create("q", {}, {}) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(result, QueueRecord) for result in results) == 1
    assert sum(isinstance(result, RowExists) for result in results) == 7
