"""The worked example of the policy, row by row, from outside: cluster cpu 300, every pod cpu 50, all of it in use."""

from dataclasses import dataclass, field

import pytest

from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.store.history import WAITING
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import Object, World

PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {"a": ("200", 1), "b": ("100", 1), "c": ("50", 2), "d": ("200", 2)}
RUNNING = {"a1": 2, "a2": 1, "a3": 0, "b1": 0, "c1": 0, "d1": 0}
"""By name, with their priority in their queue: a3 has the lowest of A."""
FULL = set(RUNNING)


@dataclass
class Example:
    """The example's cluster; `preemptible` names the queues that are not."""

    world: World
    store: Store
    safe: set[str] = field(default_factory=set)

    async def prepare(self) -> None:
        """One node and four queues."""
        await self.world.play(1, 0, allocatable={"cpu": "300", "memory": "256Gi"})
        for name, (quota, priority) in QUEUES.items():
            spec = {"quota": {"requests": {"cpu": quota}}, "priority": priority, "preemptible": name not in self.safe}
            await self.store.queues.create(self.queue(name), {}, self.world.queue_spec | spec, {"everyone": True})

    def queue(self, name: str) -> str:
        return f"{self.world.run}-{name}"

    def pod(self, name: str) -> Object:
        pod = self.world.pod(name, 0, group=name)
        amounts = {"cpu": "50", "memory": "1Gi"}
        pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        return pod

    async def create(self, *pods: str) -> None:
        for name in pods:
            group = self.world.group(name, 1, self.queue(name[0]), priority=RUNNING.get(name, 0))
            await self.world.create(group, self.pod(name))

    async def begin(self, *pods: str) -> None:
        """These pods run, and nothing else does."""
        await self.create(*pods)
        await self.world.running(*pods)

    async def waits(self, name: str) -> str:
        """The pod waits, as people are told; why."""
        return str((await self.world.event(names.EVENT_WAITING, name))["message"])

    async def holds(self, *expected: str) -> None:
        """Exactly these have a place, and no pod is terminating."""
        assert set(await self.world.bound()) == set(expected)
        pods = (await self.world.client.list(PODS, self.world.namespace)).items
        assert not [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")]

    async def ends(self, name: str) -> None:
        """It ends well: no replacement takes its room."""
        done = {"status": {"phase": "Succeeded"}}
        await self.world.client.patch(PODS, name, self.world.namespace, done, subresource="status")
        await self.world.client.delete(PODS, name, self.world.namespace, grace=0)
        await self.world.gone(PODS, name)


@pytest.fixture
def example(world: World, store: Store) -> Example:
    return Example(world, store)


async def test_row_1_nothing_is_above_its_equals(example: Example, start: Start) -> None:
    await example.prepare()
    async with start(policy=PREEMPT):
        await example.begin(*RUNNING)
        await example.create("b2")
        assert "cpu" in await example.waits("b2")
        await example.holds(*FULL)


async def test_row_2_preemption_lifts_no_quota(example: Example, start: Start) -> None:
    await example.prepare()
    async with start(policy=PREEMPT):
        await example.begin(*RUNNING)
        await example.create("c2")
        assert "has 0 of 50 left" in await example.waits("c2")
        await example.holds(*FULL)


@pytest.mark.parametrize(
    ("policy", "safe", "victim"),
    [
        (PREEMPT, "", "a3"),
        (Policy(), "", ""),
        (PREEMPT, "a", "b1"),
        (PREEMPT, "ab", ""),
    ],
    ids=["row 3", "row 4: allocate only", "row 5: A not preemptible", "row 6: A and B not preemptible"],
)
async def test_rows_3_to_6(example: Example, start: Start, policy: Policy, safe: str, victim: str) -> None:
    example.safe = set(safe)
    await example.prepare()
    async with start(policy=policy):
        await example.begin(*RUNNING)
        await example.create("d2")
        if not victim:
            await example.waits("d2")
            await example.holds(*FULL)
            return
        told = await example.world.event(names.EVENT_PREEMPTED, victim)
        assert example.queue("d") in told["message"]
        await example.world.running("d2")
        await example.holds(*(FULL - {victim} | {"d2"}))


async def test_rows_7_and_8_what_comes_again_waits_and_then_shares_decide(example: Example, start: Start) -> None:
    await example.prepare()
    async with start(policy=PREEMPT) as service:
        await example.begin(*RUNNING)
        await example.create("d2")
        await example.world.gone(PODS, "a3")
        await example.world.running("d2")
        await example.world.create(example.pod("a3"))  # as A's controller does
        await example.waits("a3")
        await example.holds("a1", "a2", "b1", "c1", "d1", "d2")
        await example.create("b2")
        await example.waits("b2")
        await example.ends("b1")
        await example.world.running("b2")
        await example.holds("a1", "a2", "b2", "c1", "d1", "d2")
        await service.sql_writer.flushed()
        waits = {event.name for event in await example.store.history.list(event=WAITING)}
        assert {"a3", "b2"} <= waits


async def test_row_9_between_equals_the_smaller_share_goes_first(example: Example, start: Start) -> None:
    await example.prepare()
    five = FULL - {"a3"}
    async with start(policy=PREEMPT):
        await example.begin(*five)
    await example.create("c2", "d2")
    async with start(policy=PREEMPT):
        await example.world.running("d2")
        assert "has 0 of 50 left" in await example.waits("c2")
        await example.holds(*five, "d2")


async def test_room_on_six_nodes_of_50_is_no_room_for_one_pod_of_100(world: World, start: Start, store: Store) -> None:
    await world.play(6, 0, allocatable={"cpu": "100", "memory": "256Gi"})
    for name, priority in (("low", 1), ("high", 2), ("top", 3)):
        spec = world.queue_spec | {"priority": priority}
        await store.queues.create(f"{world.run}-{name}", {}, spec, {"everyone": True})

    def pod(name: str, cpu: int, queue: str, node: str = "") -> Object:
        where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
        made = world.pod(name, 0, queue=f"{world.run}-{queue}", **where)
        amounts = {"cpu": str(cpu), "memory": "1Gi"}
        made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        return made

    async with start(policy=PREEMPT):
        there = [
            pod(f"{queue}{at}", 50, queue, node) for at, node in enumerate(world.nodes) for queue in ("low", "top")
        ]
        await world.create(*there)
        await world.running(*(one["metadata"]["name"] for one in there))
        await world.create(pod("large", 100, "high"))
        event = await world.event(names.EVENT_WAITING, "large")
        assert "needs 100 cpu on one node; 6 nodes match, best has 0 free" in event["message"]
        assert len(await world.bound()) == 12
        pods = (await world.client.list(PODS, world.namespace)).items
        assert not any(one["metadata"].get("deletionTimestamp") for one in pods)
