"""Submissions in progress: one claim at a time, taken over when its lease is over, closed by the process that records
them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import inspect

from t9ksched.store import Store, outbox, schema
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.errors import StoreError
from t9ksched.store.history import SUBMITTED, Event
from t9ksched.store.outbox import CHECKING, CREATING, LEASE, RECORDED, REMOVING, Entry, Intent, new_entry
from t9ksched.store.repeats import Busy

REVISION = "0010"
NOW = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)


async def begin(store: Store, name: str = "a", key: str | None = None) -> Entry:
    about: Any = {"kind": "Pod", "namespace": "default", "name": name}
    limited = Acceptance(uid="", **about, time_limit=timedelta(hours=1), cards={"nvidia.com/gpu": 2}, accepted_at=NOW)
    objects = [Intent(**about, acceptance=limited), Intent(**about, acceptance=limited, ours=False, group=0)]
    entry = new_entry("ann", ["g"], objects, NOW, key)
    await store.outbox.begin(entry)
    return entry


async def record(store: Store, entry: Entry) -> None:
    closing = store.outbox.closing(entry, NOW)
    await store.submissions.put([], [], [Event(event=SUBMITTED, at=NOW, uid=entry.id)], [], closing)


async def submitted(store: Store) -> list[str | None]:
    return [event.uid for event in await store.history.list(event=SUBMITTED)]


async def test_what_is_read_is_what_was_written(store: Store) -> None:
    entry = await begin(store)
    assert await store.outbox.renew(entry, NOW + LEASE * 2, ["u1", None])
    assert await store.outbox.lost(NOW + LEASE) == []
    (taken,) = await store.outbox.lost(NOW + LEASE * 2)
    assert (taken.objects, taken.groups, taken.uids) == (entry.objects, ["g"], ["u1", None])
    assert (taken.state, taken.at, taken.latest, taken.until) == (CHECKING, NOW, NOW + LEASE * 2, NOW + LEASE * 3)


async def test_a_replica_that_lost_the_claim_records_and_renews_nothing(store: Store) -> None:
    entry = await begin(store)
    (taken,) = await store.outbox.lost(NOW + LEASE)
    assert not await store.outbox.renew(entry, NOW + LEASE * 9, [None, None])
    assert await store.outbox.turn(entry, REMOVING, NOW) is None
    with pytest.raises(StoreError):
        await record(store, entry)
    await store.outbox.drop(entry)
    assert await submitted(store) == []
    await record(store, taken)
    assert (await submitted(store), await store.outbox.state(entry)) == ([entry.id], RECORDED)
    with pytest.raises(StoreError):
        await record(store, entry)


async def test_an_entry_is_gone_once_its_submission_is_recorded(store: Store) -> None:
    entry = await begin(store)
    await record(store, entry)
    assert (await submitted(store), await store.outbox.state(entry)) == ([entry.id], None)


async def test_a_transaction_whose_fate_is_unknown_is_ended_by_a_turn(store: Store) -> None:
    entry = await begin(store)
    turned = await store.outbox.turn(entry, REMOVING, NOW + LEASE)
    assert turned is not None
    with pytest.raises(StoreError):
        await record(store, entry)
    await store.outbox.drop(turned)
    assert await store.outbox.state(entry) is None


async def test_of_takers_at_the_same_moment_one_wins(store: Store, address: str) -> None:
    entries = [await begin(store, name) for name in "abc"]
    async with await Store.open(address, migrate=False) as other:
        found = await asyncio.gather(*(one.outbox.lost(NOW + LEASE) for one in (store, other) * 4))
    assert sorted(one.id for some in found for one in some) == sorted(entry.id for entry in entries)


async def test_a_repeat_takes_over_unless_a_replica_settles_it(store: Store) -> None:
    entry = await begin(store, key="k")
    assert await store.outbox.resume("ann", "other", NOW) is None
    assert await store.outbox.resume("bob", "k", NOW) is None
    taken = await store.outbox.resume("ann", "k", NOW)
    assert isinstance(taken, Entry)
    assert (taken.state, taken.id, taken.claim != entry.claim) == (CREATING, entry.id, True)
    (settling,) = await store.outbox.lost(NOW + LEASE)
    assert await store.outbox.resume("ann", "k", NOW + LEASE) == Busy(LEASE)
    assert isinstance(await store.outbox.resume("ann", "k", NOW + LEASE * 2), Entry)
    with pytest.raises(StoreError):
        await record(store, settling)


async def test_what_began_before_a_lone_process_is_lost_at_once(store: Store) -> None:
    entry = await begin(store)
    assert await store.outbox.lost(NOW, NOW) == []
    (taken,) = await store.outbox.lost(NOW, NOW + timedelta(seconds=1))
    assert taken.id == entry.id


async def test_the_table_comes_and_goes_with_its_rows(address: str) -> None:
    schema.upgrade(address)
    async with await Store.open(address) as store:
        await begin(store)
        await store.repeats.begin("ann", "k", "r", NOW)
        await store.queues.create("q", {}, {})
    before = schema.revisions()[schema.revisions().index(REVISION) - 1]
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.database.fetch(outbox.outbox.select()) == []
        assert isinstance(await store.repeats.begin("ann", "k", "r", NOW), Busy)
        assert await store.queues.get("q") is not None
        await begin(store)
        async with store.database.read() as connection:
            names = await connection.run_sync(lambda it: inspect(it).get_indexes("outbox"))
    assert sorted(str(index["name"]) for index in names) == ["ix_outbox_owner_key", "ix_outbox_until"]
