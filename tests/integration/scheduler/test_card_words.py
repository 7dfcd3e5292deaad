"""What pods say of cards and what one unit of a node has, over HTTP: MPS clients, slices and time slices are a part of
a card's cores and memory; words of HAMi without a number of cards; annotations that speak of nothing.
"""

from typing import Any

import pytest

from t9ksched.kube.resources import PODS
from t9ksched.model import names
from tests.integration.scheduler import test_hami as hami
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_parts import COUNTS, part, play
from tests.integration.scheduler.test_mode_examples import MIG_SINGLE, MPS, PRODUCT, REPLICAS, STRATEGY
from tests.integration.scheduler.test_mode_examples import play as play_mode
from tests.integration.world import GPU, World

MEMORY, SHARED = "nvidia.com/gpu.memory", "nvidia.com/gpu.shared"
A10 = ({**MPS[0], MEMORY: "24564"}, {GPU: "4"})
T4 = ({STRATEGY: "time-slicing", REPLICAS: "4", PRODUCT: "Tesla-T4-SHARED", MEMORY: "15360"}, {GPU: "8"})
SLICES = ({**MIG_SINGLE[0], MEMORY: "4864"}, MIG_SINGLE[1])
CORES_SAID, MEMORY_SAID = "CardInsufficientCore: the pod asks for", "CardInsufficientMemory: the pod asks for"


def said(world: World, name: str, queue: str, mode: str = "", gpus: int = 1, **words: Any) -> dict[str, Any]:
    """A pod with these annotations, `gpu_memory` and `gpu_cores`, or amounts in the words of HAMi."""
    notes = {f"scheduler.tensorstack.dev/{key.replace('_', '-')}": str(text) for key, text in words.items()}
    amounts = {key: notes.pop(f"scheduler.tensorstack.dev/{key}") for key in ("gpumem", "gpucores") if key in words}
    made = world.pod(name, gpus, queue=queue, annotations=notes | ({names.GPU_MODE_ANNOTATION: mode} if mode else {}))
    made["spec"]["containers"][0]["resources"]["limits"] |= {f"nvidia.com/{key}": amounts[key] for key in amounts}
    return made


@pytest.mark.parametrize(
    ("node", "mode", "fits", "waits", "why"),
    [
        (A10, "shared", {"gpu_memory": "6141Mi"}, {"gpu_memory": "10Gi"}, MEMORY_SAID),
        (A10, "shared", {"gpumem": 6141}, {"gpumem": 10_000}, MEMORY_SAID),
        (A10, "shared", {"gpu_cores": 25}, {"gpu_cores": 50}, CORES_SAID),
        (T4, "shared", {"gpu_memory": "15Gi", "gpu_cores": 25}, {"gpu_cores": 50}, CORES_SAID),
        (T4, "shared", {"gpucores": 25}, {"gpucores": 26}, CORES_SAID),
        (SLICES, "slice", {"gpu_cores": 14}, {"gpu_cores": 50}, CORES_SAID),
        (SLICES, "slice", {"gpu_memory": "4Gi"}, {"gpu_memory": "10Gi"}, MEMORY_SAID),
    ],
)
async def test_a_unit_has_what_the_pod_says(
    world: World,
    start: Start,
    queue: str,
    node: Any,
    mode: str,
    fits: dict[str, Any],
    waits: dict[str, Any],
    why: str,
) -> None:
    await play_mode(world, *node)
    async with start():
        await world.create(said(world, "fits", queue, mode, **fits), said(world, "waits", queue, mode, **waits))
        await world.running("fits")
        assert why in (await world.event(names.EVENT_WAITING, "waits"))["message"]
        pod = await world.client.get(PODS, "waits", world.namespace)
        assert not pod["spec"].get("nodeName")


async def test_turns_on_a_card_are_counted_as_asked_and_mps_gives_one(world: World, start: Start, queue: str) -> None:
    labels = {STRATEGY: "time-slicing", REPLICAS: "4"}
    await play_mode(world, labels, {SHARED: "8"})
    async with start() as service:
        made = world.pod("two", 0, queue=queue)
        made["spec"]["containers"][0]["resources"]["limits"] |= {SHARED: "2"}
        await world.create(made)
        (pod,) = await world.running("two")
        charge = service.state.charges.get(pod["metadata"]["uid"])
        assert charge is not None
        assert dict(charge.pod_class.requests)[SHARED] == 2


async def test_mps_refuses_a_container_with_two(world: World, start: Start, queue: str) -> None:
    await play_mode(world, *A10)
    async with start():
        await world.create(said(world, "two", queue, "shared", gpus=2))
        told = (await world.event(names.EVENT_WAITING, "two"))["message"]
        assert "1 shares cards by MPS, which fails a container that asks for more than one" in told


async def test_parts_without_a_number_of_cards_are_of_one(world: World, start: Start, queue: str) -> None:
    await hami.play(world)
    async with start():
        await world.create(
            hami.ask(world, "memory", queue, 3000, gpus=0), hami.ask(world, "cores", queue, 0, 30, gpus=0)
        )
        given = await hami.given(world, "memory", "cores")
        assert sorted(text.partition(",")[2] for text in given) == ["NVIDIA,16000,30:", "NVIDIA,3000,0:"]


async def test_parts_without_a_number_of_cards_are_of_none_elsewhere(world: World, start: Start, queue: str) -> None:
    await play_mode(world, {MEMORY: "81920"}, {GPU: "8"})
    async with start():
        await world.create(said(world, "waits", queue, gpus=0, gpumem=3000))
        told = (await world.event(names.EVENT_WAITING, "waits"))["message"]
        assert "1 does not use HAMi: elsewhere a container gets no card" in told


async def test_annotations_that_speak_of_nothing_are_refused(world: World, start: Start, queue: str) -> None:
    await play(world)
    stray, memory = f"{names.GPU_MEMORY_ANNOTATION}-container-zzz", names.GPU_MEMORY_ANNOTATION
    async with start():
        await world.create(
            part(world, "beside", 30, 1024, queue, annotations={memory: "20Gi"}),
            part(world, "stray", 30, 1024, queue, annotations={stray: "20Gi"}),
            part(world, "counts", 120, 2048, queue, annotations={COUNTS: "2,1"}),
            part(world, "fits", 120, 2048, queue, annotations={COUNTS: "2"}),
        )
        for name, words in (
            ("beside", f"metadata.annotations[{memory}]: speaks of nvidia.com/gpu, and no container asks for that"),
            ("stray", f"metadata.annotations[{stray}]: there is no container 'zzz': the pod has main"),
            ("counts", f"metadata.annotations[{COUNTS}]: '2,1' must have one number a container: 1, and it has 2"),
        ):
            assert words in (await world.event(names.EVENT_REFUSED, name))["message"]
        await world.running("fits")
