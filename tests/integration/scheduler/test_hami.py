"""Parts of cards on nodes of HAMi, over HTTP: named by UUID, one pod at a time on a node, answered by its plugin."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.resources import NODES, PODS
from t9ksched.model import names
from t9ksched.packaged import folder
from t9ksched.scheduler.act.node_turns import TurnTimeouts
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.service import SchedulerService
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import RUN_LABEL, TIMEOUT, World

GPU = "nvidia.com/gpu"
REGISTER, LOCK, CORDON = "hami.io/node-nvidia-register", "hami.io/mutex.lock", "hami.io/device-cordon"
ALLOCATED, TO_ALLOCATE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"
PHASE, NODE = "hami.io/bind-phase", "hami.io/vgpu-node"
GIVEN = "devcluster.tensorstack.dev/hami-container-main"
MEMORY = 16_000


def register(count: int = 2, **more: dict[str, Any]) -> str:
    """What the device plugin writes: fields that are zero or false are left out. `more` is by index, `c0` and so on."""
    cards = []
    for index in range(count):
        card: dict[str, Any] = {"id": f"GPU-{index}"} | ({"index": index} if index else {})
        card |= {"count": 10, "devmem": MEMORY, "devcore": 100, "type": "NVIDIA-Tesla V100", "mode": "hami-core"}
        cards.append({**card, "health": True, **more.get(f"c{index}", {})})
    return json.dumps(cards)


async def play(world: World, text: str = "", nodes: int = 1, cards: int = 2, **annotations: str) -> None:
    offered = {"cpu": "64", "memory": "256Gi", GPU: str(10 * cards)}
    notes = {REGISTER: text or register(cards)} | annotations
    await world.play(nodes, allocatable=offered, annotations=notes, labels={RUN_LABEL: world.run})


def ask(world: World, name: str, queue: str, memory: int = 0, cores: int = 0, gpus: int = 1, **spec: Any) -> Any:
    made = world.pod(name, gpus, queue=queue, **spec)
    amounts = made["spec"]["containers"][0]["resources"]["limits"]
    amounts |= {f"nvidia.com/{key}": str(value) for key, value in (("gpumem", memory), ("gpucores", cores)) if value}
    return made


async def given(world: World, *pods: str) -> list[str]:
    """What the node gave the main containers of these pods; the scheduler named the same."""
    found = []
    for name in pods:
        await world.running(name)
        pod = await world.until(PODS, name, lambda pod: pod["metadata"]["annotations"].get(PHASE) == "success")
        notes = pod["metadata"]["annotations"]
        assert notes[NODE] == pod["spec"]["nodeName"]
        assert set(notes[TO_ALLOCATE]) <= {";"}, "the plugin took them out"
        assert notes[GIVEN] in notes[ALLOCATED].split(";")
        found.append(notes[GIVEN])
    return found


def held(service: SchedulerService, world: World) -> list[list[tuple[str, int, int]]]:
    """Pod, percent of cores and MiB of each holder, card by card."""
    shape = node_shape(service.state, world.nodes[0])
    assert shape is not None
    assert shape["cardMode"] == "honours-index"
    return [
        sorted((holder["pod"], holder["cores"], holder["memoryMiB"]) for holder in card["holders"])
        for card in shape["gpus"]
    ]


async def lock_of(world: World, node: str = "") -> str | None:
    item = await world.client.get(NODES, node or world.nodes[0])
    text: str | None = item["metadata"]["annotations"].get(LOCK)
    return text


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def unlocked(world: World) -> None:
    async def gone() -> bool:
        return await lock_of(world) is None

    await eventually(gone)


async def test_pods_get_parts_of_cards_that_their_annotations_name(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await play(world)
    async with start() as service:
        await world.create(*(ask(world, f"p{at}", queue, 8000, 50) for at in range(4)))
        assert (
            sorted(await given(world, "p0", "p1", "p2", "p3"))
            == ["GPU-0,NVIDIA,8000,50:"] * 2 + ["GPU-1,NVIDIA,8000,50:"] * 2
        )
        await unlocked(world)
        for holders in held(service, world):
            assert [(cores, memory) for _, cores, memory in holders] == [(50, 8000)] * 2
        await world.create(ask(world, "more", queue, 100, 1))
        said = (await world.event(names.EVENT_WAITING, "more"))["message"]
        assert "2/2 CardInsufficientCore" in said
        rows = {row.name: row for row in await store.bindings.all()}
        assert [(part.cores, part.memory) for part in rows["p0"].grant.parts] == [(500, 8000)]
        before = held(service, world)
    async with start() as service:
        assert held(service, world) == before
        (was,) = await given(world, "p1")
        await world.client.delete(PODS, "p1", world.namespace, grace=0)
        (got,) = await given(world, "more")
        assert got.split(",")[0] == was.split(",")[0]


async def test_every_container_has_a_place_in_the_text_and_whole_cards_are_all_of_them(
    world: World, start: Start, queue: str
) -> None:
    await play(world, cards=4)
    async with start() as service:
        mixed = ask(world, "mixed", queue, 1000, 10)
        asking = mixed["spec"]["containers"][0]
        plain = {"name": "log", "image": "busybox"}
        mixed["spec"]["containers"] = [plain, asking, {**asking, "name": "second"}]
        mixed["spec"]["initContainers"] = [{**plain, "name": "wait"}, {**asking, "name": "first"}]
        await world.create(mixed)
        (pod,) = await world.running("mixed")
        part = "GPU-0,NVIDIA,1000,10:"
        assert pod["metadata"]["annotations"][ALLOCATED] == f";{part};;{part};{part};", "there is room on one card"
        await world.create(ask(world, "whole", queue, gpus=2))
        assert await given(world, "whole") == [f"GPU-1,NVIDIA,{MEMORY},100:GPU-2,NVIDIA,{MEMORY},100:"]
        whole = [("whole", 100, MEMORY)]
        assert held(service, world) == [[("mixed", 10, 1000)] * 2, whole, whole, []]
        third = ask(world, "third", queue, gpus=2)
        third["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem-percentage"] = "33"
        await world.create(third)
        assert await given(world, "third") == ["GPU-0,NVIDIA,5280,0:GPU-3,NVIDIA,5280,0:"]


class Diary:
    """What was written to nodes and pods of a test, in the order of the server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[tuple[int, str]] = []
        self._last: dict[str, str] = {}

    async def __aenter__(self) -> "Diary":
        self._tasks = [
            asyncio.create_task(self._follow(NODES, None)),
            asyncio.create_task(self._follow(PODS, self.world.namespace)),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _follow(self, res: Any, where: str | None) -> None:
        version = (await self.world.client.list(res, where)).resource_version
        while True:
            async for event in self.world.client.watch(res, where, resource_version=version, timeout=60):
                meta = event.object["metadata"]
                version = meta["resourceVersion"]
                notes = meta.get("annotations") or {}
                state = notes.get(PHASE, "") if res is PODS else notes.get(LOCK, "").rpartition(",")[2]
                if self._last.get(meta["name"], "") != state:
                    self._last[meta["name"]] = state
                    self.seen.append((int(version), f"{meta['name'] if res is PODS else 'node'} {state}".strip()))

    def text(self) -> str:
        return " | ".join(words for _, words in sorted(self.seen))


async def test_the_example_gets_its_part(world: World, start: Start, queue: str) -> None:
    await play(world)
    made = yaml.safe_load((folder("examples") / "hami.yaml").read_text())
    made["metadata"] |= {"namespace": world.namespace, "labels": {names.QUEUE_LABEL: queue}}
    made["spec"]["containers"][0]["name"] = "main"
    async with start() as service:
        await world.create(made)
        assert await given(world, "ai-benchmark") == ["GPU-0,NVIDIA,3000,30:"]
        assert held(service, world) == [[("ai-benchmark", 30, 3000)], []]


async def test_one_pod_at_a_time_is_bound_to_a_node(world: World, start: Start, queue: str) -> None:
    await play(world)
    async with start(), Diary(world) as diary:
        await world.create(world.group("g", 3, queue))
        for at in range(3):
            made = ask(world, f"g-{at}", "", 2000, 10)
            made["metadata"]["labels"] = {names.GROUP_LABEL: "g"}
            made["spec"]["schedulerName"] = names.SCHEDULER_NAME
            await world.create(made)
        await given(world, "g-0", "g-1", "g-2")
        await unlocked(world)

        async def complete() -> bool:
            return diary.text().count("success") == 3 and diary.text().endswith("node")

        await eventually(complete)
    turns = re.findall(r"node (g-\d)", diary.text())
    assert sorted(turns) == ["g-0", "g-1", "g-2"]
    expected = " | ".join(f"node {pod} | {pod} allocating | {pod} success | node" for pod in turns)
    assert diary.text() == expected


async def test_no_other_node_waits_for_one_that_does_not_answer(world: World, start: Start, queue: str) -> None:
    await play(world, nodes=2, cards=1)
    silent, other = world.nodes
    world.faults.silent.add(silent)
    async with start() as service:
        stuck = ask(world, "stuck", queue, 4000, 25, nodeSelector={"kubernetes.io/hostname": silent})
        await world.create(stuck)
        await world.until(PODS, "stuck", lambda pod: pod["spec"].get("nodeName"))
        behind = ask(world, "behind", queue, 4000, 25, nodeSelector={"kubernetes.io/hostname": silent})
        await world.create(behind)
        await world.create(
            *(ask(world, f"p{at}", queue, 4000, 25, nodeSelector={"kubernetes.io/hostname": other}) for at in range(3))
        )
        await given(world, "p0", "p1", "p2")
        assert "behind" not in await world.bound()
        assert (await lock_of(world, silent) or "").endswith(",stuck")
        world.faults.silent.discard(silent)
        assert await given(world, "stuck", "behind") == ["GPU-0,NVIDIA,4000,25:"] * 2
        assert not service.state.cards.unanswered


async def test_a_pod_without_an_answer_is_evicted_and_those_behind_it_go_elsewhere(
    world: World, start: Start, queue: str
) -> None:
    await play(world, nodes=2, cards=1)
    silent = world.nodes[0]
    for node in world.nodes[1:]:
        await world.client.patch(NODES, node, None, {"spec": {"unschedulable": True}})
    world.faults.silent.add(silent)
    async with start() as service:
        service.executor.turns.timeouts = TurnTimeouts(busy=0.2, answer=1.0, look=0.1)
        await world.create(ask(world, "stuck", queue, 4000, 25))
        await world.until(PODS, "stuck", lambda pod: pod["spec"].get("nodeName"))
        await world.create(ask(world, "behind", queue, 4000, 25))
        for node in world.nodes[1:]:
            await world.client.patch(NODES, node, None, {"spec": {"unschedulable": False}})
        await given(world, "behind")
        assert (await world.bound())["behind"] == world.nodes[1]
        stuck = await world.until(PODS, "stuck", lambda pod: pod["metadata"].get("deletionTimestamp"))
        (why,) = [one for one in stuck["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert why["reason"] == "CardsNotGiven"
        assert "did not say within 1 s" in why["message"]
        assert "did not say within 1 s" in (await world.event(names.EVENT_REFUSED, "stuck"))["message"]
        assert await lock_of(world, silent), "until it is gone"
        world.faults.silent.discard(silent)
        await world.gone(PODS, "stuck")
        await unlocked(world)


async def test_what_the_plugin_fails_to_give_leaves_no_lock_and_no_charge(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    world.refusals_expected = True
    plugin = world.agents.kubelet.rooms[world.nodes[0]].hami if world.agents else None
    assert plugin is not None
    plugin.dying.add("GPU-0")
    async with start() as service:
        await world.create(ask(world, "fails", queue, 4000, 25))
        failed = await world.until(PODS, "fails", lambda pod: pod["status"].get("phase") == "Failed")
        assert failed["metadata"]["annotations"][PHASE] == "failed"
        assert "card GPU-0 is not on node" in failed["status"]["message"]
        await unlocked(world)
        plugin.dying.clear()
        await world.create(ask(world, "next", queue, 4000, 25))
        assert await given(world, "next") == ["GPU-0,NVIDIA,4000,25:"]
        assert held(service, world) == [[("next", 25, 4000)], []]


async def test_a_plugin_that_dies_leaves_a_lock_that_is_taken_away(world: World, start: Start, queue: str) -> None:
    await play(world)
    world.refusals_expected = True
    world.faults.broken.add(world.nodes[0])
    async with start():
        await world.create(ask(world, "fails", queue, 4000, 25))
        await world.until(PODS, "fails", lambda pod: pod["status"].get("phase") == "Failed")
        await unlocked(world)
        world.faults.broken.clear()
        await world.create(ask(world, "next", queue, 4000, 25))
        await given(world, "next")


@pytest.mark.parametrize("status", [403, 409, 422, 429, 500, 503])
async def test_a_binding_that_fails_takes_the_lock_away(world: World, start: Start, queue: str, status: int) -> None:
    await play(world)
    world.faults.rules = [Rule("create", "pods/binding", status=status, count=1)]
    async with start(), Diary(world) as diary:
        await world.create(ask(world, "p", queue, 4000, 25))
        await given(world, "p")
        await unlocked(world)

        async def twice() -> bool:
            return diary.text().count("node p") == 2

        await eventually(twice)
        assert diary.text().startswith("node p | node | node p | p allocating")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("request_", [("create", "pods/binding"), ("patch", "nodes"), ("get", "nodes")])
async def test_an_answer_of_the_server_that_is_lost_at_any_step_binds_once(
    world: World, start: Start, queue: str, when: Any, request_: tuple[str, str]
) -> None:
    await play(world)
    world.faults.rules = [Rule(*request_, drop=when, count=1)]
    async with start() as service:
        await world.create(ask(world, "p", queue, 4000, 25))
        assert await given(world, "p") == ["GPU-0,NVIDIA,4000,25:"]
        await unlocked(world)
        await world.create(ask(world, "q", queue, 4000, 25))
        await given(world, "q")
        assert held(service, world) == [[("p", 25, 4000), ("q", 25, 4000)], []]


def lock_text(world: World, pod: str, minutes: float = 0) -> str:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return f"{at:%Y-%m-%dT%H:%M:%SZ},{world.namespace},{pod}"


async def theirs(world: World, name: str, node: str, **annotations: str) -> Any:
    made = ask(world, name, "", 6000, 30, annotations=annotations)
    return made | {"spec": made["spec"] | {"schedulerName": "hami-scheduler"}}


async def locked(world: World) -> str:
    """A node whose lock another scheduler's pod `other` has."""
    await play(world)
    node = world.nodes[0]
    await world.create(await theirs(world, "other", node))
    await world.client.patch(NODES, node, None, {"metadata": {"annotations": {LOCK: lock_text(world, "other")}}})
    return node


async def test_a_lock_of_another_schedulers_pod_is_waited_for(world: World, start: Start, queue: str) -> None:
    node = await locked(world)
    async with start() as service:
        await world.create(ask(world, "p", queue, 4000, 25))

        async def charged() -> bool:
            return held(service, world)[0] == [("p", 25, 4000)]

        await eventually(charged)
        await asyncio.sleep(0.3)
        assert not await world.bound()
        await world.client.patch(NODES, node, None, {"metadata": {"annotations": {LOCK: None}}})
        await given(world, "p")


async def test_a_node_that_stays_locked_is_avoided_and_told(world: World, start: Start, queue: str) -> None:
    node = await locked(world)
    async with start() as service:
        service.executor.turns.timeouts = TurnTimeouts(busy=0.1)
        await world.create(ask(world, "p", queue, 4000, 25))
        said = (await world.event(names.EVENT_REFUSED, "p"))["message"]
        assert f"node {node} is locked: {LOCK} is" in said
        assert held(service, world) == [[], []]
    assert await lock_of(world) == lock_text(world, "other") or "other" in (await lock_of(world) or "")


@pytest.mark.parametrize("case", ["old", "future", "gone", "ended", "ours", "malformed", "same"])
async def test_a_lock_that_nothing_releases_is_replaced(world: World, start: Start, queue: str, case: str) -> None:
    await play(world)
    await world.create(await theirs(world, "other", world.nodes[0]))
    text = {
        "old": lock_text(world, "other", 6),
        "future": lock_text(world, "other", -60),
        "gone": lock_text(world, "nobody"),
        "ended": lock_text(world, "ended"),
        "ours": lock_text(world, "unbound"),
        "malformed": "yesterday,a",
        "same": lock_text(world, "p"),
    }[case]
    await world.create(world.pod("ended", 0), world.pod("unbound", 0, queue="no-such-queue"))
    ended = {"status": {"phase": "Succeeded"}}
    await world.client.patch(PODS, "ended", world.namespace, ended, subresource="status")
    await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"annotations": {LOCK: text}}})
    async with start():
        await world.create(ask(world, "p", queue, 4000, 25))
        await given(world, "p")
        await unlocked(world)


async def test_cards_of_pods_that_hami_bound_are_read_from_their_annotations(
    world: World, start: Start, queue: str
) -> None:
    await play(world)
    node = world.nodes[0]
    text = "GPU-1,NVIDIA,6000,30:;"
    notes = {NODE: node, ALLOCATED: text, TO_ALLOCATE: text, PHASE: "allocating", "hami.io/bind-time": "1"}
    await world.create(await theirs(world, "theirs", node, **notes))
    async with start() as service:
        await world.bind("theirs", node)
        await world.running("theirs")

        async def known() -> bool:
            return held(service, world)[1] == [("theirs", 30, 6000)]

        await eventually(known)
        await world.create(*(ask(world, f"p{at}", queue, 5000, 80) for at in range(2)))
        assert await given(world, "p0") == ["GPU-0,NVIDIA,5000,80:"]
        said = (await world.event(names.EVENT_WAITING, "p1"))["message"]
        assert "2/2 CardInsufficientCore" in said
        await world.create(ask(world, "beside", queue, 9000, 60))
        assert await given(world, "beside") == ["GPU-1,NVIDIA,9000,60:"]


@pytest.mark.parametrize("step", ["recorded", "locked", "bound", "failed"])
async def test_a_restart_in_the_middle_of_a_step_goes_on_with_the_same_cards(
    world: World, start: Start, queue: str, store: Store, step: str
) -> None:
    await play(world)
    node = world.nodes[0]
    rules = {
        "recorded": Rule("patch", "nodes", status=503),  # its cards are on record, and the lock is not taken
        "locked": Rule("create", "pods/binding", latency=600.0),
        "bound": Rule("get", "no-such-thing"),
        "failed": Rule("create", "pods/binding", drop="after"),  # bound, and neither of both knows
    }
    world.faults.silent.add(node)
    world.faults.rules = [rules[step]]
    async with start() as service:
        await world.create(ask(world, "first", queue, 4000, 25))

        async def there() -> bool:
            rows = {row.name for row in await store.bindings.all()}
            locked = (await lock_of(world) or "").endswith(",first")
            bound = "first" in await world.bound()
            return {"recorded": "first" in rows, "locked": locked, "bound": bound, "failed": bound}[step]

        await eventually(there)
        before = held(service, world)
        assert before[0] == [("first", 25, 4000)]
    world.faults.rules = []
    async with start() as service:
        await world.create(ask(world, "second", queue, 4000, 25))

        async def charged() -> bool:
            return held(service, world)[0] == [("first", 25, 4000), ("second", 25, 4000)]

        await eventually(charged)
        if step in ("bound", "failed"):
            assert list(await world.bound()) == ["first"], "its node has not answered"
        world.faults.silent.discard(node)
        assert await given(world, "first", "second") == ["GPU-0,NVIDIA,4000,25:"] * 2
        await unlocked(world)


async def test_the_next_scheduler_evicts_a_pod_that_gets_no_answer(world: World, start: Start, queue: str) -> None:
    await play(world)
    world.faults.silent.add(world.nodes[0])
    async with start():
        await world.create(ask(world, "stuck", queue, 4000, 25))
        await world.until(PODS, "stuck", lambda pod: pod["spec"].get("nodeName"))
    async with start() as service:
        assert list(service.state.cards.unanswered)
        service.executor.turns.timeouts = TurnTimeouts(busy=0.1, answer=0.2, look=0.05)
        await world.client.patch(PODS, "stuck", world.namespace, {"metadata": {"annotations": {"note": "1"}}})
        await world.until(PODS, "stuck", lambda pod: pod["metadata"].get("deletionTimestamp"))
        world.faults.silent.clear()
        await world.gone(PODS, "stuck")
        await unlocked(world)


async def test_a_pod_that_runs_and_says_that_it_waits_has_its_cards(world: World, start: Start, queue: str) -> None:
    """Its owner may write so; else the next scheduler would await an answer that never comes."""
    await play(world)
    async with start():
        await world.create(ask(world, "p", queue, 4000, 25))
        await given(world, "p")
        forged = {"metadata": {"annotations": {PHASE: "allocating"}}}
        await world.client.patch(PODS, "p", world.namespace, forged)
    async with start() as service:

        async def over() -> bool:
            return not service.executor.turns.busy

        await eventually(over)
        await world.create(ask(world, "next", queue, 4000, 25))
        await given(world, "next")
        assert (await world.bound()).keys() == {"p", "next"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is no JSON list of cards"),
        ('{"id": "GPU-0"}', "it is no JSON list of cards: Expected `array`, got `object`"),
        ("[]", "it names 0 cards"),
        (json.dumps([{"id": "GPU-0", "devmem": -5, "count": 10}]), "devmem -5 is not a number from 1 to 2147483647"),
    ],
)
async def test_a_register_that_means_nothing_is_told_and_gives_no_cards(
    world: World, start: Start, queue: str, text: str, said: str
) -> None:
    await play(world, text)
    async with start() as service:
        told = (await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default"))["message"]
        assert said in told
        await world.create(ask(world, "p", queue, 4000, 25))
        assert said in (await world.event(names.EVENT_WAITING, "p"))["message"]
        shape = node_shape(service.state, world.nodes[0])
        assert shape is not None
        assert shape["mode"] == "NotReady"
        await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"annotations": {REGISTER: register()}}})
        await given(world, "p")


