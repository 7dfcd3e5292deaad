"""A scene on an empty cluster where nothing else happens: what one thing that goes wrong needs to be mended.

In the noise of a history somebody else's event wakes whoever should have woken by himself. Here a gang comes alone, one
thing goes wrong with it, and it must run within a few minutes of silence.
"""

import asyncio
from random import Random

from t9ksched.devcluster.faults import Rule
from t9ksched.kube.resources import PODS
from tests.chaos.asked import MADE, Gang
from tests.chaos.audit import audit_at_rest
from tests.chaos.world import World

BROKEN = "the node of the first binding admits no pod, for ever"
SILENCE = 300.0
"""Seconds in which it must be mended."""


async def quiet_scene(world: World) -> None:
    """Play one scene and audit the cluster again."""
    dice = Random(world.random.random())
    for name in list(world.asked):
        await world.forget(name)
    for pod in list(world.witness.pods.values()):
        await world.delete(PODS, pod["metadata"]["name"])
    for node in sorted(world.witness.nodes):
        await world.cordon(node, True)
    for name in ("q0", "q1"):
        await world.node(name, 4, "a")
    await world.queue("qa", None, priority=10)
    await asyncio.sleep(200)  # what was avoided or held is over
    text = await _wrong(world, dice)
    volumes = "" if text == BROKEN else dice.choice(("", MADE))  # a volume would keep the gang on that node
    gang = Gang("quiet", "qa", 3, 1, None, 3, volumes)
    world.note(f"quiet scene: {text}")
    await world.submit(gang)
    await asyncio.sleep(SILENCE)
    world.faults.clear()
    running = sum(pod["status"].get("phase") == "Running" for pod in gang.pods(world))
    if running != gang.size:
        world.witness.say(f"after {SILENCE:g} quiet seconds {running} of {gang.size} pods run ({text})")
    await audit_at_rest(world)


async def _wrong(world: World, dice: Random) -> str:
    """What goes wrong, once and then never again."""
    count = dice.randint(1, 3)
    kind = dice.choice(("refused", "refused", "lost", "throttled", "broken", "death", "still", "volume"))
    match kind:
        case "refused":
            status = dice.choice((404, 409, 422))
            world.faults.rules = [Rule("create", "pods/binding", count=count, status=status)]
            return f"{count} bindings are answered with {status}"
        case "lost":
            world.faults.rules = [Rule("create", "pods/binding", count=count, drop=dice.choice(("before", "after")))]
            return f"the answers to {count} bindings are lost"
        case "throttled":
            status = dice.choice((429, 500, 503))
            world.faults.rules = [Rule("create", "pods/binding", count=count, status=status)]
            return f"{count} bindings are answered with {status}"
        case "volume":
            world.faults.rules = [Rule("patch", "persistentvolumeclaims", count=count, status=dice.choice((403, 500)))]
            return f"{count} volume claims cannot be written"
        case "broken":
            world.witness.on_bound.append((world.witness.bindings + 1, world.faults.broken.add))
            return BROKEN
        case "still":

            async def stop(_: str) -> None:
                life = world.scheduler
                if life is not None:
                    life.pause()
                    await asyncio.sleep(30)
                    life.resume()

            world.after_bindings(count, stop)
            return f"the scheduler stands still for 30 s after binding {count} pods"
    life = world.scheduler
    if life is not None:
        life.steps_left = int(2 ** dice.uniform(0, 9))
        return f"the scheduler dies at await {life.steps_left}"
    return "nothing"
