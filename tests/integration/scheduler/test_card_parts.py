"""Parts of cards on nodes of mGPU, over HTTP: filled to the last percent and MiB, kept apart by card, on record."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.engine.policy import Planning, Policy
from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.model.cards import CardPart
from t9ksched.model.quantity import CARD
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.spans import Span
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import RUN_LABEL, TIMEOUT, World

CORE, MEMORY, COUNTS = (f"vke.volcengine.com/{name}" for name in ("mgpu-core", "mgpu-memory", "container-multiple-gpu"))
INDEX, ASSUMED = "vke.volcengine.com/gpu-index-container-main", "vke.volcengine.com/assumed"
V100S = {"cpu": "64", "memory": "256Gi", CORE: "400", MEMORY: "130040"}
"""4 × V100-32G, as its device plugin publishes them."""
NVIDIA = "nvidia.com/gpu.product"


def part(world: World, name: str, core: int, memory: int | None, queue: str, **spec: Any) -> dict[str, Any]:
    """A pod that asks for so much of cards; without a queue, of a scheduler that does not run, so that the test alone
    binds it.
    """
    made = world.pod(name, 0, queue=queue, **({} if queue else {"schedulerName": "another"}), **spec)
    amounts = made["spec"]["containers"][0]["resources"]["limits"]
    amounts |= {CORE: str(core)} | ({MEMORY: str(memory)} if memory else {})
    return made


async def play(world: World, count: int = 1) -> None:
    labels = {RUN_LABEL: world.run, "vke.node.gpu.schedule": "mgpu", NVIDIA: "Tesla-V100-SXM2-32GB"}
    await world.play(count, allocatable=V100S, labels=labels)


async def cards(world: World, *pods: str) -> list[str]:
    found = await world.running(*pods)
    assert [pod["metadata"]["annotations"][ASSUMED] for pod in found] == ["true"] * len(pods)
    return [pod["metadata"]["annotations"][INDEX] for pod in found]


def held(service: SchedulerService, world: World) -> list[list[tuple[str, int, int]]]:
    """Pod, percent of cores and MiB of each holder, card by card."""
    shape = node_shape(service.state, world.nodes[0])
    assert shape is not None
    assert (shape["mode"], shape["cardMode"]) == ("MGPU", "honours-index")
    assert [card["memoryMiB"] for card in shape["gpus"]] == [32510] * 4
    return [
        sorted((holder["pod"], holder["cores"], holder["memoryMiB"]) for holder in card["holders"])
        for card in shape["gpus"]
    ]


async def test_a_node_is_filled_to_its_last_percent_and_mib(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await play(world)
    async with start() as service:
        large, small = [f"l{at}" for at in range(4)], [f"s{at}" for at in range(4)]
        await world.create(*(part(world, name, 60, 20_000, queue) for name in large))
        assert sorted(await cards(world, *large)) == ["0", "1", "2", "3"]
        await world.create(*(part(world, name, 40, 12_510, queue) for name in small))
        assert sorted(await cards(world, *small)) == ["0", "1", "2", "3"]
        for holders in held(service, world):
            (_, cores, memory), (_, more_cores, more_memory) = holders
            assert (cores + more_cores, memory + more_memory) == (100, 32510)
        await world.create(part(world, "no-core", 1, 256, queue))
        assert "4/4 CardInsufficientCore" in (await world.event(names.EVENT_WAITING, "no-core"))["message"]
        rows = {row.name: row for row in await store.bindings.all()}
        assert {name: sum(each.memory for each in rows[name].parts or ()) for name in ("l0", "s0")} == {
            "l0": 20_000,
            "s0": 12_510,
        }
        before = held(service, world)
    async with start() as service:
        assert held(service, world) == before
        (freed,) = await cards(world, "l2")
        await world.client.delete(PODS, "l2", world.namespace, grace=0)
        assert await cards(world, "no-core") == [freed]


async def test_room_of_several_cards_does_not_add_up(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start():
        await world.create(*(part(world, f"p{at}", 60, 1024, queue) for at in range(5)))
        async with asyncio.timeout(TIMEOUT):
            while len(bound := await world.bound()) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        (waits,) = {f"p{at}" for at in range(5)} - bound.keys()
        said = (await world.event(names.EVENT_WAITING, waits))["message"]
        assert "needs 60 % of the cores and 1024 MiB on one card of a node; 4/4 CardInsufficientCore" in said
        assert "the best has 40 % of its cores free" in said
        await world.create(part(world, "fits", 40, 1024, queue))
        await cards(world, "fits")


async def test_victims_leave_what_is_asked_for_on_one_card(world: World, start: Start, store: Store) -> None:
    """Two pods use 90 % of each card. For half a card one of them goes, and for a whole card both of another one."""
    for name, priority in (("low", 1), ("high", 9)):
        await store.queues.create(
            f"{world.run}-{name}", {}, world.queue_spec | {"priority": priority}, {"everyone": True}
        )
    await play(world)
    async with start(policy=Policy(actions=("allocate", "preempt"))):
        pods = [f"p{at}" for at in range(8)]
        await world.create(*(part(world, name, 45, 2000, f"{world.run}-low") for name in pods))
        before = dict(zip(pods, await cards(world, *pods), strict=True))
        assert sorted(before.values()) == sorted("0123" * 2)
        await world.create(part(world, "half", 50, 2000, f"{world.run}-high"))
        (card,) = await cards(world, "half")
        gone = set(pods) - (await world.bound()).keys()
        assert [before[name] for name in gone] == [card]
        await world.create(part(world, "whole", 100, None, f"{world.run}-high"))
        (another,) = await cards(world, "whole")
        left = set(pods) - gone - (await world.bound()).keys()
        assert another != card
        assert [before[name] for name in left] == [another] * 2


async def test_a_start_is_planned_for_when_one_card_has_room(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """Each card has 60 % in use, one for two hours, the others for three. SQL keeps which card a plan has."""

    def limited(name: str, core: int, limit: str) -> dict[str, Any]:
        annotations = {names.TIME_LIMIT_ANNOTATION: limit} if limit else {}
        spec = {"annotations": annotations, "terminationGracePeriodSeconds": 1}
        return part(world, name, core, 20_000, queue, **spec)

    policy = Policy(planning=Planning(resolution_seconds=1))
    await play(world)
    async with start(policy=policy):
        pods = {f"p{at}": "2h" if at == 3 else "3h" for at in range(4)}
        await world.create(*(limited(name, 60, limit) for name, limit in pods.items()))
        on = dict(zip(pods, await cards(world, *pods), strict=True))
        await world.create(limited("b", 70, "1h"))
        async with asyncio.timeout(TIMEOUT):
            while not (plans := await store.planned_starts.all()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        ((reserved,),) = plans.values()
        assert [(each.index, each.cores, each.memory) for each in reserved.cards.parts] == [
            (int(on["p3"]), 700, 20_000)
        ]
    async with start(policy=policy) as service:
        async with asyncio.timeout(TIMEOUT):
            while not (kept := service.state.reservations.planned):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        ((again,),) = kept.values()
        assert again.cards == reserved.cards
        await world.client.delete(PODS, "p3", world.namespace, grace=0)
        assert await cards(world, "b") == [on["p3"]]


async def test_whole_cards_and_parts_exclude_each_other(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start() as service:
        await world.create(part(world, "three", 300, None, queue))
        assert await cards(world, "three") == ["0,1,2"]
        await world.create(part(world, "little", 1, 256, queue))
        assert await cards(world, "little") == ["3"]
        await world.create(part(world, "one", 100, None, queue))
        assert "needs a whole card" in (await world.event(names.EVENT_WAITING, "one"))["message"]
        assert held(service, world)[0] == [("three", 100, 32510)]
        await world.client.delete(PODS, "little", world.namespace, grace=0)
        assert await cards(world, "one") == ["3"]


async def test_parts_of_several_cards(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start() as service:
        await world.create(part(world, "pair", 120, 2048, queue, annotations={COUNTS: "2"}))
        assert await cards(world, "pair") == ["0,1"]
        assert held(service, world)[:2] == [[("pair", 60, 1024)], [("pair", 60, 1024)]]


@pytest.mark.parametrize(
    ("key", "text"),
    [(INDEX, "3"), (INDEX, None), (INDEX, "zero"), (INDEX, "77"), (ASSUMED, "false"), (COUNTS, "2"), (COUNTS, "x")],
)
async def test_a_forged_annotation_moves_nothing(
    world: World, start: Start, queue: str, key: str, text: str | None
) -> None:
    await play(world)
    async with start() as service:
        await world.create(part(world, "victim", 60, 20_000, queue, annotations={INDEX: "2", ASSUMED: "no"}))
        assert await cards(world, "victim") == ["0"]
        await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": {key: text}}})
        if key != COUNTS:
            await world.event(names.EVENT_CARD_DRIFT, "victim")
        assert held(service, world) == [[("victim", 60, 20_000)], [], [], []]
        await world.create(part(world, "a", 50, 1024, queue))
        assert await cards(world, "a") == ["1"]
    async with start() as service:
        await world.create(part(world, "b", 60, 1024, queue), part(world, "c", 100, None, queue))
        assert sorted(await cards(world, "b", "c")) == ["2", "3"]
        await world.create(part(world, "d", 40, 12_510, queue))
        assert await cards(world, "d") == ["0"], "what the victim leaves of its card"
    genuine = {INDEX: "0", ASSUMED: "true", COUNTS: None}
    await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": genuine}})


async def test_parts_of_other_schedulers_pods_are_read(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start() as service:
        theirs = part(world, "theirs", 70, 1024, "", annotations={INDEX: "2", ASSUMED: "true"})
        await world.create(theirs | {"spec": theirs["spec"] | {"schedulerName": "volcano"}})
        await world.bind("theirs", world.nodes[0])
        await world.running("theirs")
        async with asyncio.timeout(TIMEOUT):
            while held(service, world)[2] != [("theirs", 70, 1024)]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await world.create(*(part(world, f"p{at}", 60, 1024, queue) for at in range(3)))
        assert sorted(await cards(world, "p0", "p1", "p2")) == ["0", "1", "3"]


async def test_a_node_with_unknown_parts_gives_none(world: World, start: Start, queue: str) -> None:
    await play(world)
    world.refusals_expected = True
    unnamed = part(world, "unnamed", 10, 1024, "")
    await world.create(unnamed | {"spec": unnamed["spec"] | {"schedulerName": "volcano", "nodeName": world.nodes[0]}})
    await world.until(PODS, "unnamed", lambda pod: pod["status"].get("phase") == "Failed")
    async with start():
        await world.create(part(world, "p", 60, 1024, queue))
        assert await cards(world, "p") == ["0"], "what the node refused holds nothing"


async def test_what_means_nothing_waits_with_its_path(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start() as service:
        await world.create(part(world, "p", 30, 100, queue))
        message = (await world.event(names.EVENT_REFUSED, "p"))["message"]
        assert f"spec.containers[0].resources.limits[{MEMORY}]: a part of a card has at least 256 MiB" in message
        (gang,) = service.state.pending
        assert [str(reason.code) for reason in gang.reasons] == ["InvalidField"]


BENCHMARK = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}


async def test_a_pod_in_the_words_of_hami_gets_a_whole_card_where_none_are_divided(
    world: World, start: Start, queue: str
) -> None:
    """Amounts of memory and cores are in no node's allocatable; a card must have the memory."""
    await world.play(1, 2, cardMode="honours-index", labels={RUN_LABEL: world.run, "nvidia.com/gpu.memory": "16384"})
    async with start():

        def benchmark(name: str, **more: str) -> dict[str, Any]:
            made = world.pod(name, 0, queue=queue)
            limits = made["spec"]["containers"][0]["resources"]["limits"]
            limits |= BENCHMARK | {f"nvidia.com/{key.replace('_', '-')}": text for key, text in more.items()}
            return made

        await world.create(benchmark("ai-benchmark"))
        (pod,) = await world.running("ai-benchmark")
        assert pod["metadata"]["annotations"][f"{names.GPU_INDEX_PREFIX}main"] == "0"
        await world.create(benchmark("both", gpumem_percentage="50"))
        said = (await world.event(names.EVENT_REFUSED, "both"))["message"]
        assert "stands beside nvidia.com/gpumem" in said
        await world.create(benchmark("large", gpumem="20000"))
        assert (
            "CardInsufficientMemory: the pod asks for" in (await world.event(names.EVENT_WAITING, "large"))["message"]
        )
        ours = world.pod("ours", 1, queue=queue, annotations={names.GPU_MEMORY_ANNOTATION: "10Gi"})
        await world.create(ours)
        (pod,) = await world.running("ours")
        assert pod["metadata"]["annotations"][f"{names.GPU_INDEX_PREFIX}main"] == "1"