async def test_more_places_than_the_device_plugin_offers_are_told(world: World, start: Start, queue: str) -> None:
    await play(world, register(2, c0={"count": 100}))
    async with start():
        said = (await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default"))["message"]
        assert "it registers places for 110 containers, and offers 20 of nvidia.com/gpu: no more are given" in said
        await world.create(*(ask(world, f"p{at}", queue, 12_000, 80) for at in range(2)))
        assert sorted(await given(world, "p0", "p1")) == ["GPU-0,NVIDIA,12000,80:", "GPU-1,NVIDIA,12000,80:"]


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"devmem": 1 << 40}, "devmem 1099511627776 is not a number"),
        ({"devmem": "16000"}, "Expected `int`, got `str`"),
        ({"index": 64}, "index 64 is not a number from 0 to 63"),
        ({"index": 1}, "has the index 1 of a card before it"),
        ({"id": "GPU-1"}, "its UUID is another card's"),
        ({"id": "GPU;,:"}, "'GPU;,:' is no UUID"),
        ({"count": -1}, "count -1 is not a number from 0"),
    ],
)
async def test_of_a_node_with_one_card_that_cannot_be_read_the_others_are_given(
    world: World, start: Start, queue: str, card: dict[str, Any], said: str
) -> None:
    cards = json.loads(register(3, c0=card))
    await play(world, json.dumps([cards[1], cards[0], cards[2]]), cards=3)
    async with start() as service:
        told = (await world.event(names.EVENT_CARDS_IGNORED, world.nodes[0], "default"))["message"]
        assert said in told
        assert "look at the labels and annotations of the node and at its device plugin" in told
        await world.create(*(ask(world, f"p{at}", queue, 12_000, 80) for at in range(2)))
        assert sorted(await given(world, "p0", "p1")) == ["GPU-1,NVIDIA,12000,80:", "GPU-2,NVIDIA,12000,80:"]
        shape = node_shape(service.state, world.nodes[0])
        assert shape is not None
        assert [card["healthy"] for card in shape["gpus"]] == [False, True, True]


