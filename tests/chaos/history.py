"""One random history by its seed: a cluster, workloads that come and go, and what goes wrong meanwhile.

`play(seed)` runs it to its end and says what must not be. The seed decides everything, so a history that fails can be
run again: `python -m tests.chaos.history SEED` prints it as a table.
"""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import structlog

from t9ksched.devcluster.faults import Rule
from t9ksched.kube.resources import NODES, PODS
from tests.chaos.audit import audit_at_rest
from tests.chaos.lives import WRITES, repeatable
from tests.chaos.world import START, Gang, World, new_world
from tests.unit.devcluster.virtualtime import VirtualLoop

Happening = tuple[float, str, Callable[[], Awaitable[None]]]
"""Seconds into the history, words for people, what is done."""
HORIZON = 150.0
"""Seconds in which things happen; then faults end and the cluster comes to rest."""


@dataclass
class Outcome:
    """What came of a history; it is good when `faults` is empty."""

    seed: int
    faults: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    bindings: int = 0
    lives: int = 0
    jobs: int = 0

    def __str__(self) -> str:
        head = f"history {self.seed}: {self.jobs} jobs, {self.bindings} bindings, {self.lives} lives"
        again = f"again: python -m tests.chaos.history {self.seed}"
        return "\n".join([head, "  what happened", *self.log, "  what must not be", *self.faults, again])


