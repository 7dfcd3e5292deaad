"""Cards whose index is another device's, by the UUIDs that nodes report: followed where bindings name UUIDs, else told,
and never given twice.
"""

from typing import Any

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler import koordinator
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_drift import misheld, until
from tests.integration.scheduler.test_hami import REGISTER, ask, given, held, play, register
from tests.integration.scheduler.test_koordinator import ask as ask_koordinator
from tests.integration.scheduler.test_koordinator import held as held_koordinator
from tests.integration.world import World

KOORDINATOR = {koordinator.GPU: 60}


async def say(world: World, **cards: Any) -> None:
    """What the device plugin of HAMi registers from now on."""
    notes = {"metadata": {"annotations": {REGISTER: register(**cards)}}}
    await world.client.patch(NODES, world.nodes[0], None, notes)


async def test_cards_of_hami_that_change_places_are_followed(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "a", queue, 12_000, 80))
        assert await given(world, "a") == ["GPU-0,NVIDIA,12000,80:"]
        await world.create(ask(world, "b", queue, 8000, 50))
        assert await given(world, "b") == ["GPU-1,NVIDIA,8000,50:"]
        rows = {row.name: row.devices for row in await store.bindings.all()}
        assert [(one.index, one.uuid) for one in rows["b"] or ()] == [(1, "GPU-1")]
        await say(world, c0={"id": "GPU-1"}, c1={"id": "GPU-0"})
        await until(lambda: held(service, world) == [[("b", 50, 8000)], [("a", 80, 12_000)]])
        await misheld(service, world, "a", "b")
        said = (await world.event(names.EVENT_CARD_DRIFT, "b"))["message"]
        assert "of the cards that it was given, card 1 of nvidia.com/gpu (GPU-1) is card 0 now" in said
        await world.create(ask(world, "c", queue, 8000, 50))
        assert await given(world, "c") == ["GPU-1,NVIDIA,8000,50:"]
        before = held(service, world)
    async with start() as service:
        assert held(service, world) == before
        await say(world)
        await misheld(service, world, "c")
        assert [[pod for pod, *_ in card] for card in held(service, world)] == [["a"], ["b", "c"]]


async def test_a_card_of_hami_that_was_exchanged_gives_nothing_until_its_holder_is_gone(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "a", queue, 8000, 50))
        await given(world, "a")
        await say(world, c0={"id": "GPU-new"})
        await misheld(service, world, "a")
        said = (await world.event(names.EVENT_CARD_DRIFT, "a"))["message"]
        assert "card 0 of nvidia.com/gpu" in said
        assert "another device now" in said
    async with start() as service:
        await misheld(service, world, "a")
        await world.create(ask(world, "b", queue, 1000, 10))
        await world.event(names.EVENT_WAITING, "b")
        assert "b" not in await world.bound()
        await world.client.delete(PODS, "a", world.namespace, grace=0)
        assert await given(world, "b") == ["GPU-new,NVIDIA,1000,10:"]
        await misheld(service, world)


async def test_cards_of_koordinator_that_change_places_may_be_either(world: World, start: Start, queue: str) -> None:
    """Its bindings name minors: a pod has the device of before, or of now once its containers were started anew."""
    await koordinator.play(world)
    async with start() as service:
        await world.create(ask_koordinator(world, "a", queue, KOORDINATOR))
        await until(lambda: [len(card) for card in held_koordinator(service, world)] == [1, 0])
        await world.running("a")
        await koordinator.report(world, [koordinator.card(0, id="GPU-1"), koordinator.card(1, id="GPU-0")])
        await misheld(service, world, "a")
        await world.event(names.EVENT_CARD_DRIFT, "a")
    async with start() as service:
        await misheld(service, world, "a")
        await world.create(ask_koordinator(world, "b", queue, KOORDINATOR))
        await world.event(names.EVENT_WAITING, "b")
        assert "b" not in await world.bound()
        await koordinator.report(world, [koordinator.card(0), koordinator.card(1)])
        await world.running("b")
        await misheld(service, world)