async def test_cordoned_and_unhealthy_cards_take_no_work(world: World, start: Start, queue: str) -> None:
    """A field that is false is left out: so a card without `health` is not healthy."""
    cards = json.loads(register(4))
    del cards[1]["health"]
    cards[2]["mode"] = "mig"
    await play(world, json.dumps(cards), cards=4, **{CORDON: "GPU-3, GPU-9"})
    async with start() as service:
        await world.create(ask(world, "p0", queue, 12_000, 80))
        assert await given(world, "p0") == ["GPU-0,NVIDIA,12000,80:"]
        await world.create(ask(world, "p1", queue, 12_000, 80))
        said = (await world.event(names.EVENT_WAITING, "p1"))["message"]
        assert "2/4 CardNotHealth, 1/4 CardCordoned, 1/4 CardInsufficientCore" in said
        shape = node_shape(service.state, world.nodes[0])
        assert shape is not None
        assert [(card["healthy"], card["cordoned"]) for card in shape["gpus"]] == [
            (True, False),
            (False, False),
            (False, False),
            (True, True),
        ]
        await world.client.patch(NODES, world.nodes[0], None, {"metadata": {"annotations": {CORDON: None}}})
        assert await given(world, "p1") == ["GPU-3,NVIDIA,12000,80:"]


