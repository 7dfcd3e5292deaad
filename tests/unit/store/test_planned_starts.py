"""Planned starts are written and read whole, replaced by gang, forgotten by gang, and only by the leader."""

from dataclasses import replace

import pytest

from t9ksched.model.cards import CardGrant, CardPart, SharedCards, WholeCards
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.store import Store, schema
from t9ksched.store.instance import LeadershipLost

GPU = "nvidia.com/gpu"
NOW = 1_790_000_000_123_456_789
WORKER = PodClass(
    requests=(("cpu", 4000), (GPU, 2), ("pods", 1)),
    cards=(WholeCards("main", GPU, 2),),
    host_ports=(HostPort(8080),),
)
LAUNCHER = PodClass(requests=(("cpu", 500), ("pods", 1)))


def start(owner: str, node: str, pod_class: PodClass = WORKER, begins: int = NOW, ends: int = 0) -> Reservation:
    return Reservation(
        owner, node, pod_class, ReservationKind.PLANNED, rank=10, since=begins, until=ends, firm=True, queue="q"
    )


async def test_what_is_planned_is_read_back_as_it_was(store: Store) -> None:
    plans = {
        "a": (start("a", "n1"), start("a", "n1"), start("a", "n2", LAUNCHER)),
        "b": (start("b", "n1", LAUNCHER, ends=NOW + 1),),
    }
    await store.planned_starts.put(plans)
    assert await store.planned_starts.all() == plans


async def test_the_parts_of_cards_of_a_plan_are_kept_each_for_itself(store: Store) -> None:
    shared = PodClass(requests=((GPU, 1), ("pods", 1)), cards=(SharedCards("main", GPU, 1, cores=300, memory=100),))
    parts = [CardGrant.of_parts([CardPart(GPU, index, 300, 100)]) for index in (0, 2)]
    plan = tuple(replace(start("a", "n1", shared), cards=part) for part in (parts[0], parts[0], parts[1]))
    await store.planned_starts.put({"a": plan})
    assert await store.planned_starts.all() == {"a": plan}


async def test_a_later_plan_replaces_the_earlier_of_its_gang_alone(store: Store) -> None:
    await store.planned_starts.put({"a": (start("a", "n1"), start("a", "n2")), "b": (start("b", "n1"),)})
    await store.planned_starts.put({"a": (start("a", "n3", begins=NOW + 5),)})
    found = await store.planned_starts.all()
    assert found == {"a": (start("a", "n3", begins=NOW + 5),), "b": (start("b", "n1"),)}


async def test_plans_are_forgotten_by_gang(store: Store) -> None:
    await store.planned_starts.put({"a": (start("a", "n1"),), "b": (start("b", "n1"),)})
    await store.planned_starts.forget({"a", "unknown"})
    await store.planned_starts.forget(())
    await store.planned_starts.put({})
    assert list(await store.planned_starts.all()) == ["b"]


async def test_a_former_leader_plans_nothing_and_forgets_nothing(store: Store) -> None:
    epoch = await store.instances.lead("http://one", "one")
    former = store.fenced(lambda: epoch)
    await former.planned_starts.put({"a": (start("a", "n1"),)})
    await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost):
        await former.planned_starts.put({"b": (start("b", "n1"),)})
    with pytest.raises(LeadershipLost):
        await former.planned_starts.forget({"a"})
    assert list(await store.planned_starts.all()) == ["a"]


async def test_the_table_goes_with_its_rows_and_comes_back_empty(address: str) -> None:
    async with await Store.open(address) as store:
        await store.planned_starts.put({"a": (start("a", "n1"),)})
    schema.downgrade(address, "0014")
    schema.upgrade(address)
    async with await Store.open(address) as store:
        assert await store.planned_starts.all() == {}
        await store.planned_starts.put({"a": (start("a", "n1"),)})
        assert list(await store.planned_starts.all()) == ["a"]
