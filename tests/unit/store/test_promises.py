"""Promised room is written and read whole, replaced by owner, forgotten by owner, and only by the leader."""

from dataclasses import replace

import pytest

from t9ksched.model.cards import CardGrant, CardPart, SharedCards, WholeCards
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.store import Store, schema
from t9ksched.store.errors import StoreError
from t9ksched.store.instance import LeadershipLost

GPU = "nvidia.com/gpu"
NOW = 1_790_000_000_123_456_000
WORKER = PodClass(
    requests=(("cpu", 4000), (GPU, 2), ("pods", 1)),
    cards=(WholeCards("main", GPU, 2),),
    host_ports=(HostPort(8080),),
)
LAUNCHER = PodClass(requests=(("cpu", 500), ("pods", 1)))


def hold(owner: str, node: str, pod_class: PodClass = WORKER, until: int = NOW + 90_000_000_000) -> Reservation:
    return Reservation(owner, node, pod_class, rank=10, since=NOW, until=until, kind=ReservationKind.VICTIMS)


async def test_what_is_promised_is_read_back_as_it_was(store: Store) -> None:
    promised = [hold("a", "n1"), hold("a", "n1"), hold("a", "n2", LAUNCHER), hold("b", "n1", LAUNCHER)]
    await store.promises.put(promised)
    assert await store.promises.all() == promised


async def test_the_parts_of_cards_that_are_promised_are_kept_each_for_itself(store: Store) -> None:
    shared = PodClass(requests=((GPU, 1), ("pods", 1)), cards=(SharedCards("main", GPU, 1, cores=300, memory=100),))
    parts = [CardGrant.of_parts([CardPart(GPU, index, 300, 100)]) for index in (0, 2)]
    promised = [replace(hold("a", "n1", shared), cards=part) for part in (parts[0], parts[0], parts[1])]
    await store.promises.put(promised)
    assert await store.promises.all() == promised


async def test_only_what_places_take_is_kept(store: Store) -> None:
    picky = PodClass(requests=(("pods", 1),), node_selector=(("zone", "a"),))
    await store.promises.put([hold("a", "n1", picky)])
    assert [one.pod_class for one in await store.promises.all()] == [PodClass(requests=(("pods", 1),))]


async def test_a_later_promise_replaces_the_earlier_of_its_owner_alone(store: Store) -> None:
    await store.promises.put([hold("a", "n1"), hold("a", "n2"), hold("b", "n1")])
    await store.promises.put([hold("a", "n3")])
    assert await store.promises.all() == [hold("a", "n3"), hold("b", "n1")]


async def test_promises_are_forgotten_by_owner(store: Store) -> None:
    await store.promises.put([hold("a", "n1"), hold("b", "n1")])
    await store.promises.forget(["a", "nobody"])
    assert await store.promises.all() == [hold("b", "n1")]
    await store.promises.put([])
    await store.promises.forget([])
    assert await store.promises.all() == [hold("b", "n1")]


async def test_thousands_of_places_are_one_promise(store: Store) -> None:
    many = [hold("a", f"n{number:05d}") for number in range(2500)]
    await store.promises.put(many)
    assert await store.promises.all() == many


async def test_a_former_leader_promises_nothing_and_forgets_nothing(store: Store) -> None:
    epoch = await store.instances.lead("http://one", "one")
    former = store.fenced(lambda: epoch)
    await former.promises.put([hold("a", "n1")])
    await store.instances.lead("http://two", "two")
    with pytest.raises(LeadershipLost):
        await former.promises.put([hold("b", "n1")])
    with pytest.raises(LeadershipLost):
        await former.promises.forget(["a"])
    assert await former.promises.all() == [hold("a", "n1")]


async def test_the_table_comes_and_goes_with_its_rows(address: str) -> None:
    schema.upgrade(address, "0004")
    async with await Store.open(address) as store:
        await store.promises.put([hold("a", "n1")])
        await store.queues.create("q", {}, {"priority": 5})
    schema.downgrade(address, "0004")
    with pytest.raises(StoreError):
        await Store.open(address, migrate=False)
    async with await Store.open(address) as store:
        assert await store.promises.all() == []
        kept = await store.queues.get("q")
        assert kept is not None
        assert kept.spec["priority"] == 5
