"""Cordoned cards from outside: on record, on the node, and given to nobody new."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import ClientSession

from t9ksched.devcluster.agents import register
from t9ksched.kube.resources import NODES
from t9ksched.model import names
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.history import CARD_CORDONED, CARD_UNCORDONED
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import SECRET, told
from tests.integration.world import World

SAYS, RECORDED = names.CORDONED_CARDS_ANNOTATION, names.RECORDED_CORDONS_ANNOTATION


async def until(look: Callable[[], Any], wanted: object) -> None:
    """Look until that is what is seen."""
    async with asyncio.timeout(60):
        while await look() != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def annotation(world: World) -> str | None:
    found = (await world.client.get(NODES, world.nodes[0]))["metadata"].get("annotations") or {}
    if (found.get(SAYS) or "") != (found.get(RECORDED) or ":").partition(":")[2]:
        return "differs"
    return found.get(SAYS)


async def record(world: World, store: Store) -> dict[int, str]:
    return {one.card: one.why for one in await store.card_cordons.all() if one.node == world.nodes[0]}


async def cordoned(world: World, service: SchedulerService) -> dict[int, str | None]:
    node = await told(service, world.nodes[0])
    return {card["index"]: card["cordonedWhy"] for card in node["gpus"] if card["cordoned"]}


async def edit(world: World, text: str | None) -> None:
    await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"annotations": {SAYS: text}}})


@pytest.mark.parametrize("card_mode", ["honours-index", "plugin-chooses"])
async def test_a_cordoned_card_is_given_to_no_new_pod(
    world: World, start: Start, queue: str, store: Store, card_mode: str
) -> None:
    await world.play(1, 2, cardMode=card_mode)
    async with start() as service:
        await world.create(world.pod("first", 1, queue=queue))
        await world.running("first")
        await store.card_cordons.cordon(world.nodes[0], 0, "fan", "root")
        await store.card_cordons.cordon(world.nodes[0], 1, "ECC errors", "root")
        await until(lambda: annotation(world), "0,1")
        assert await cordoned(world, service) == {0: "fan", 1: "ECC errors"}
        await world.create(world.pod("second", 1, queue=queue))
        waits = await world.event(names.EVENT_WAITING, "second")
        assert f"1/1 CardCordoned: card 1 (ECC errors) of {world.nodes[0]}" in waits["message"]
        await world.running("first")
        await store.card_cordons.uncordon(world.nodes[0], 1, "root")
        await world.running("second")
        await until(lambda: annotation(world), "0")


async def test_the_annotation_may_be_edited_by_hand(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 4, cardMode="honours-index", annotations={SAYS: "3"})
    async with start() as service:
        await until(lambda: record(world, store), {3: "by an annotation of the node"})
        await store.card_cordons.cordon(world.nodes[0], 1, "fan", "root")
        await until(lambda: annotation(world), "1,3")
        await edit(world, "1,2")
        await until(lambda: annotation(world), "1,2")
        assert await record(world, store) == {1: "fan", 2: "by an annotation of the node"}
        await until(lambda: cordoned(world, service), {1: "fan", 2: "by an annotation of the node"})
        await edit(world, None)
        await until(lambda: record(world, store), {})
        await until(lambda: cordoned(world, service), {})
    made = [(one.event, one.actor, one.detail["card"]) for one in await store.history.list(name=world.nodes[0])]
    assert made[:2] == [(CARD_CORDONED, "kubernetes", 3), (CARD_CORDONED, "root", 1)]
    assert sorted(made[2:]) == [(CARD_CORDONED, "kubernetes", 2)] + [
        (CARD_UNCORDONED, "kubernetes", card) for card in (1, 2, 3)
    ]


async def test_entries_that_name_no_card_are_told_and_left(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 4, cardMode="honours-index", annotations={SAYS: "3,2"})
    why = "by an annotation of the node"

    async def says() -> str:
        return str((await world.client.get(NODES, world.nodes[0]))["metadata"]["annotations"].get(SAYS))

    async with start() as service:
        await until(lambda: record(world, store), {2: why, 3: why})
        await until(lambda: annotation(world), "2,3")
        await edit(world, "3,zz,-1,99")
        event = await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default")
        assert f"{SAYS} names 'zz', '-1', '99', which is no card of it (it has 4, counted from 0)" in event["message"]
        await until(lambda: record(world, store), {3: why})
        await until(says, "3,zz,-1,99")
        await until(lambda: cordoned(world, service), {3: why})
        assert (await told(service, world.nodes[0]))["cardsIgnored"] in event["message"]
        await store.card_cordons.cordon(world.nodes[0], 1, "fan", "root")
        await until(says, "1,3,zz,-1,99")
        await edit(world, "1,3")
        await until(lambda: annotation(world), "1,3")
        assert await record(world, store) == {1: "fan", 3: why}
        assert (await told(service, world.nodes[0]))["cardsIgnored"] is None


async def test_cordons_survive_restarts_and_nodes_that_come_back(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2, cardMode="honours-index")
    name = world.nodes[0]
    async with start():
        await store.card_cordons.cordon(name, 0, "fan", "root")
        await until(lambda: annotation(world), "0")
    node = await world.client.get(NODES, name)
    await world.client.delete(NODES, name)
    async with start() as service:
        meta = {"name": name, "labels": node["metadata"]["labels"]}
        meta |= {"annotations": {names.CARD_MODE_ANNOTATION: "honours-index"}}
        await register(world.client, {**node, "metadata": meta})
        await until(lambda: there(service, name), True)
        # No card of it is given before the annotation is there again.
        assert await cordoned(world, service) == {0: "fan"}
        await until(lambda: annotation(world), "0")
    async with start() as service:
        assert await cordoned(world, service) == {0: "fan"}


async def there(service: SchedulerService, node: str) -> bool:
    url = f"{service.address}/internal/v1/nodes/{node}"
    async with ClientSession() as session, session.get(url, headers=SECRET) as answer:
        return answer.status == 200
