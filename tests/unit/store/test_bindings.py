"""The cards of bound pods are written and read whole, by UID, and only by the scheduler that leads."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs
from sqlalchemy import create_engine, text

from t9ksched.model.card_identity import CardIdentity
from t9ksched.model.cards import CardPart
from t9ksched.store import Store, backup, schema, urls
from t9ksched.store.bindings import CardBinding
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost

GPU, NPU = "nvidia.com/gpu", "huawei.com/npu"
AT = datetime(2026, 11, 1, 8, 30, 0, 123456, UTC)


def row(uid: str, node: str = "n1", indices: tuple[int, ...] = (0, 3)) -> CardBinding:
    cards = [("main", GPU, indices), ("main", NPU, (7,)), ("init", GPU, indices[:1])]
    return CardBinding(pod_uid=uid, namespace="ns", name=f"pod-{uid}", node=node, cards=cards, honoured=True, at=AT)


async def test_what_is_written_is_read_back_as_it_was(store: Store) -> None:
    await store.bindings.put([row("a"), row("b", "n2", (5,))])
    assert await store.bindings.all() == [row("a"), row("b", "n2", (5,))]
    assert dict(row("a").grant.masks) == {GPU: 0b1001, NPU: 0b10000000}
    assert [one.share for one in await store.bindings.all()] == [100, 100]


async def test_a_later_decision_about_a_pod_replaces_the_earlier_one(store: Store) -> None:
    await store.bindings.put([row("a"), row("b")])
    await store.bindings.put([row("a", "n9", (1, 2))])
    assert await store.bindings.all() == [row("a", "n9", (1, 2)), row("b")]


async def test_rows_come_and_go_in_one_transaction(store: Store) -> None:
    await store.bindings.put([row("a"), row("b")])
    assert not await store.bindings.complete()
    await store.bindings.write([row("c")], {"a", "nobody"}, complete=True)
    assert [row.pod_uid for row in await store.bindings.all()] == ["b", "c"]
    assert await store.bindings.complete()
    await store.bindings.write([], ())
    assert [row.pod_uid for row in await store.bindings.all()] == ["b", "c"]


async def test_thousands_are_written_and_read_in_pieces(store: Store) -> None:
    many = [row(f"{number:05d}") for number in range(2500)]
    await store.bindings.put(many)
    assert [len(piece) async for piece in store.bindings.pieces()] == [1000, 1000, 500]
    assert await store.bindings.all() == many
    uids = [piece async for piece in store.bindings.uids()]
    assert [len(piece) for piece in uids] == [1000, 1000, 500]
    assert [uid for piece in uids for uid in piece] == [one.pod_uid for one in many]


async def test_a_former_leader_records_nothing_and_removes_nothing(store: Store) -> None:
    epoch = await store.instances.lead("http://one", "one")
    former = store.fenced(lambda: epoch)
    await former.bindings.put([row("a")])
    await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost):
        await former.bindings.put([row("a", "n2")])
    with pytest.raises(LeadershipLost):
        await former.bindings.write([], {"a"})
    assert await former.bindings.all() == [row("a")]


async def test_the_table_comes_and_goes_with_its_rows(address: str) -> None:
    """After a downgrade and another upgrade what is bound is read from annotations once more."""
    schema.upgrade(address, "0006")
    async with await Store.open(address) as store:
        assert not await store.bindings.complete()
        await store.bindings.write([row("a")], (), complete=True)
        await store.meta.set("other", 1)
    schema.downgrade(address, "0006")
    with pytest.raises(StoreError):
        await Store.open(address, migrate=False)
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT key FROM meta ORDER BY key")).scalars().all() == ["other"]
    engine.dispose()
    async with await Store.open(address) as store:
        assert await store.bindings.all() == []
        assert not await store.bindings.complete()


async def test_the_columns_of_places_come_and_go_with_rows_in_the_table(address: str) -> None:
    """Rows of earlier releases say nothing about groups; an earlier release finds no rows of pods without cards."""
    schema.upgrade(address, "0011")
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO binding (pod_uid, namespace, name, node, cards, share, honoured, at) VALUES"
                " ('old', 'ns', 'old', 'n1', '[]', 100, true, '2026-11-01 08:30:00')"
            )
        )
    async with await Store.open(address) as store:
        (old,) = await store.bindings.all()
        assert (old.group_name, old.role, old.queue) == (None, None, None)
        member = structs.replace(row("member"), group_name="g", role="worker", queue="q")
        plain = structs.replace(row("plain"), cards=[], group_name="g", role="", queue="q")
        await store.bindings.put([member, plain])
        assert await store.bindings.all() == [member, old, plain]
    schema.downgrade(address, "0011")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT pod_uid FROM binding ORDER BY pod_uid")).scalars().all()
    engine.dispose()
    assert found == ["member", "old"]
    async with await Store.open(address) as store:
        assert [one.group_name for one in await store.bindings.all()] == [None, None]


async def test_a_backup_does_not_say_that_it_knows_every_bound_pod(tmp_path: Path) -> None:
    """Pods are bound after it was made; a scheduler that starts on it takes their cards from annotations once."""
    address, copied = f"sqlite:///{tmp_path}/store.db", tmp_path / "copy.db"
    async with await Store.open(address) as store:
        await store.bindings.write([row("a")], (), complete=True)
    backup.copy(address, copied)
    async with await Store.open(f"sqlite:///{copied}") as store:
        assert await store.bindings.all() == [row("a")]
        assert not await store.bindings.complete()
    with closing(sqlite3.connect(tmp_path / "store.db")) as original:
        assert original.execute("SELECT count(*) FROM meta WHERE key = 'bindings'").fetchone() == (1,)


async def test_what_a_slice_was_is_kept_and_goes_with_a_downgrade(address: str) -> None:
    """An earlier release finds no rows of single pods that have no cards by index: it knew none."""
    of_group = structs.replace(
        row("b"), cards=[], units=[(GPU, "slice:1g.5gb")], worth=144_000, group_name="g", role=""
    )
    single = structs.replace(of_group, pod_uid="c", group_name="")
    async with await Store.open(address) as store:
        await store.bindings.put([row("a"), of_group, single])
        assert await store.bindings.all() == [row("a"), of_group, single]
    revisions = schema.revisions()
    schema.downgrade(address, revisions[revisions.index("0032") - 1])
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.connect() as connection:
        found = [dict(each) for each in connection.execute(text("SELECT * FROM binding ORDER BY pod_uid")).mappings()]
    engine.dispose()
    assert [(each["pod_uid"], "units" in each, "worth" in each) for each in found] == [
        ("a", False, False),
        ("b", False, False),
    ]
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.bindings.all() == [row("a"), structs.replace(of_group, units=None, worth=None)]


async def test_parts_are_kept_and_those_of_older_rows_are_none(address: str) -> None:
    part = CardPart("vke.volcengine.com/mgpu-core", 3, 600, 20_000)
    device = CardIdentity(part.resource, 3, "GPU-3")
    shared = structs.replace(row("a"), cards=[("main", part.resource, (3,))], parts=[part], devices=[device])
    async with await Store.open(address) as store:
        await store.bindings.put([shared, row("b")])
        assert await store.bindings.all() == [shared, row("b")]
        assert shared.grant.parts == (part,)
    revisions = schema.revisions()
    schema.downgrade(address, revisions[revisions.index("0027") - 1])
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.bindings.all() == [structs.replace(shared, devices=None), row("b")]
    schema.downgrade(address, revisions[revisions.index("0023") - 1])
    engine = create_engine(urls.for_sync(urls.parse(address)))
    with engine.connect() as connection:
        found = [dict(each) for each in connection.execute(text("SELECT * FROM binding ORDER BY pod_uid")).mappings()]
    engine.dispose()
    assert [(each["pod_uid"], "parts" in each) for each in found] == [("a", False), ("b", False)]
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.bindings.all() == [structs.replace(shared, parts=None, devices=None), row("b")]
