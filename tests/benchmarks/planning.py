"""What planned starts cost, alone, on one core: prints JSON.

    python tests/benchmarks/planning.py [--nodes 5000] [--gangs 1000] [--all] [--record]

Nodes of 8 cards are full: on each runs a job of 8 cards that ends within a day. A thousand gangs wait, of 1 to 16 pods
with 1, 2, 4 or 8 cards each, for half an hour to a day, in 8 queues without quota. Told are a cycle without planned
starts, the cycle that plans the first ones, and after each of several events the cycles until nothing moves any more:
CPU, the longest step in units of work and in milliseconds, and how many gangs were looked at. With `--all` the limits
of plans let all gangs have one.
"""

import argparse
import gc
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.reservation import Reservation
from tests.benchmarks.timing import report
from tests.builders import GPU, gang, node, pod_class, queue

MINUTE = 60 * 1_000_000_000
CLASSES = {cards: pod_class(cpu=4 * cards, memory=f"{32 * cards}Gi", gpu=cards) for cards in (1, 2, 4, 8)}
QUEUES: dict[str, QueueState] = {f"q{at}": queue(ordering="Backfill") for at in range(8)}
FULL = CardGrant.packed({GPU: 255})
STEP = 200_000
"""Units of work that a service asks for at once."""


def full(count: int) -> tuple[NodeTable, list[ExpectedEnd]]:
    """Nodes, each with a job of all its cards, and when these end."""
    rng, table, ends = random.Random(1), NodeTable(), []
    for at in range(count):
        row = table.upsert(node(f"node-{at:05}", gpu=8))
        table.charge(row, CLASSES[8], FULL)
        ends.append(
            ExpectedEnd(f"r{at}", f"q{at % 8}", rng.randint(1, 1440) * MINUTE, ((f"node-{at:05}", CLASSES[8], 1),))
        )
    return table, ends


def waiting(count: int) -> list[Gang]:
    """Gangs that are all unlike, by size or limit."""
    rng = random.Random(2)
    found = []
    for at in range(count):
        made = gang(f"w{at}", f"q{at % 8}", rng.randint(1, 16), of=CLASSES[rng.choice((1, 2, 4, 8))], created=at)
        found.append(structs.replace(made, lasts=rng.randint(30, 1440) * MINUTE))
    return found


class Scene:
    """What a service would pass to its planner, and what became of the plans."""

    def __init__(self, count: int, gangs: Iterable[Gang], planning: Planning) -> None:
        self.now = 0
        self.policy, self.memory = Policy(planning=planning), Memory()
        self.table, ends = full(count)
        self.ends = {one.gang: one for one in ends}
        self.gangs = {one.uid: one for one in gangs}
        self.planned: tuple[Reservation, ...] = ()
        self.held = {one.gang: [(self.table.row(one.rooms[0][0]), CLASSES[8], FULL)] for one in ends}

    def cycle(self, policy: Policy | None = None) -> dict[str, object]:
        """A cycle in steps, and what it cost; with a policy, it changes nothing."""
        view = View(
            self.table.freeze(),
            QUEUES,
            tuple(self.gangs.values()),
            self.planned,
            expected_ends=tuple(self.ends.values()),
        )
        gc.collect()
        begun = process_time()
        planner = Planner(view, policy or self.policy, self.now, self.memory if policy is None else Memory())
        longest = most = 0.0
        done = False
        while not done:
            before, spent = perf_counter(), planner.meter.spent
            done = planner.step(STEP)
            longest, most = max(longest, perf_counter() - before), max(most, planner.meter.spent - spent)
        found = planner.result()
        figures: dict[str, object] = {
            "cpu_ms": round((process_time() - begun) * 1e3, 1),
            "longest_step_ms": round(longest * 1e3, 1),
            "longest_step_units": int(most),
            "planned": len({one.owner for one in found.planned}),
            "looked_at": found.stats.tried + found.stats.alike,
            "planned_anew": found.stats.planned,
        }
        if policy is None:
            figures["started"] = len({one.gang for one in found.assignments})
            self._apply(found)
        return figures

    def _apply(self, found: Plan) -> None:
        """What starts runs from now on."""
        self.planned = found.planned
        for one in found.assignments:
            of = self.gangs[one.gang].waiting[0].pod_class
            row = self.table.row(one.node)
            self.table.charge(row, of, one.grant)
            self.held.setdefault(one.gang, []).append((row, of, one.grant))
        for uid in sorted({one.gang for one in found.assignments}):
            started = self.gangs.pop(uid)
            nodes = Counter(one.node for one in found.assignments if one.gang == uid)
            of = started.waiting[0].pod_class
            rooms = tuple((node, of, pods) for node, pods in nodes.items())
            self.ends[uid] = ExpectedEnd(uid, started.queue, self.now + started.lasts, rooms)

    def settle(self) -> list[dict[str, object]]:
        """Cycles until one changes nothing."""
        found = []
        while True:
            before = self.planned
            found.append(self.cycle())
            if self.planned == before and not found[-1]["started"]:
                return found

    def end(self, uid: str) -> None:
        """A job ends."""
        del self.ends[uid]
        for row, of, grant in self.held.pop(uid):
            self.table.discharge(row, of, grant)

    def last(self) -> str:
        """The job that would end last of those that run."""
        return max(self.ends.values(), key=lambda one: one.at).gang