async def test_the_part_of_a_lost_member_is_kept_for_it_also_over_a_restart(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    async with start():
        await world.create(world.group("g", 4, queue))
        await world.create(*(part(world, f"g-{at}", 60, 1024, "", group="g") for at in range(4)))
        assert sorted(await cards(world, "g-0", "g-1", "g-2", "g-3")) == ["0", "1", "2", "3"]
        (lost,) = await cards(world, "g-2")
        await world.client.delete(PODS, "g-2", world.namespace, grace=0)
        await world.create(part(world, "intruder", 60, 1024, queue))
        await world.event(names.EVENT_WAITING, "intruder")
        await world.create(part(world, "beside", 40, 1024, queue))
        await cards(world, "beside")
        assert "intruder" not in await world.bound()
    async with start():
        await world.create(part(world, "second", 60, 1024, queue))
        await world.event(names.EVENT_WAITING, "second")
        assert not {"intruder", "second"} & (await world.bound()).keys()
        await world.create(part(world, "g-2", 60, 1024, "", group="g"))
        assert await cards(world, "g-2") == [lost]


async def test_parts_cost_as_much_of_a_card_as_they_are(world: World, start: Start, queue: str, store: Store) -> None:
    await play(world)
    async with start() as service:
        await world.create(part(world, "little", 30, 1024, queue), part(world, "whole", 200, None, queue))
        await cards(world, "little", "whole")
        async with asyncio.timeout(TIMEOUT):
            spans: list[Span] = []
            while len(spans) < 2:
                await asyncio.sleep(0.05)
                spans = [span async for page in store.usage.running(datetime.now(UTC)) for span in page]
        told = sorted((span.pod, span.cards, span.worth) for span in spans)
        assert told == [("little", (0,), 3 * CARD // 10), ("whole", (1, 2), None)]
        for name, gpus, share in (("little", 1, 0.3), ("whole", 2, 2.0)):
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {'s' * 20}"}) as session:
                url = f"{service.address}/internal/v1/jobs/{world.namespace}/Pod/{name}"
                async with session.get(url) as answer:
                    job = await answer.json()
            assert (job["gpus"], job["cards"]) == (gpus, share)


async def test_a_binding_whose_answer_is_lost_leaves_the_pod_on_the_part_on_record(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    world.faults.rules = [Rule("create", "pods/binding", drop="after", count=1)]
    async with start() as service:
        await world.create(part(world, "a", 60, 20_000, queue))
        assert await cards(world, "a") == ["0"]
        assert held(service, world)[0] == [("a", 60, 20_000)]
        await world.create(part(world, "b", 60, 1024, queue))
        assert await cards(world, "b") == ["1"]


async def test_a_row_that_was_written_before_a_binding_that_never_came_takes_no_room(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """The next scheduler decides anew, and what it writes replaces the row before the pod is bound."""
    await play(world)
    world.faults.rules = [Rule("create", "pods/binding", status=503)]
    async with start():
        await world.create(part(world, "a", 60, 20_000, queue))
        async with asyncio.timeout(TIMEOUT):
            while not (rows := await store.bindings.all()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert [(row.name, row.grant.parts) for row in rows] == [("a", (CardPart(CORE, 0, 600, 20_000),))]
    world.faults.rules = []
    await world.client.delete(PODS, "a", world.namespace, grace=0)
    async with start() as service:
        await world.create(part(world, "b", 60, 20_000, queue))
        assert await cards(world, "b") == ["0"]
        assert held(service, world) == [[("b", 60, 20_000)], [], [], []]
