"""Nodes that are laid out anew while pods hold their cards, over HTTP: told, counted as before, and no card twice."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.model.quantity import CARD
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.bindings import CardBinding
from t9ksched.store.errors import StoreError
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import ANY, told
from tests.integration.world import GPU, RUN_LABEL, TIMEOUT, World

PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"
WHOLE: tuple[str, dict[str, str]] = (A100, {GPU: "4"})
SINGLE: tuple[str, dict[str, str]] = (f"{A100}-MIG-1g.5gb", {GPU: "28"})
LARGER: tuple[str, dict[str, str]] = (f"{A100}-MIG-3g.20gb", {GPU: "8"})
MIXED: tuple[str, dict[str, str]] = (A100, {GPU: "0", "nvidia.com/mig-1g.5gb": "28"})


async def lay_out(world: World, product: str, offered: dict[str, str]) -> None:
    """What the MIG manager, feature discovery and the device plugin make of the node."""
    node = world.nodes[0]
    await world.client.patch(NODES, node, None, {"metadata": {"labels": {PRODUCT: product}}})
    status = {"allocatable": offered, "capacity": offered}
    await world.client.patch(NODES, node, None, {"status": status}, subresource="status")


def wants(world: World, name: str, count: int, queue: str, resource: str = GPU) -> Any:
    made = world.pod(name, 0, queue=queue, **ANY)
    made["spec"]["containers"][0]["resources"]["limits"] |= {resource: str(count)}
    return made


async def recorded(store: Store, holds: Callable[[list[CardBinding]], bool]) -> list[CardBinding]:
    """The rows in SQL once they are so."""
    async with asyncio.timeout(TIMEOUT):
        while not holds(rows := await store.bindings.all()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return rows


async def says(world: World, service: SchedulerService, pod: str) -> list[Any]:
    """What is wrong with the cards of a pod, once that was told."""
    event = await world.event(names.EVENT_CARD_DRIFT, pod)
    shown = (await told(service, world.nodes[0]))["cardsMisheld"]
    assert shown[0]["what"] in event["message"]
    return [one["pod"] for one in shown]


@pytest.mark.parametrize(
    ("before", "after", "resource"),
    [(WHOLE, SINGLE, GPU), (SINGLE, WHOLE, GPU), (WHOLE, MIXED, "nvidia.com/mig-1g.5gb"), (SINGLE, LARGER, GPU)],
    ids=["whole to single", "single to whole", "whole to mixed", "single to larger"],
)
async def test_a_node_that_is_laid_out_anew_gives_nothing_until_its_pods_are_gone(
    world: World, start: Start, queue: str, before: Any, after: Any, resource: str
) -> None:
    product, offered = before
    base = {"cpu": "64", "memory": "256Gi"}
    labels = {RUN_LABEL: world.run, PRODUCT: product}
    await world.play(1, allocatable=base | offered, labels=labels, cardMode=names.PLUGIN_CHOOSES)
    world.refusals_expected = True
    async with start() as service:
        await world.create(wants(world, "holds", 2, queue))
        await world.running("holds")
        await lay_out(world, *after)
        assert await says(world, service, "holds") == ["holds"]
        await world.create(wants(world, "next", 1, queue, resource))
        waits = await world.event(names.EVENT_WAITING, "next")
        assert "a pod there holds cards of before the node was laid out anew" in waits["message"]
        job = service.state.charges.get(next(iter(service.state.charges.all())))
        assert job is not None
        assert job.worth == 2 * (CARD if before is WHOLE else CARD // 7)
    async with start() as service:
        await world.until(PODS, "next", lambda pod: not pod["spec"].get("nodeName"))
        assert [one["pod"] for one in (await told(service, world.nodes[0]))["cardsMisheld"]] == ["holds"]
        worths = [charge.worth for charge in service.state.charges.all().values()]
        assert worths == [2 * (CARD if before is WHOLE else CARD // 7)], "as before, of the physical cards"
        await world.client.delete(PODS, "holds", world.namespace, grace=0)
        await world.running("next")


async def test_a_node_that_is_laid_out_anew_while_no_scheduler_runs(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """What its pods had is on record before they are bound, so that it is known whenever the scheduler dies."""
    product, offered = SINGLE
    base = {"cpu": "64", "memory": "256Gi"}
    labels = {RUN_LABEL: world.run, PRODUCT: product}
    await world.play(1, allocatable=base | offered, labels=labels, cardMode=names.PLUGIN_CHOOSES)
    world.refusals_expected = True
    write, gate = store.bindings.write, asyncio.Event()

    async def held_up(*args: Any, **more: Any) -> None:
        await gate.wait()
        await write(*args, **more)

    async with start() as service:
        service._cards._bindings.write = held_up
        await world.create(wants(world, "holds", 2, queue))
        while not service.state.charges.all():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        assert await world.bound() == {}, "it is not on record yet"
        gate.set()
        await world.running("holds")
        (row,) = await store.bindings.all()
        assert (row.cards, row.units, row.worth) == ([], [(GPU, "slice:1g.5gb")], 2 * CARD // 7)
    await lay_out(world, *WHOLE)
    async with start() as service:
        assert await says(world, service, "holds") == ["holds"]
        await world.create(wants(world, "next", 1, queue))
        waits = await world.event(names.EVENT_WAITING, "next")
        assert "a pod there holds cards of before the node was laid out anew" in waits["message"]
        await world.client.delete(PODS, "holds", world.namespace, grace=0)
        await world.running("next")
        await recorded(store, lambda rows: [row.name for row in rows] == ["next"])


async def test_without_the_database_slices_are_given_and_recorded_later(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """They are counted by number, so that no card can be given twice; as soon as it answers they are on record. So are
    pods that a release before this one bound.
    """
    product, offered = SINGLE
    base = {"cpu": "64", "memory": "256Gi"}
    labels = {RUN_LABEL: world.run, PRODUCT: product}
    await world.play(1, allocatable=base | offered, labels=labels, cardMode=names.PLUGIN_CHOOSES)
    write = store.bindings.write

    async def away(*args: Any, **more: Any) -> None:
        raise StoreError("it is away")

    async with start() as service:
        service._cards._bindings.write = away
        await world.create(wants(world, "holds", 2, queue))
        await world.running("holds")
        service._cards._bindings.write = write
        (row,) = await recorded(store, bool)
    await store.bindings.put([structs.replace(row, units=None, worth=None)])  # as an earlier release wrote it
    async with start():
        await recorded(store, lambda rows: [row.units for row in rows] == [[(GPU, "slice:1g.5gb")]])
