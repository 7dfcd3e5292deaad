"""A queue is closed in the middle of a history: what was accepted goes on with its replacements, new work does not.

Not every history has that, and what it draws comes from dice of its own: the others stay as they are. What was accepted
is read from SQL at the commit that closes the queue.
"""

from functools import partial
from random import Random

from t9ksched.kube.resources import PODS
from tests.chaos import asked
from tests.chaos.invariant_checker import LAG
from tests.chaos.script import Happening
from tests.chaos.world import World

SHARE = 0.25
"""Of histories in which queue qa is closed."""


def closures(world: World, seed: int) -> list[Happening]:
    """The closing of queue qa, pods of it that are deleted then, and what is submitted when everybody knows."""
    dice = Random(f"closed queues {seed}")
    if dice.random() >= SHARE:
        return []
    at = dice.uniform(20, 40)

    async def close() -> None:
        world.also(world.close_queue("qa"))

    found: list[Happening] = [(at, "queue qa is closed", close)]
    for _ in range(dice.randint(1, 3)):
        later = at + dice.uniform(10, LAG)
        found.append((later, "pods of queue qa are deleted", partial(_delete, world, Random(dice.random()))))
    for number in range(dice.randint(1, 3)):
        new = _new(dice, f"late{number}")
        found.append((at + LAG + dice.uniform(2, 15), f"new work: {new}", partial(world.submit, new)))
    return found


def _new(dice: Random, name: str) -> asked.Asked:
    size, seconds = dice.randint(1, 2), dice.choice((None, 20.0))
    match dice.randrange(5):
        case 0:
            return asked.Gang(name, "qa", size, 1, seconds, size)
        case 1:
            return asked.PyTorch(name, "qa", size, 1, seconds)
        case 2:
            return asked.Notebook(name, "qa", 1, 1, None)
        case 3:
            return asked.Batch(name, "qa", size, 1, seconds)
        case _:
            return asked.Asked(name, "qa", 1, 1, seconds)


async def _delete(world: World, dice: Random) -> None:
    """Of pods that run and are made again under the owner that was accepted, one or two are deleted."""
    running = []
    for key in sorted(world.checker.pods):
        pod = world.checker.pods[key]
        single = not (pod["metadata"].get("ownerReferences") or world.checker.group_of(pod))
        if world.checker.queue_of(pod) == "qa" and world.checker.holds(pod) and not single:
            running.append(pod["metadata"]["name"])
    for name in dice.sample(running, min(len(running), dice.randint(1, 2))):
        await world.delete(PODS, name)