@pytest.mark.parametrize(
    ("key", "text", "card", "words"),
    [
        ("use-gputype", "a100,a30", "GPU-1", "CardTypeMismatch"),
        ("nouse-gputype", "V100", "GPU-1", "CardTypeMismatch"),
        ("use-gpuuuid", "GPU-1,GPU-8", "GPU-1", "CardUuidMismatch"),
        ("nouse-gpuuuid", "GPU-0", "GPU-1", "CardUuidMismatch"),
    ],
)
async def test_users_choose_among_the_cards_of_a_node(
    world: World, start: Start, queue: str, key: str, text: str, card: str, words: str
) -> None:
    await play(world, register(2, c1={"type": "NVIDIA-NVIDIA A100-SXM4-80GB"}))
    notes = {f"nvidia.com/{key}": text}
    async with start():
        await world.create(ask(world, "p0", queue, 12_000, 80, annotations=notes))
        assert await given(world, "p0") == [f"{card},NVIDIA,12000,80:"]
        await world.create(ask(world, "p1", queue, 12_000, 80, annotations=notes))
        said = (await world.event(names.EVENT_WAITING, "p1"))["message"]
        assert f"1/2 {words}, 1/2 CardInsufficientCore" in said
        await world.create(ask(world, "p2", queue, 12_000, 80, gpus=2, annotations=notes))
        assert words in (await world.event(names.EVENT_WAITING, "p2"))["message"]


