"""One random history by its seed: a cluster, workloads that come and go, and what goes wrong meanwhile.

`play(seed)` runs it to its end and says what must not be. The seed decides everything, so a history that fails can be
run again: `python -m tests.chaos.history SEED` prints it as a table.
"""

import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from tests.chaos.audit import audit_at_rest
from tests.chaos.beginning import new_world
from tests.chaos.closures import closures
from tests.chaos.forgeries import Forger
from tests.chaos.forgery import forgeries
from tests.chaos.process_faults import stepping
from tests.chaos.quiet import quiet_scene
from tests.chaos.repeat import repeatable
from tests.chaos.rush import rush
from tests.chaos.script import Script
from tests.chaos.world import World
from tests.unit.devcluster.virtualtime import VirtualLoop


@dataclass
class Outcome:
    """What came of a history; it is good when `faults` is empty."""

    seed: int
    faults: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    bindings: int = 0
    starts: int = 0
    jobs: int = 0
    plans: int = 0
    evictions: int = 0
    kept: int = 0
    """Promises that outlived the scheduler that made them."""
    judged: int = 0
    """Plans whose victims were held against every other set."""
    digest: str = ""
    """Of every write to the cluster, in order and to the byte."""

    def __str__(self) -> str:
        head = (
            f"history {self.seed}: {self.jobs} jobs, {self.plans} plans, {self.bindings} bindings, {self.starts} starts"
        )
        again = f"again: python -m tests.chaos.history {self.seed}"
        return "\n".join([head, "  what happened", *self.log, "  what must not be", *self.faults, again])


async def _play(seed: int, folder: Path) -> Outcome:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(stepping)
    async with new_world(seed, folder) as world:
        await _live(world, seed)
        jobs = len(world.asked)
        await quiet_scene(world, seed)
        counts = {"bindings": world.checker.bindings, "starts": world.starts, "jobs": jobs}
        counts |= {"plans": world.plans.plans, "evictions": world.plans.evictions, "kept": world.restart_checks.kept}
        counts |= {"judged": world.plans.order.judged}
        return Outcome(seed, world.checker.faults, world.log, digest=world.checker.digest, **counts)


async def _live(world: World, seed: int) -> None:
    loop = asyncio.get_running_loop()
    script = Script(world)
    await script.set_up()
    world.begin()
    forger = Forger(world, seed)
    events = [*script.draw(), *forgeries(world, seed), *closures(world, seed), *forger.draw(), *rush(world, seed)]
    for at, text, act in sorted(events, key=lambda event: event[0]):
        await asyncio.sleep(max(0.0, at - loop.time()))
        world.note(text)
        await act()
    await asyncio.sleep(1)
    world.note("faults end")
    await forger.write_back()
    if not await world.calm_down():
        world.checker.say("the cluster did not come to rest within an hour")
    await audit_at_rest(world)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What processes log in a history is of no interest, and what others log afterwards is."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def play(seed: int) -> Outcome:
    """Run one history."""
    with (
        _silence(),
        tempfile.TemporaryDirectory(prefix="t9ksched-chaos-") as folder,
        repeatable(seed),
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
    ):
        return runner.run(_play(seed, Path(folder)))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{play(int(argument))}\n")