def measure(count: int, gangs: Sequence[Gang], planning: Planning) -> dict[str, object]:
    """Every figure."""
    scene = Scene(count, gangs, planning)
    scene.cycle(Policy())
    figures: dict[str, object] = {"without": scene.cycle(Policy())}
    figures["first"] = scene.settle()
    figures["nothing_happened"] = scene.settle()
    scene.end(scene.last())
    figures["a_job_ended_early"] = scene.settle()
    # A job that ends a minute before its time, before all others: hardly anything can use what it leaves.
    scene.end(min(scene.ends.values(), key=lambda one: one.at).gang)
    figures["a_job_ended_a_little_early"] = scene.settle()
    first = min(scene.ends.values(), key=lambda one: one.at)
    scene.now = first.at
    for one in [one for one in scene.ends.values() if one.at <= scene.now]:
        scene.end(one.gang)
    figures["jobs_ended_on_time"] = scene.settle()
    scene.now += MINUTE // 2
    figures["time_went_by"] = scene.settle()
    name = scene.ends[scene.last()].rooms[0][0]
    scene.table.charge(scene.table.row(name), pod_class(cpu=1, memory="1Gi"))
    figures["another_pod_on_a_node"] = scene.settle()
    scene.table.upsert(node(name, gpu=8, labels={"changed": "yes"}))
    figures["a_label_of_a_node_changed"] = scene.settle()
    scene.table.upsert(node("node-x", gpu=8))
    figures["a_node_came"] = scene.settle()
    for uid in ("x0", "x1"):
        made = gang(uid, "q1", 4, of=CLASSES[4], created=10_000)
        scene.gangs[uid] = structs.replace(made, lasts=100 * MINUTE)
        figures[f"a_gang_came_{uid}"] = scene.settle()
    del scene.gangs[scene.planned[len(scene.planned) // 2].owner]
    figures["a_gang_was_withdrawn"] = scene.settle()
    return figures


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--gangs", type=int, default=1_000)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--all", action="store_true", help="all gangs may have a plan")
    parser.add_argument("--brief", action="store_true", help="a line for each cycle")
    options = parser.parse_args()
    most = options.gangs + 10
    planning = Planning(gangs=most, per_queue=most, per_user=most) if options.all else Planning()
    figures = measure(options.nodes, waiting(options.gangs), planning)
    if options.brief:
        for name, found in figures.items():
            for one in found if isinstance(found, list) else [found]:
                print(f"{name:28}", *one.values(), sep="\t")
        return
    report("planning", options.record, nodes=options.nodes, gangs=options.gangs, all=options.all, figures=figures)


if __name__ == "__main__":
    main()
