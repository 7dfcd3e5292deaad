"""Quiet scenes of cards that a scheduler does not know of: they are on no record, or it has not heard of them yet."""

import asyncio
from typing import TYPE_CHECKING

from t9ksched.kube.resources import PODS
from tests.chaos.asked import Asked, Gang

if TYPE_CHECKING:
    from tests.chaos.quiet import Scene


async def cards_on_no_record_are_given_to_nobody(scene: "Scene") -> None:
    """A gang in part is finished while the database is away, and the scheduler dies before it answers, or does not.

    Of three members one is refused, deleted and made anew, so that it has no row when it is bound. On the gang's node,
    the only one with free cards, another pod gets none until the gang is gone; if the scheduler lives, it soon does.
    """
    world, checker, dice = scene.world, scene.world.checker, scene.dice
    await world.submit(Gang("filler", "qa", 1, 4, None, 1))
    await asyncio.sleep(20)
    scene.rule(count=1, status=dice.choice((404, 409, 422)))
    dies, before = dice.random() < 0.7, checker.bindings
    half = Gang("half", "qa", 3, 1, None, 3)

    async def begin(_: str) -> None:
        for pod in half.pods(world):
            if not pod["spec"].get("nodeName"):
                await world.delete(PODS, pod["metadata"]["name"])

    def away(node: str) -> None:
        world.database_away = True
        world.also(begin(node))

    def dead(_: str) -> None:
        if dies and world.scheduler is not None:
            world.scheduler.end()

    checker.on_bound += [(before + 2, away), (before + 3, dead)]
    await world.submit(half)
    for _ in range(60):
        await asyncio.sleep(1)
        if checker.bindings >= before + 3:
            break
    await asyncio.sleep(dice.choice((0.0, 5.0)))
    world.database_away = False
    await asyncio.sleep(20)
    second = Asked("second", "qa", 1, 1, None)
    await world.submit(second)
    scene.must_run.append(second)
    await asyncio.sleep(40)
    if not dies and scene.running(second) != 1:
        checker.say("a gang was finished while the database was away, and then its node gives no cards")
    for text in checker.ledger.at_rest([pod for pod in checker.pods.values() if checker.holds(pod)]):
        checker.say(text)
    await world.forget("half")


async def a_successor_has_not_heard_of_the_last_bindings(scene: "Scene") -> None:
    """A standby hears nothing of pods when the leader binds a gang and dies, or stands still for a while. For the
    standby a gang of another queue goes first, to which the same cards must not be given.
    """
    world, checker, dice = scene.world, scene.world.checker, scene.dice
    if not world.elected:
        world.elected = True
        if world.scheduler is not None:
            world.scheduler.end()
        world.also(world.another_scheduler())
    await world.queue("qb", None, zone="a", priority=0)
    for node in ("q0", "q1"):
        await world.cordon(node, True)
    await asyncio.sleep(60)
    first = await scene.gang(2, 2, name="first", runs=False)
    await world.submit(Gang("second", "qb", 2, 2, None, 2))
    await asyncio.sleep(20)
    leader, loop = world.scheduler, asyncio.get_running_loop()
    assert leader is not None

    stops, what = dice.random() < 0.5, dice.choice(("pods", "pods", "*"))

    def deaf(_: str) -> None:
        world.stalled[what] = loop.time() + 60

    async def go_on() -> None:
        await asyncio.sleep(dice.choice((10, 40)))
        leader.resume()

    def leave(_: str) -> None:
        (leader.pause if stops else leader.end)()
        world.also(go_on())

    checker.on_bound += [(checker.bindings + 1, deaf), (checker.bindings + 2, leave)]
    await world.cordon("q0", False)
    for _ in range(40):
        await asyncio.sleep(0.25)
        if leader.paused or not leader.alive:
            break
    await world.queue("qb", None, zone="a", priority=50)
    await asyncio.sleep(120)
    if "preempt" not in world.policy.actions and scene.running(first) != 2:
        checker.say("a gang does not run that was bound just before the scheduler died")
    await world.cordon("q1", False)
    scene.must_run.append(world.asked["second"])
