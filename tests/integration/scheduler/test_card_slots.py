"""Containers of one pod with parts of their own, over HTTP: unequal ones, of one card or several, on mGPU and HAMi."""

from typing import Any

import pytest

from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.model.quantity import CARD
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.store import Store
from tests.integration.scheduler import test_hami as hami
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_card_parts import CORE, COUNTS, MEMORY
from tests.integration.world import RUN_LABEL, World

INDEX = "vke.volcengine.com/gpu-index-container-"
GPU, CORES, MEM = "nvidia.com/gpu", "nvidia.com/gpucores", "nvidia.com/gpumem"
Asked = dict[str, int]


def pod(world: World, name: str, queue: str, mains: dict[str, Asked], inits: Any = (), **more: Any) -> dict[str, Any]:
    """A pod with these containers, which ask for these amounts; `inits` are as `mains`, sidecars begin with `s`."""
    made = world.pod(name, 0, queue=queue, **more)
    (first,) = made["spec"]["containers"]

    def container(name: str, asked: Asked) -> dict[str, Any]:
        limits = {key: text for key, text in first["resources"]["limits"].items() if key != GPU}
        limits |= {key: str(amount) for key, amount in asked.items()}
        return {**first, "name": name, "resources": {"limits": limits, "requests": limits}}

    made["spec"]["containers"] = [container(*one) for one in mains.items()]
    made["spec"]["initContainers"] = [
        container(*one) | ({"restartPolicy": "Always"} if one[0].startswith("s") else {}) for one in dict(inits).items()
    ]
    return made


def part(core: int, memory: int) -> Asked:
    return {CORE: core, MEMORY: memory}


async def play(world: World, cards: int) -> None:
    amounts = {"cpu": "64", "memory": "256Gi", CORE: str(100 * cards), MEMORY: str(32510 * cards)}
    await world.play(1, allocatable=amounts, labels={RUN_LABEL: world.run, "vke.node.gpu.schedule": "mgpu"})


async def cards_of(world: World, name: str) -> dict[str, str]:
    (found,) = await world.running(name)
    notes = found["metadata"]["annotations"]
    return {key.removeprefix(INDEX): text for key, text in notes.items() if key.startswith(INDEX)}


def holders(service: SchedulerService, world: World) -> list[list[tuple[str, str, int, int]]]:
    shape = node_shape(service.state, world.nodes[0])
    assert shape is not None
    keys = ("pod", "container", "cores", "memoryMiB")
    return [sorted(tuple(one[key] for key in keys) for one in card["holders"]) for card in shape["gpus"]]


async def test_containers_have_unequal_parts_of_one_card_of_mgpu(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await play(world, 1)
    async with start() as service:
        await world.create(pod(world, "p", queue, {"a": part(30, 1024), "b": part(50, 2048)}))
        assert await cards_of(world, "p") == {"a": "0", "b": "0"}
        assert holders(service, world) == [[("p", "a", 30, 1024), ("p", "b", 50, 2048)]]
        (row,) = await store.bindings.all()
        assert [(name, at) for name, _, at in row.cards] == [("a", (0,)), ("b", (0,))]
        assert [(one.cores, one.memory, one.places) for one in row.parts or ()] == [(800, 3072, 2)]
        charge = service.state.charges.get(row.pod_uid)
        assert charge is not None
        assert charge.worth == CARD * 8 // 10
        await world.create(pod(world, "more", queue, {"a": part(30, 1024)}))
        assert "1/1 CardInsufficientCore" in (await world.event(names.EVENT_WAITING, "more"))["message"]
    async with start() as service:  # from its row
        assert holders(service, world) == [[("p", "a", 30, 1024), ("p", "b", 50, 2048)]]
        assert not service.state.cards.drifting
        await world.client.delete(PODS, "p", world.namespace, grace=0)
        assert await cards_of(world, "more") == {"a": "0"}


async def test_two_equal_parts_share_the_only_card(world: World, start: Start, queue: str) -> None:
    await play(world, 1)
    async with start():
        await world.create(pod(world, "p", queue, {"a": part(30, 1024), "b": part(30, 1024)}))
        assert await cards_of(world, "p") == {"a": "0", "b": "0"}


async def test_an_init_container_runs_on_the_card_of_the_main_one(world: World, start: Start, queue: str) -> None:
    await play(world, 1)
    async with start() as service:
        inits = {"first": part(60, 1024), "side": part(10, 256)}
        await world.create(pod(world, "p", queue, {"a": part(30, 2048)}, inits))
        assert await cards_of(world, "p") == {"a": "0", "first": "0", "side": "0"}
        await world.create(pod(world, "fits", queue, {"a": part(40, 1024)}))
        assert await cards_of(world, "fits") == {"a": "0"}
        (charge,) = [one for one in service.state.charges.on_node(world.nodes[0]) if len(one.pod_class.cards) == 3]
        assert [(one.cores, one.memory, one.places) for one in charge.cards.parts] == [(600, 2304, 2)]


async def test_each_container_has_as_many_cards_as_the_annotation_says(world: World, start: Start, queue: str) -> None:
    await play(world, 4)
    async with start():
        mains = {"a": part(120, 2048), "b": {}, "c": part(90, 3072), "d": part(70, 512)}
        await world.create(pod(world, "p", queue, mains, annotations={COUNTS: "2,0,3,1"}))
        found = {name: text.split(",") for name, text in (await cards_of(world, "p")).items()}
        assert {name: len(set(at)) for name, at in found.items()} == {"a": 2, "c": 3, "d": 1}
        await world.create(pod(world, "wrong", queue, mains, annotations={COUNTS: "2,0,3"}))
        assert "one number a container: 4, and it has 3" in (await world.event(names.EVENT_REFUSED, "wrong"))["message"]


async def test_containers_have_unequal_parts_of_cards_of_hami(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await hami.play(world, cards=1)
    async with start() as service:
        mains = {"a": {GPU: 1, MEM: 1000, CORES: 20}, "log": {}, "b": {GPU: 1, MEM: 2000}}
        await world.create(pod(world, "p", queue, mains, {"first": {GPU: 1, MEM: 4000}}))
        (found,) = await world.running("p")
        notes = found["metadata"]["annotations"]
        wanted = "GPU-0,NVIDIA,4000,0:;GPU-0,NVIDIA,1000,20:;;GPU-0,NVIDIA,2000,0:;"
        assert notes[hami.ALLOCATED] == wanted
        assert holders(service, world) == [[("p", "a", 20, 1000), ("p", "b", 0, 2000), ("p", "first", 0, 1000)]]
        (row,) = await store.bindings.all()
        assert [(one.cores, one.memory, one.places) for one in row.parts or ()] == [(200, 4000, 2)]
    async with start() as service:
        assert holders(service, world) == [[("p", "a", 20, 1000), ("p", "b", 0, 2000), ("p", "first", 0, 1000)]]
        assert not service.state.cards.drifting


@pytest.mark.parametrize("resource", ["aliyun.com/gpu-mem", "koordinator.sh/gpu"])
async def test_systems_that_give_cards_to_a_pod_refuse_several_containers(
    world: World, start: Start, queue: str, resource: str
) -> None:
    await play(world, 1)
    async with start():
        await world.create(pod(world, "p", queue, {"a": {resource: 20}, "b": {resource: 30}}))
        said = (await world.event(names.EVENT_REFUSED, "p"))["message"]
        assert f"spec.containers[1].resources.limits[{resource}]: container 'a' asks for it too: the node gives" in said