async def test_all_cards_of_a_pod_are_attached_to_one_numa_node_if_it_says_so(
    world: World, start: Start, queue: str
) -> None:
    await play(world, register(4, c1={"numa": 1}, c3={"numa": 1}))
    bind = {"nvidia.com/numa-bind": "true"}
    async with start():
        await world.create(ask(world, "p0", queue, 12_000, 80, gpus=2, annotations=bind))
        assert await given(world, "p0") == ["GPU-0,NVIDIA,12000,80:GPU-2,NVIDIA,12000,80:"]
        await world.create(ask(world, "p1", queue, 12_000, 80, gpus=1))
        await given(world, "p1")
        await world.create(ask(world, "p2", queue, 12_000, 80, gpus=2, annotations=bind))
        await world.event(names.EVENT_WAITING, "p2")
        await world.client.delete(PODS, "p0", world.namespace, grace=0)
        assert await given(world, "p2") == ["GPU-0,NVIDIA,12000,80:GPU-2,NVIDIA,12000,80:"]
        for name, notes in (("p3", {"nvidia.com/numa-bind": "maybe"}), ("p4", {"hami.io/gpu-scheduler-policy": "x"})):
            await world.create(ask(world, name, queue, 100, 1, annotations=notes))
            ((key, text),) = notes.items()
            said = (await world.event(names.EVENT_REFUSED, name))["message"]
            assert key in said
            assert f"'{text}' is none of" in said
        spread = {"hami.io/gpu-scheduler-policy": "spread"}
        await world.create(ask(world, "p5", queue, 100, 1, annotations=spread))
        assert await given(world, "p5") == ["GPU-3,NVIDIA,100,1:"]


@pytest.mark.parametrize(
    ("key", "text"),
    [(ALLOCATED, "GPU-1,NVIDIA,1,1:;"), (ALLOCATED, None), (ALLOCATED, "GPU-0,NVIDIA,-1,99999999999:;"), (NODE, "m")],
)
async def test_a_forged_annotation_moves_nothing(
    world: World, start: Start, queue: str, key: str, text: str | None
) -> None:
    await play(world)
    async with start() as service:
        await world.create(ask(world, "victim", queue, 9000, 60))
        (true,) = await given(world, "victim")
        await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": {key: text}}})
        await world.event(names.EVENT_CARD_DRIFT, "victim")
        await world.create(ask(world, "a", queue, 9000, 60))
        assert await given(world, "a") == ["GPU-1,NVIDIA,9000,60:"]
    async with start() as service:
        assert held(service, world) == [[("victim", 60, 9000)], [("a", 60, 9000)]]
    genuine = {ALLOCATED: true + ";", NODE: world.nodes[0]}
    await world.client.patch(PODS, "victim", world.namespace, {"metadata": {"annotations": genuine}})
