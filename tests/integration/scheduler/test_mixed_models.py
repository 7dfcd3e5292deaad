"""Nodes with cards of several models, over HTTP: pods get those that they ask for, and usage counts them by model."""

from datetime import timedelta
from typing import Any

import pytest

from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.model.quantity import CARD
from t9ksched.store.spans import HOUR
from t9ksched.store.store import Store
from tests.integration.scheduler import koordinator
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_modes import charged, told
from tests.integration.scheduler.test_hami import GPU, REGISTER, ask, given, register, unlocked
from tests.integration.world import RUN_LABEL, World

PRODUCT = "nvidia.com/gpu.product"
A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"
MIXED = register(2, c0={"type": A100, "devmem": 40_000}, c1={"type": "NVIDIA-NVIDIA H100 80GB HBM3", "devmem": 80_000})


async def play(world: World, product: str = A100) -> None:
    await world.play(
        1,
        allocatable={"cpu": "64", "memory": "256Gi", GPU: "20"},
        annotations={REGISTER: MIXED},
        labels={RUN_LABEL: world.run, PRODUCT: product},
    )


def model(*which: str) -> dict[str, str]:
    return {names.GPU_MODEL_ANNOTATION: ",".join(which)}


@pytest.mark.parametrize("product", [A100, H100])
async def test_pods_get_cards_of_the_model_that_they_ask_for(
    world: World, start: Start, queue: str, store: Store, product: str
) -> None:
    await play(world, product)
    async with start() as service:
        await world.create(ask(world, "h", queue, 1000, annotations=model("H100")))
        assert await given(world, "h") == ["GPU-1,NVIDIA,1000,0:"]
        await unlocked(world)
        await world.create(ask(world, "a", queue, annotations=model("A100")))  # all of the card
        assert (await given(world, "a"))[0].startswith("GPU-0,NVIDIA,40000,")
        shown = await told(service, world.nodes[0])
        assert [card["model"] for card in shown["gpus"]] == [A100, H100]
        # The other card has room, and is another model.
        await world.create(ask(world, "more", queue, 1000, annotations=model("A100")))
        waits = await world.event(names.EVENT_WAITING, "more")
        assert "1/2 CardTypeMismatch" in waits["message"]
        await world.create(ask(world, "none", queue, 1000, annotations=model("A40")))
        waits = await world.event(names.EVENT_WAITING, "none")
        assert f"1/1 CardTypeMismatch: the pod asks for A40, 1 have 1 × {A100} and 1 × {H100}" in waits["message"]
        await world.create(ask(world, "two", queue, 1000, gpus=2, annotations=model("H100")))
        waits = await world.event(names.EVENT_WAITING, "two")
        assert "1/1 CardTypeMismatch: the pod asks for H100" in waits["message"]
        spans = {}
        while spans.keys() != {"h", "a"}:
            spans = {span.pod: span.model for span in await charged(store)}
        assert spans == {"h": H100, "a": A100}


async def test_gpu_hours_of_a_pod_on_cards_of_two_models_are_told_by_model(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """10,000 MiB are a fourth of the one card, and an eighth of the other; by every grouping it is the same sum."""
    await play(world)
    async with start():
        await world.create(ask(world, "both", queue, 10_000, gpus=2))
        await world.running("both")
        await unlocked(world)
        (span,) = await charged(store)
    assert span.models == ((A100, CARD // 4, (0,)), (H100, CARD // 8, (1,)))
    end = span.bound + timedelta(hours=8)

    async def hours(*by: str) -> dict[tuple[str, ...], float]:
        found = await store.usage.report(by, since=None, until=end, now=end)
        return {key: amount.amount / HOUR for key, amount in found.items()}

    node = world.nodes[0]
    assert await hours("model") == {(A100,): 2, (H100,): 1}
    assert await hours("queue") == {(queue,): 3}
    assert await hours("model", "card") == {(A100, f"{node}#0"): 2, (H100, f"{node}#1"): 1}


async def test_a_device_of_koordinator_may_name_the_model_of_each_card(world: World, start: Start, queue: str) -> None:
    label = "node.koordinator.sh/gpu-model"
    cards = [koordinator.card(0, labels={label: "A100"}), koordinator.card(1, labels={label: "H100"})]
    await koordinator.play(world, cards)
    async with start() as service:

        def wants(name: str, *which: str) -> Any:
            made = world.pod(name, 0, queue=queue, annotations=model(*which))
            made["spec"]["containers"][0]["resources"]["limits"] |= {koordinator.GPU: "60"}
            return made

        for name, which, minor in (("h", "H100", 1), ("a", "A100", 0)):
            await world.create(wants(name, which))
            pod = await world.until(PODS, name, lambda pod: pod["spec"].get("nodeName"))
            assert f'"minor":{minor}' in pod["metadata"]["annotations"][koordinator.ALLOCATED].replace(" ", "")
        assert [card["model"] for card in (await told(service, world.nodes[0]))["gpus"]] == ["A100", "H100"]
        await world.create(wants("more", "H100"))
        waits = await world.event(names.EVENT_WAITING, "more")
        assert "1/2 CardTypeMismatch" in waits["message"]
