"""Cordoned cards: kept by the node's name, audited, announced in the change log, and by the leader only."""

import pytest

from t9ksched.store import Store, schema
from t9ksched.store.card_cordons import TABLE
from t9ksched.store.history import AUDITED, CARD_CORDONED, CARD_UNCORDONED
from t9ksched.store.instance import LeadershipLost


async def known(store: Store) -> dict[tuple[str, int], tuple[str, str]]:
    return {(one.node, one.card): (one.why, one.by) for one in await store.card_cordons.all()}


async def audit(store: Store) -> list[tuple[str, str | None, str | None, int]]:
    return [(one.event, one.name, one.actor, one.detail["card"]) for one in await store.history.list(events=AUDITED)]


async def test_a_card_is_cordoned_until_it_is_not(store: Store) -> None:
    head = await store.changes.head()
    made = await store.card_cordons.cordon("n1", 3, "ECC errors", "root")
    await store.card_cordons.cordon("n1", 0, "", "root")
    assert await known(store) == {("n1", 0): ("", "root"), ("n1", 3): ("ECC errors", "root")}
    assert await store.card_cordons.get("n1", 3) == made
    assert await store.card_cordons.get("n2", 3) is None
    assert [(one.table, one.key) for one in await store.changes.since(head)] == [(TABLE, "n1")] * 2
    assert await store.card_cordons.uncordon("n1", 3, "ops")
    assert not await store.card_cordons.uncordon("n1", 3, "ops")
    assert await known(store) == {("n1", 0): ("", "root")}
    assert await audit(store) == [
        (CARD_CORDONED, "n1", "root", 3),
        (CARD_CORDONED, "n1", "root", 0),
        (CARD_UNCORDONED, "n1", "ops", 3),
    ]


async def test_another_reason_is_a_change_and_the_same_is_none(store: Store) -> None:
    first = await store.card_cordons.cordon("n1", 3, "fan", "root")
    head = await store.changes.head()
    assert await store.card_cordons.cordon("n1", 3, "fan", "ops") == first
    assert await store.changes.head() == head
    await store.card_cordons.cordon("n1", 3, "ECC errors", "ops")
    assert await known(store) == {("n1", 3): ("ECC errors", "ops")}
    last = (await store.history.list(events=AUDITED))[-1]
    assert (last.detail["before"], last.detail["after"]) == (
        {"why": "fan", "by": "root"},
        {"why": "ECC errors", "by": "ops"},
    )


async def test_edits_by_hand_are_taken_over_once(store: Store) -> None:
    await store.card_cordons.cordon("n1", 1, "fan", "root")
    for _ in range(2):
        await store.card_cordons.take_over("n1", {1, 5, 6}, {2}, "by hand", "kubernetes")
    assert await known(store) == {
        ("n1", 1): ("fan", "root"),
        ("n1", 5): ("by hand", "kubernetes"),
        ("n1", 6): ("by hand", "kubernetes"),
    }
    await store.card_cordons.take_over("n1", (), {1, 5}, "by hand", "kubernetes")
    assert list(await known(store)) == [("n1", 6)]
    assert [one[0] for one in await audit(store)] == [CARD_CORDONED] * 3 + [CARD_UNCORDONED] * 2


async def test_a_former_leader_takes_nothing_over(store: Store) -> None:
    epoch = await store.instances.lead("http://one", "one")
    former = store.fenced(lambda: epoch)
    await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost):
        await former.card_cordons.take_over("n1", {1}, (), "by hand", "kubernetes")
    assert await known(store) == {}


async def test_the_table_goes_with_its_rows_and_comes_back_empty(address: str) -> None:
    async with await Store.open(address) as store:
        await store.card_cordons.cordon("n1", 3, "fan", "root")
    before = schema.revisions()[schema.revisions().index("0018") - 1]
    schema.downgrade(address, before)
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await known(store) == {}
        await store.card_cordons.cordon("n1", 3, "fan", "root")
        assert list(await known(store)) == [("n1", 3)]
