"""What happens in one history, drawn by its seed: work that comes and goes, faults, deaths, and the worst moments."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from t9ksched.devcluster.faults.faults import Rule
from t9ksched.kube.resources import NODES, PODS
from tests.chaos import asked
from tests.chaos.asked import Asked
from tests.chaos.invariant_checker import KEPT, MADE
from tests.chaos.process_faults import WRITES, SimulatedProcess
from tests.chaos.repeat import SQL, START
from tests.chaos.world import World

Happening = tuple[float, str, Callable[[], Awaitable[None]]]
"""Seconds into the history, words for people, what is done."""
HORIZON = 150.0
"""Seconds in which things happen; then faults end and the cluster comes to rest."""
_KINDS = ("gang", "gang", "gang", "gang", "pytorch", "mpi", "notebook", "batch", "single", "disks", "foreign", "bypass")


class Script:
    """Draws the events of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(world.random.random())
        self._priorities = Random(f"priorities {world.seed}")
        self._limits = Random(f"limits {world.seed}")
        self.queues = ["qa", "qb"]
        self.nodes: dict[str, tuple[int, str]] = {}
        self.names = 0

    async def set_up(self) -> None:
        """Nodes, volumes and queues."""
        dice, world = self.random, self.world
        for index in range(dice.randint(2, 5)):
            self.nodes[f"n{index}"] = (dice.choice((4, 8)), "ab"[index % 2])
        for name, (cards, zone) in self.nodes.items():
            await world.node(name, cards, zone)
        await asked.storage(world, list(self.nodes))
        total = sum(cards for cards, _ in self.nodes.values())
        ordering = dice.choice(("BestEffort", "BestEffort", "Strict"))
        await world.queue("qa", dice.choice((4, 8, total)), priority=10)
        await world.queue("qb", None, zone=dice.choice(("", "a")), priority=0, ordering=ordering)
        world.note("preemption is " + ("on" if "preempt" in world.policy.actions else "off") + f", qb is {ordering}")
        if world.policy.planning is not None:
            world.note(f"starts are planned: {world.policy.planning.mode}")
        world.note("nodes " + ", ".join(f"{name}:{zone}×{cards}" for name, (cards, zone) in self.nodes.items()))
        if world.elected:
            world.note("two schedulers stand for election")

    def draw(self) -> list[Happening]:
        """What happens when, in order of time."""
        dice = self.random
        events: list[Happening] = []
        for _ in range(dice.randint(8, 16)):
            text, act = self._workload()
            events.append((dice.uniform(0, HORIZON * 0.8), text, act))
        for _ in range(dice.randint(3, 8)):
            at = dice.uniform(0, HORIZON * 0.8)
            events.extend((at + later, text, act) for later, text, act in self._trouble())
        for _ in range(dice.randint(1, 3)):
            at = dice.uniform(0, HORIZON * 0.7)
            events.extend((at + later, text, act) for later, text, act in self._storm())
        for _ in range(dice.randint(1, 4)):
            text, act = self._death()
            events.append((dice.uniform(1, HORIZON), text, act))
        for _ in range(dice.randint(0, 4)):
            text, act = self._edit()
            events.append((dice.uniform(5, HORIZON), text, act))
        return sorted(events, key=lambda event: event[0])

    # Work

    def name(self, letter: str) -> str:
        """A name that nothing has had."""
        self.names += 1
        return f"{letter}{self.names}"

    def _workload(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        dice = self.random
        queue, cards = dice.choice(self.queues), dice.choice((1, 1, 2, 4))
        seconds = dice.choice((None, 5.0, 10.0, 20.0, 60.0))
        made: Asked
        match dice.choice(_KINDS):
            case "gang":
                size = dice.randint(2, 5)
                minimum = dice.choice((size, size, max(1, size - 1)))
                stops = dice.choice((0.0, 0.0, 12.0, 25.0))
                made = asked.Gang(self.name("g"), queue, size, cards, seconds, minimum, stops=stops)
            case "disks":
                size, kind = dice.randint(1, 3), dice.choice((MADE, MADE, KEPT))
                made = asked.Gang(self.name("g"), queue, size, min(cards, 2), seconds, size, kind)
            case "pytorch":
                made = asked.PyTorch(self.name("j"), queue, dice.randint(1, 4), cards, seconds)
            case "mpi":
                made = asked.Mpi(self.name("m"), queue, dice.randint(1, 3), cards, seconds)
            case "notebook":
                made = asked.Notebook(self.name("n"), queue, 1, cards, None)
            case "batch":
                made = asked.Batch(self.name("b"), queue, dice.randint(1, 3), cards, seconds)
            case "single":
                made = asked.Asked(self.name("s"), queue, 1, cards, seconds)
            case "bypass":
                return self._bypass()
            case _:
                name, runs = self.name("f"), dice.choice((10.0, 20.0, 60.0))
                return f"foreign pod {name}: {cards} cards, {runs}", lambda: self._foreign(name, cards, runs)
        if self.world.policy.planning is not None and made.kind != "Pod":  # its owner would make it again, for ever
            made.limit = self._limits.choice(("", "20s", "40s", "90s", "30m"))
        if isinstance(made, asked.Gang):
            made.priority = self._priorities.choice((0, 0, 5, 90))
        return str(made), lambda: self.world.submit(made)

    async def _foreign(self, name: str, cards: int, seconds: float | None) -> None:
        await self.world.create(PODS, asked.pod(name, cards, seconds, "default-scheduler"))

    def _bypass(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        """A pod that names our scheduler and a group, and is put on a node by its creator."""
        name, node = self.name("x"), self.random.choice(sorted(self.nodes))
        group = f"g{self.random.randint(1, self.names)}"
        pod = asked.pod(name, 0, self.random.choice((None, 20.0)), **{asked.GROUP: group})
        pod["spec"]["nodeName"] = node
        return f"pod {name} of {group} is made on {node}", lambda: self.world.create(PODS, pod)

    # Worst moments

    def _storm(self) -> list[Happening]:
        """Work comes at the worst moment: bindings fail, nothing is heard, the scheduler dies or stands still."""
        dice = self.random
        rules: list[Rule] = []
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
        came: list[Asked] = []
        for _ in range(dice.choice((1, 2, 3, 6))):
            size, cards = dice.randint(2, 4), dice.choice((2, 4))
            gang = asked.Gang(self.name("g"), dice.choice(self.queues), size, cards, dice.choice((None, 40.0)), size)
            came.append(gang)
            happenings.append((dice.uniform(0.0, 2.0), str(gang), partial(self.world.submit, gang)))
        match dice.choice(("death", "death", "evicting", "node", "broken", "stop", "again", "")):
            case "death":
                happenings.append((0.0, *self._die_and_steal()))
            case "evicting":
                happenings.append((0.0, *self._die_evicting()))
            case "stop":
                seconds = dice.choice((12.0, 40.0))
                text = f"the scheduler stands still for {seconds:g} s after a binding"
                happenings.append((0.0, text, partial(self._after, 1, partial(self._stand_still, seconds))))
            case "node":
                text = "the node of a binding to come is lost at that moment, for a while"
                happenings.append((0.0, text, partial(self._after, dice.randint(1, 3), self._lose)))
            case "broken":
                text = "the node of a binding to come admits no pod from then on, for a while"
                happenings.append((0.0, text, partial(self._after, dice.randint(1, 2), self._break)))
            case "again":
                for gang in came:
                    again = asked.Gang(gang.name, gang.queue, gang.size, 1, gang.seconds, gang.minimum)
                    at = dice.uniform(1.0, 5.0)
                    happenings.append((at, f"{gang.name} is deleted and made anew", partial(self._anew, again)))
        return happenings

    async def _after(self, bindings: int, act: Callable[[str], Awaitable[None]]) -> None:
        self.world.after_bindings(bindings, act)

    async def _lose(self, node: str) -> None:
        cards, zone = self.nodes.get(node, (4, "a"))
        self.world.note(f"node {node} is lost")
        await self.world.delete(NODES, node)
        self._later(self.random.choice((15.0, 60.0)), partial(self.world.node, node, cards, zone))

    async def _break(self, node: str) -> None:
        self.world.note(f"node {node} admits no pod")
        await self._broken(node, True)
        self._later(self.random.choice((10.0, 45.0)), partial(self._broken, node, False))

    async def _stand_still(self, seconds: float, _: str = "") -> None:
        process = self.world.scheduler
        if process is not None and process.alive:
            self.world.note("the scheduler stands still")
            process.pause()
            self._later(seconds, partial(self._go_on, process))

    async def _go_on(self, process: SimulatedProcess) -> None:
        self.world.note("the scheduler goes on")
        process.resume()

    def _later(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await act()

        self.world.also(wait())

    async def _anew(self, again: Asked) -> None:
        await self.world.forget(again.name)
        await self.world.submit(again)

    def _die_and_steal(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        """The scheduler dies after so many bindings, and at once others take what room is left."""
        dice, writes = self.random, self.random.randint(1, 3)
        thieves = [
            (self.name("f"), dice.choice((2, 4)), dice.choice((None, 100.0))) for _ in range(dice.choice((0, 2, 6)))
        ]

        async def act() -> None:
            process = self.world.scheduler
            if process is None or not process.alive:
                return
            process.port.last, process.port.after, process.port.counted = writes, True, ("bind",)

            async def steal() -> None:
                await process.ended.wait()
                for thief in thieves if not self.world.calm else ():
                    await self._foreign(*thief)

            self.world.also(steal())

        return f"the scheduler dies after binding {writes} pods, {len(thieves)} foreign pods come", act

    def _die_evicting(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        """The scheduler dies when so many pods were evicted, and their controllers make them again."""
        evictions, after = self.random.randint(1, 3), self.random.random() < 0.8

        async def act() -> None:
            process = self.world.scheduler
            if process is not None and process.alive:
                process.port.last, process.port.after, process.port.counted = evictions, after, ("delete",)

        return f"the scheduler dies {'after' if after else 'before'} eviction {evictions}", act

    # Faults

    def _trouble(self) -> list[Happening]:
        """A time of faults: what begins, and what ends it."""
        dice, world = self.random, self.world
        length = dice.choice((2.0, 10.0, 30.0))
        node = dice.choice(sorted(self.nodes))
        kind = dice.choice(
            (
                *("rules", "rules", "rules", "compact", "stall", "stall"),
                *("node", "silence", "broken", "cordon", "sql", "statement", "skew", "still"),
            )
        )
        match kind:
            case "rules":
                rule = self._rule()
                return [
                    (0, f"fault {_words(rule)}", lambda: self._rule_on(rule)),
                    (length, "fault ends", lambda: self._off(rule)),
                ]
            case "compact":
                return [(0, "history forgotten, watches cut", self._compact)]
            case "stall":
                what = dice.choice(("pods", "pods", "podgroups", "nodes", "*"))
                return [(0, f"watches of {what} are silent for {length:g} s", lambda: self._stall(what, length))]
            case "node":
                cards, zone = self.nodes[node]
                lost: Happening = (0, f"node {node} is lost", lambda: world.delete(NODES, node))
                back: Happening = (length, f"node {node} is back", lambda: world.node(node, cards, zone))
                return [lost] if dice.random() < 0.15 else [lost, back]
            case "silence":
                return [
                    (0, f"node {node} falls silent", lambda: world.silence(node, True)),
                    (length, f"node {node} is heard", lambda: world.silence(node, False)),
                ]
            case "broken":
                return [
                    (0, f"node {node} admits no pod", lambda: self._broken(node, True)),
                    (length, f"node {node} admits pods", lambda: self._broken(node, False)),
                ]
            case "cordon":
                return [
                    (0, f"node {node} cordoned", lambda: world.cordon(node, True)),
                    (length, f"node {node} uncordoned", lambda: world.cordon(node, False)),
                ]
            case "sql":
                return [
                    (0, "database away", lambda: self._away(True)),
                    (length, "database back", lambda: self._away(False)),
                ]
            case "statement":
                count, done = dice.randint(1, 30), dice.random() < 0.5
                text = f"the connection breaks {'after' if done else 'before'} statement {count}"
                return [(0, text, lambda: self._statement(count, done))]
            case "still":
                seconds = dice.choice((3.0, 25.0))
                return [(0, f"the scheduler stands still for {seconds:g} s", lambda: self._stand_still(seconds))]
        skew = dice.choice((-30.0, 45.0))
        return [(0, f"kubelets' clocks are off by {skew:g} s", lambda: self._skew(skew))]

    def _rule(self) -> Rule:
        dice = self.random
        resource = dice.choice(("pods/binding", "pods/binding", "*", "pods", "podgroups/status", "leases"))
        share = dice.choice((0.2, 0.5, 0.9))
        match dice.randrange(7):
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
            case 5:
                return Rule("watch", dice.choice(("*", "pods", "podgroups", "nodes")), share, swap=True)
            case _:
                return Rule("watch", "*", share, repeat=dice.randint(1, 20))

    async def _rule_on(self, rule: Rule) -> None:
        self.world.faults.rules = [*self.world.faults.rules, rule]

    async def _off(self, rule: Rule) -> None:
        self.world.faults.rules = [each for each in self.world.faults.rules if each is not rule]

    async def _compact(self) -> None:
        self.world.api.storage.compact()
        await self._rule_on(Rule("watch", "*", cut=True, count=8))

    async def _stall(self, what: str, seconds: float) -> None:
        self.world.stalled[what] = self.world.now() - START + seconds

    async def _broken(self, node: str, broken: bool) -> None:
        (self.world.faults.broken.add if broken else self.world.faults.broken.discard)(node)

    async def _away(self, away: bool) -> None:
        self.world.database_away = away

    async def _statement(self, count: int, done: bool) -> None:
        SQL.breaks_in, SQL.done_first = count, done

    async def _skew(self, seconds: float) -> None:
        self.world.faults.skew = seconds

    # Ends and edits

    def _death(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        """A process dies: at any await within the next ones, or right before or after a write."""
        dice = self.random
        who = dice.choice(("scheduler", "scheduler", "controllers"))
        if dice.random() < 0.6:
            steps = int(2 ** dice.uniform(0, 10))
            return f"death of {who} at await {steps}", lambda: self._kill(who, steps=steps)
        after, writes = dice.choice((True, False)), dice.choice((1, 2, 3, 5, 8, 13))
        text = f"death of {who} {'after' if after else 'before'} write {writes}"
        return text, lambda: self._kill(who, writes=writes, after=after)

    async def _kill(self, who: str, *, steps: int = 0, writes: int = 0, after: bool = False) -> None:
        process = self.world.scheduler if who == "scheduler" else self.world.controllers
        if process is not None and process.alive:
            process.steps_left = steps
            process.port.last, process.port.after, process.port.counted = writes, after, WRITES

    def _edit(self) -> tuple[str, Callable[[], Awaitable[None]]]:
        dice, world = self.random, self.world
        quota = dice.choice((2, 6, 12))
        draw = dice.random()
        if draw < 0.2:

            async def edit() -> None:
                world.also(world.queue("qa", quota, priority=10))

            return f"queue qa gets {quota} cards", edit
        if draw < 0.45:
            return f"the object of queue qa is edited to {quota} cards", lambda: world.edit_queue_object("qa", quota)
        number = dice.randint(1, max(1, self.names))
        return f"job number {number} is deleted", lambda: self._forget(number)

    async def _forget(self, number: int) -> None:
        for letter in "gjmnbs":
            await self.world.forget(f"{letter}{number}")


def _deaf() -> list[Rule]:
    """The scheduler hears nothing of pods."""
    return [Rule("watch", "pods", cut=True), Rule("watch", "pods", status=503), Rule("list", "pods", status=503)]


def _words(rule: Rule) -> str:
    parts = [f"status {rule.status}"] * bool(rule.status) + [f"drop {rule.drop}"] * bool(rule.drop)
    parts += ["cut"] * rule.cut + ["swap"] * rule.swap + [f"repeat {rule.repeat}"] * bool(rule.repeat)
    parts += [f"+{rule.latency} s"] * bool(rule.latency)
    return f"{rule.verb} {rule.resource} ×{rule.probability}: {', '.join(parts)}"


__all__ = ["HORIZON", "Script"]
