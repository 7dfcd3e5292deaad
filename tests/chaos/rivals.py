"""Quiet scenes of jobs that want the same room: who gets it, who has to go for it, and for whom it is kept."""

import asyncio
from typing import TYPE_CHECKING

from t9ksched.kube.resources import PODS
from tests.chaos.asked import Asked, Batch, Gang, PyTorch
from tests.chaos.invariant_checker import LAG

if TYPE_CHECKING:
    from tests.chaos.quiet import Scene


async def who_was_evicted_whole_has_no_precedence(scene: "Scene") -> None:
    """Evicted whole, a gang waits by its own priority, whether the scheduler that evicted it lives on or not."""
    world = scene.world
    await scene.preempting()
    await world.submit(Gang("low", "qb", 2, 4, None, 2))
    await asyncio.sleep(20)
    high = await scene.gang(2, 4, name="high", runs=False)
    await asyncio.sleep(30)
    if scene.running(high) != 2:
        world.checker.say("a gang of a lower queue was not evicted for one that fills the same nodes")
    urgent = Gang("urgent", "qb", 2, 4, None, 2, priority=90)
    scene.must_run.append(urgent)
    await world.submit(urgent)
    await asyncio.sleep(20)
    if scene.dice.random() < 0.4 and world.scheduler is not None:
        world.scheduler.end()
        await asyncio.sleep(30)
    await world.forget("high")


async def the_room_of_a_lost_member_is_kept(scene: "Scene") -> None:
    """A running gang loses a member while another job waits for exactly that room, which no other gang gets.

    The member is deleted and takes its time or none; its controller makes another once it is gone, which may be much
    later, and the scheduler may die meanwhile. The other job is more important in the same queue, or of a lower queue.
    """
    world, dice = scene.world, scene.dice
    await world.queue("qb", None, zone="a", priority=0)
    await asyncio.sleep(20)
    size, cards = dice.choice(((2, 4), (4, 2)))
    kept: Asked = PyTorch("kept", "qa", size, cards, None)
    if dice.random() < 0.5:
        kept = Gang("kept", "qa", size, cards, None, size, stops=dice.choice((0.0, 12.0)))
    scene.must_run.append(kept)
    await world.submit(kept)
    await asyncio.sleep(20)
    waits = Gang("waits", dice.choice(("qa", "qb")), 1, cards, None, 1, priority=90)
    await world.submit(waits)
    await asyncio.sleep(10)
    lost = dice.choice(sorted(pod["metadata"]["name"] for pod in kept.pods(world)))
    if world.controllers is not None and dice.random() < 0.5:
        world.controllers.end()
    await world.port.delete(PODS, lost, "default", grace=dice.choice((None, 0)))
    if world.scheduler is not None and dice.random() < 0.4:
        await asyncio.sleep(dice.choice((0.0, 0.5, 3.0)))
        world.scheduler.end()
    await asyncio.sleep(80)
    if any(world.checker.holds(pod) for pod in waits.pods(world)):
        world.checker.say(f"the room of {lost}, a member that a running gang lost, went to another job")


async def room_is_taken_in_the_order_of_the_policy(scene: "Scene") -> None:
    """Gangs of unlike sizes, priorities and queues fill three nodes; who goes for a gang of a higher queue is judged
    where plans are.
    """
    world, dice = scene.world, scene.dice
    await scene.preempting()
    await world.node("q2", 4, "a")
    await world.queue("qb", 8, zone="a", priority=0)
    await world.queue("qc", dice.choice((5, 8)), priority=0)
    await world.queue("qd", 8, priority=5)
    await asyncio.sleep(30)
    for number in range(dice.randint(4, 6)):
        size, cards = dice.choice(((1, 1), (1, 2), (2, 1), (1, 4), (2, 2)))
        queue, priority = dice.choice(("qb", "qb", "qc", "qc", "qd")), dice.choice((0, 0, 5, 90))
        await world.submit(Gang(f"low{number}", queue, size, cards, None, dice.randint(1, size), priority=priority))
        await asyncio.sleep(2)
    await asyncio.sleep(20)
    await scene.gang(*dice.choice(((1, 2), (1, 4), (2, 2), (2, 4))), name="high")


async def a_closed_queue_goes_on_with_what_it_accepted(scene: "Scene") -> None:
    """What runs has its lost pods replaced, what waits starts when there is room, and nothing new does, whether the
    scheduler that knew the queue open lives on or not.
    """
    world, dice = scene.world, scene.dice
    size, cards = dice.choice(((2, 4), (4, 2)))
    kinds = (Gang("runs", "qa", size, cards, None, size), PyTorch("runs", "qa", size, cards, None))
    runs: Asked = dice.choice((*kinds, Batch("runs", "qa", size, cards, 10_000.0)))
    await world.submit(runs)
    await asyncio.sleep(20)
    # A pod that replaces one of a batch Job is a group of its own and younger than this one, which rightly goes first
    # where it fits: it must not fit into the room of one pod.
    queued = await scene.gang(2, 4 if isinstance(runs, Batch) else 2, name="queued")
    await asyncio.sleep(20)
    await world.close_queue("qa")
    await asyncio.sleep(LAG + 10)
    if world.scheduler is not None and dice.random() < 0.4:
        world.scheduler.end()
    await world.submit(Gang("late", "qa", 1, 1, None, 1, priority=90))
    await world.delete(PODS, dice.choice(sorted(pod["metadata"]["name"] for pod in runs.pods(world))))
    await asyncio.sleep(60)
    if scene.running(runs) != size:
        world.checker.say(f"{scene.running(runs)} of {size} pods run of what a closed queue had accepted")
    await world.forget("runs")
    await asyncio.sleep(30)
    if scene.running(queued) != 2:
        world.checker.say("a group that a queue accepted before it was closed does not start, and there is room")
