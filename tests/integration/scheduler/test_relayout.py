"""Nodes that are laid out anew while pods hold their cards, over HTTP: told, counted as before, and no card twice."""

from typing import Any

import pytest

from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.model.quantity import CARD
from t9ksched.scheduler.service import SchedulerService
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import ANY, told
from tests.integration.world import GPU, RUN_LABEL, World

PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"
WHOLE: tuple[str, dict[str, str]] = (A100, {GPU: "4"})
SINGLE: tuple[str, dict[str, str]] = (f"{A100}-MIG-1g.5gb", {GPU: "28"})
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


async def says(world: World, service: SchedulerService, pod: str) -> list[Any]:
    """What is wrong with the cards of a pod, once that was told."""
    event = await world.event(names.EVENT_CARD_DRIFT, pod)
    shown = (await told(service, world.nodes[0]))["cardsMisheld"]
    assert shown[0]["what"] in event["message"]
    return [one["pod"] for one in shown]


@pytest.mark.parametrize(
    ("before", "after", "resource"),
    [(WHOLE, SINGLE, GPU), (SINGLE, WHOLE, GPU), (WHOLE, MIXED, "nvidia.com/mig-1g.5gb")],
    ids=["whole to single", "single to whole", "whole to mixed"],
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
    if before is WHOLE:  # on record
        async with start() as service:
            await world.until(PODS, "next", lambda pod: not pod["spec"].get("nodeName"))
            assert [one["pod"] for one in (await told(service, world.nodes[0]))["cardsMisheld"]] == ["holds"]
            await world.client.delete(PODS, "holds", world.namespace, grace=0)
            await world.running("next")
    else:
        async with start():
            await world.client.delete(PODS, "holds", world.namespace, grace=0)
            await world.running("next")
