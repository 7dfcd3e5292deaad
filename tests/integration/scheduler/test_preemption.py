"""Preemption from outside: who goes, for whom, and that nobody goes for nothing."""

from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import PODS
from t9ksched.model import names
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.world import World

PREEMPT = Policy(actions=("allocate", "preempt"))


async def queues(world: World, store: Store, **specs: dict) -> None:
    for name, spec in specs.items():
        await store.queues.create(f"{world.run}-{name}", {}, world.queue_spec | spec, {"everyone": True})


async def test_a_higher_queue_takes_the_room_of_exactly_one_lower_gang(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(2, 4)
    async with start(policy=PREEMPT):
        await world.gang("older", 2, 2, f"{world.run}-low")
        await world.running("older-0", "older-1")
        await world.gang("younger", 2, 2, f"{world.run}-low", priority=1)
        await world.running("younger-0", "younger-1")
        await world.gang("urgent", 1, 4, f"{world.run}-high")
        event = await world.event(names.EVENT_PREEMPTED, "older")
        assert event["type"] == "Warning"
        await world.running("urgent-0")
        assert set(await world.bound()) == {"urgent-0", "younger-0", "younger-1"}


async def test_nobody_goes_when_the_preemptor_would_not_fit_or_may_not(
    world: World, start: Start, store: Store
) -> None:
    await queues(world, store, low={"priority": 1}, safe={"priority": 1, "preemptible": False}, high={"priority": 9})
    await world.play(1, 4)
    async with start(policy=PREEMPT):
        await world.create(world.pod("safe", 2, queue=f"{world.run}-safe"))
        await world.create(world.pod("low", 2, queue=f"{world.run}-low"))
        await world.running("safe", "low")
        await world.create(world.pod("too-large", 3, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "too-large")
        await world.create(world.pod("equal", 1, queue=f"{world.run}-low"))
        await world.event(names.EVENT_WAITING, "equal")
        assert set(await world.bound()) == {"safe", "low"}
        pods = (await world.client.list(PODS, world.namespace)).items
        assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods)


async def test_without_the_action_everybody_waits(world: World, start: Start, store: Store) -> None:
    await queues(world, store, low={"priority": 1}, high={"priority": 9})
    await world.play(1, 2)
    async with start():
        await world.create(world.pod("low", 2, queue=f"{world.run}-low"))
        await world.running("low")
        await world.create(world.pod("high", 2, queue=f"{world.run}-high"))
        await world.event(names.EVENT_WAITING, "high")
        assert set(await world.bound()) == {"low"}
