"""Users edit card annotations of pods, as every user with the right to edit the pod may, and soon after the scheduler
starts anew.

Not every history has that, and what it draws comes from dice of its own: the others stay as they are. Between a pod's
binding and its admission nothing is edited: there the annotation is what its node goes by.
"""

import asyncio
import contextlib
from functools import partial
from random import Random

from t9ksched.kube.errors import ApiError
from t9ksched.kube.resources import PODS
from tests.chaos.invariant_checker import ENDED, OURS
from tests.chaos.ledger import ASKED, GIVEN, Object, containers
from tests.chaos.script import HORIZON, Happening
from tests.chaos.world import World

SHARE = 0.4
"""Of histories in which annotations are edited."""


def forgeries(world: World, seed: int) -> list[Happening]:
    """What users edit in this history, and when."""
    dice = Random(f"edited annotations {seed}")
    if dice.random() >= SHARE:
        return []
    found: list[Happening] = []
    for _ in range(dice.randint(1, 4)):
        at, dies = dice.uniform(5, HORIZON), dice.choice((None, 0.0, 0.5, 4.0))
        text = "card annotations are edited" + ("" if dies is None else f", {dies:g} s later the scheduler dies")
        found.append((at, text, partial(_forge, world, Random(dice.random()), dies)))
    return found


async def _forge(world: World, dice: Random, dies: float | None) -> None:
    for key in sorted(world.checker.pods):
        pod = world.checker.pods.get(key)
        if pod is None or dice.random() < 0.2 or not _may_be_edited(pod):
            continue
        cards = world.checker.cards(pod)
        for container in containers(pod):
            edits = {ASKED + container: _text(dice, cards)}
            if dice.random() < 0.2:
                edits[GIVEN + container] = _text(dice, cards)
            meta = pod["metadata"]
            body = {"metadata": {"annotations": edits, "resourceVersion": meta["resourceVersion"]}}
            with contextlib.suppress(ApiError):  # it has changed just now: perhaps it is bound
                await world.port.patch(PODS, meta["name"], meta["namespace"], body)
    if dies is not None:
        world.also(end_scheduler(world, dies))


def _may_be_edited(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    waits = not pod["spec"].get("nodeName")
    return pod["spec"].get("schedulerName") == OURS and (waits or phase == "Running" or phase in ENDED)


def _text(dice: Random, cards: int) -> str | None:
    """Other cards, the wrong number of them, none that there are, nothing that can be read, or no annotation."""
    others = ",".join(map(str, sorted(dice.sample(range(8), cards))))
    return dice.choice((others, others, others, "7", "62", "zero", "", None))


async def end_scheduler(world: World, seconds: float) -> None:
    """The scheduler dies after so many seconds, if the history goes on for so long."""
    await asyncio.sleep(seconds)
    process = world.scheduler
    if process is not None and not world.calm:
        process.end()
