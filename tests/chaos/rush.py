"""Work that makes planned starts worth something: a cluster full of jobs with time limits, a gang that needs all of it,
and small jobs that keep coming, some of which may pass. Only in histories whose policy plans starts.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.chaos.asked import Gang
from tests.chaos.world import World

if TYPE_CHECKING:
    from tests.chaos.quiet import Scene

Happening = tuple[float, str, Callable[[], Awaitable[None]]]
LONG = "30m"
"""Longer than a job may take to start and end: others that end soon may pass before it."""


def rush(world: World, seed: int) -> list[Happening]:
    """What comes when, beside all else that happens in the history."""
    if world.policy.planning is None:
        return []
    dice, start = Random(f"rush {seed}"), Random(f"when {seed}").uniform(5.0, 60.0)
    queue = dice.choice(("qa", "qa", "qb"))
    come: list[tuple[float, Gang]] = [
        (0.0, Gang(f"rf{at}", queue, 2, 2, dice.choice((30.0, 60.0)), 2, limit=LONG))
        for at in range(dice.randint(1, 4))
    ]
    come.append((3.0, Gang("rl", queue, dice.randint(2, 4), 4, 30.0, 2, limit=LONG)))
    come += [(dice.uniform(3.0, 40.0), _small(dice, f"rs{at}", queue)) for at in range(dice.randint(3, 8))]
    return [(start + later, str(gang), partial(world.submit, gang)) for later, gang in come]


def _small(dice: Random, name: str, queue: str) -> Gang:
    """A job that may pass, or may not: with a short limit, a long one or none."""
    limit, seconds = dice.choice((("5s", 3.0), ("5s", 3.0), (LONG, 20.0), ("", 20.0), ("", None)))
    size = dice.choice((1, 1, 2))
    return Gang(name, queue, size, dice.choice((1, 2)), seconds, size, limit=limit, priority=dice.choice((0, 0, 90)))


async def planned_starts_are_kept(scene: "Scene") -> None:
    """Half of the cards are taken for a while, a gang waits for all of them, small jobs come, the scheduler dies."""
    world, dice = scene.world, scene.dice
    await world.submit(Gang("rest", "qa", 4, 1, dice.choice((50.0, 70.0)), 4, limit=LONG))
    await asyncio.sleep(5)
    large = await scene.gang(2, 4, "large")
    await asyncio.sleep(4)
    if not world.plans.ahead.planned("large"):
        world.checker.say("a gang waits for a job with a time limit, and has no planned start")
    dies = dice.randrange(8)
    for at in range(8):
        await world.submit(_small(dice, f"small{at}", "qa"))
        await asyncio.sleep(dice.choice((1.0, 3.0, 6.0)))
        if at == dies and world.scheduler is not None:
            world.note("the scheduler dies")
            world.scheduler.end()
    await asyncio.sleep(60)
    if scene.running(large) != large.size:
        world.checker.say("a gang with a planned start does not run although what it waited for has ended")


__all__ = ["planned_starts_are_kept", "rush"]