class History:
    """Draws and plays the events of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(world.random.random())
        self.queues = ["qa", "qb"]
        self.nodes: dict[str, tuple[int, str]] = {}
        self.names = 0

    async def set_up(self) -> None:
        dice, world = self.random, self.world
        for index in range(dice.randint(2, 5)):
            self.nodes[f"n{index}"] = (dice.choice((4, 8)), "ab"[index % 2])
        for name, (cards, zone) in self.nodes.items():
            await world.node(name, cards, zone)
        total = sum(cards for cards, _ in self.nodes.values())
        await world.queue("qa", dice.choice((4, 8, total)), priority=10)
        await world.queue("qb", None, zone=dice.choice(("", "a")))
        world.note("preemption is on" if "preempt" in world.policy.actions else "preemption is off")
        world.note("nodes " + ", ".join(f"{name}:{zone}×{cards}" for name, (cards, zone) in self.nodes.items()))

    def script(self) -> list[Happening]:
        """What happens when, in order of time."""
        dice = self.random
        events: list[Happening] = []
        for _ in range(dice.randint(8, 16)):
            events.append((dice.uniform(0, HORIZON * 0.8), *self._workload()))
        for _ in range(dice.randint(3, 8)):
            at = dice.uniform(0, HORIZON * 0.8)
            events.extend((at + later, text, act) for later, text, act in self._trouble())
        for _ in range(dice.randint(1, 3)):
            at = dice.uniform(0, HORIZON * 0.7)
            events.extend((at + later, text, act) for later, text, act in self._storm())
        for _ in range(dice.randint(1, 4)):
            events.append((dice.uniform(1, HORIZON), *self._death()))
        for _ in range(dice.randint(0, 4)):
            events.append((dice.uniform(5, HORIZON), *self._edit()))
        return sorted(events, key=lambda event: event[0])

    def _workload(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        dice, world = self.random, self.world
        self.names += 1
        queue, cards = dice.choice(self.queues), dice.choice((1, 1, 2, 4))
        seconds = dice.choice((None, 5.0, 10.0, 20.0, 60.0))
        match dice.choice(("gang", "gang", "gang", "job", "single", "foreign")):
            case "gang":
                size = dice.randint(2, 5)
                gang = Gang(f"g{self.names}", size, dice.choice((size, size, max(1, size - 1))), cards, queue, seconds)
                text = f"gang {gang.name}: {size} × {cards} cards, minimum {gang.minimum}, queue {queue}, {seconds}"
                return text, lambda: world.gang(gang)
            case "job":
                name, size = f"j{self.names}", dice.randint(1, 4)
                text = f"job {name}: {size} × {cards} cards, queue {queue}, {seconds}"
                return text, lambda: world.job(name, size, cards, queue, seconds)
            case "single":
                name = f"s{self.names}"
                return f"pod {name}: {cards} cards, {queue}", lambda: world.single(name, cards, queue, seconds)
            case _:
                name = f"f{self.names}"
                runs = dice.choice((10.0, 20.0, 60.0))
                return f"foreign pod {name}: {cards} cards, {runs}", lambda: self._foreign(name, cards, runs)

    async def _foreign(self, name: str, cards: int, seconds: float | None) -> None:
        await self.world.create(PODS, self.world.pod(name, cards, seconds, "default-scheduler"))

    def _storm(self) -> list[Happening]:
        """Work comes at the worst moment: while bindings fail, nothing is heard, and the scheduler dies between two."""
        dice = self.random
        rules = []
        match dice.randrange(4):
            case 0:
                rules = [Rule("create", "pods/binding", 0.7, drop="after"), *_deaf()]
            case 1:
                rules = [Rule("create", "pods/binding", 0.5, status=dice.choice((400, 404, 409, 422)))]
            case 2:
                rules = [Rule("create", "pods/binding", 0.6, latency=5.0), *(_deaf() if dice.random() < 0.5 else ())]
        happenings: list[Happening] = []
        for rule in rules:
            happenings.append((0.0, f"storm: {_words(rule)}", partial(self._rule_on, rule)))
            happenings.append((dice.choice((4.0, 20.0)), "storm ends", partial(self._off, rule)))
        for _ in range(dice.randint(1, 3)):
            self.names += 1
            size, cards = dice.randint(2, 4), dice.choice((2, 4))
            gang = Gang(f"g{self.names}", size, size, cards, dice.choice(self.queues), dice.choice((None, 40.0)))
            text = f"gang {gang.name}: {size} × {cards} cards, queue {gang.queue}, {gang.seconds}"
            happenings.append((dice.uniform(0.0, 2.0), text, partial(self.world.gang, gang)))
        if dice.random() < 0.7:
            writes = dice.randint(1, 3)
            thieves = []
            for _ in range(dice.choice((0, 2, 6))):
                self.names += 1
                thieves.append((f"f{self.names}", dice.choice((2, 4)), dice.choice((None, 100.0))))
            text = f"the scheduler dies after binding {writes} pods, {len(thieves)} foreign pods come"
            happenings.append((0.0, text, partial(self._die_and_steal, writes, thieves)))
        return happenings

    def _trouble(self) -> list[Happening]:
        """A time of faults: what begins, and what ends it."""
        dice, world = self.random, self.world
        length = dice.choice((2.0, 10.0, 30.0))
        node = dice.choice(sorted(self.nodes))
        kind = dice.choice(
            ("rules", "rules", "rules", "rules", "compact", "node", "silence", "broken", "cordon", "sql", "skew")
        )
        if kind == "rules":
            rule = self._rule()
            return [
                (0, f"fault {_words(rule)}", lambda: self._rule_on(rule)),
                (length, "fault ends", lambda: self._off(rule)),
            ]
        if kind == "compact":
            return [(0, "history forgotten, watches cut", self._compact)]
        if kind == "node":
            cards, zone = self.nodes[node]
            lost: Happening = (0, f"node {node} is lost", lambda: world.delete(NODES, node))
            back: Happening = (length, f"node {node} is back", lambda: world.node(node, cards, zone))
            return [lost] if dice.random() < 0.15 else [lost, back]
        if kind == "silence":
            return [
                (0, f"node {node} falls silent", lambda: world.silence(node, True)),
                (length, f"node {node} is heard", lambda: world.silence(node, False)),
            ]
        if kind == "broken":
            return [
                (0, f"node {node} admits no pod", lambda: self._broken(node, True)),
                (length, f"node {node} admits pods", lambda: self._broken(node, False)),
            ]
        if kind == "cordon":
            return [
                (0, f"node {node} cordoned", lambda: world.cordon(node, True)),
                (length, f"node {node} uncordoned", lambda: world.cordon(node, False)),
            ]
        if kind == "sql":
            return [
                (0, "database away", lambda: self._away(True)),
                (length, "database back", lambda: self._away(False)),
            ]
        return [(0, "kubelets' clocks are off", lambda: self._skew(dice.choice((-30.0, 45.0))))]

    def _rule(self) -> Rule:
        dice = self.random
        resource = dice.choice(("pods/binding", "pods/binding", "*", "pods", "podgroups/status"))
        share = dice.choice((0.2, 0.5, 0.9))
        match dice.randrange(6):
            case 0:
                return Rule("*", resource, share, status=dice.choice((500, 503, 504)))
            case 1:
                return Rule("*", resource, share, status=429, retry_after=dice.choice((None, 1.0, 5.0)))
            case 2:
                return Rule("*", resource, share, drop=dice.choice(("before", "after", "after")))
            case 3:
                return Rule("*", resource, share, latency=dice.choice((0.1, 2.0)))
            case 4:
                return Rule("watch", "*", share, cut=True)
            case _:
                return Rule("watch", "*", share, repeat=dice.randint(1, 20))

    async def _rule_on(self, rule: Rule) -> None:
        self.world.faults.rules = [*self.world.faults.rules, rule]

    async def _off(self, rule: Rule) -> None:
        self.world.faults.rules = [each for each in self.world.faults.rules if each is not rule]

    async def _compact(self) -> None:
        self.world.api.storage.compact()
        await self._rule_on(Rule("watch", "*", cut=True, count=8))

    async def _broken(self, node: str, broken: bool) -> None:
        (self.world.faults.broken.add if broken else self.world.faults.broken.discard)(node)

    async def _away(self, away: bool) -> None:
        self.world.database_away = away

    async def _skew(self, seconds: float) -> None:
        self.world.faults.skew = seconds

    def _death(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        dice = self.random
        who = dice.choice(("scheduler", "scheduler", "controllers"))
        after = dice.choice((True, False))
        writes = dice.choice((0, 1, 2, 3, 5, 8, 13))
        text = f"death of {who} " + (f"{'after' if after else 'before'} write {writes}" if writes else "at once")
        return text, lambda: self._kill(who, writes, after)

    async def _kill(self, who: str, writes: int, after: bool, kinds: tuple[str, ...] = WRITES) -> None:
        life = self.world.scheduler if who == "scheduler" else self.world.controllers
        if life is None or not life.alive:
            return
        if writes:
            life.port.last, life.port.after, life.port.counted = writes, after, kinds
        else:
            life.end()

    async def _die_and_steal(self, writes: int, thieves: list[tuple[str, int, float | None]]) -> None:
        """The scheduler dies after so many bindings, and at once others take what room is left."""
        life = self.world.scheduler
        if life is None or not life.alive:
            return
        await self._kill("scheduler", writes, True, ("bind",))

        async def steal() -> None:
            await life.ended.wait()
            for thief in thieves:
                await self._foreign(*thief)

        self.world.also(steal())

    def _edit(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        dice, world = self.random, self.world
        if dice.random() < 0.3:
            quota = dice.choice((2, 6, 12))
            return f"queue qa gets {quota} cards", lambda: world.queue("qa", quota, priority=10)
        number = dice.randint(1, max(1, self.names))
        return f"job number {number} is deleted", lambda: self._forget(number)

    async def _forget(self, number: int) -> None:
        for letter in "gjs":
            await self.world.forget(f"{letter}{number}")


def _deaf() -> list[Rule]:
    """The scheduler hears nothing of pods."""
    return [Rule("watch", "pods", cut=True), Rule("watch", "pods", status=503), Rule("list", "pods", status=503)]


def _words(rule: Rule) -> str:
    parts = [f"status {rule.status}"] * bool(rule.status) + [f"drop {rule.drop}"] * bool(rule.drop)
    parts += ["cut"] * rule.cut + [f"repeat {rule.repeat}"] * bool(rule.repeat)
    parts += [f"+{rule.latency} s"] * bool(rule.latency)
    return f"{rule.verb} {rule.resource} ×{rule.probability}: {', '.join(parts)}"


async def _play(seed: int, folder: Path) -> Outcome:
    loop = asyncio.get_running_loop()
    async with new_world(seed, folder) as world:
        history = History(world)
        await history.set_up()
        world.begin()
        script = history.script()
        for at, text, act in script:
            await asyncio.sleep(max(0.0, at - loop.time()))
            world.note(text)
            await act()
        await asyncio.sleep(1)
        world.note("faults end")
        if not await world.calm_down():
            world.witness.say("the cluster did not come to rest within an hour")
        await audit_at_rest(world)
        jobs = len(world.gangs) + len(world.jobs) + len(world.singles)
        return Outcome(seed, world.witness.faults, world.log, world.witness.bindings, world.lives, jobs)


def play(seed: int) -> Outcome:
    """Run one history."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    def now() -> str:
        return datetime.fromtimestamp(START + loop.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    loop = VirtualLoop()
    with (
        tempfile.TemporaryDirectory(prefix="t9ksched-chaos-") as folder,
        repeatable(seed, now),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(_play(seed, Path(folder)))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{play(int(argument))}\n")
