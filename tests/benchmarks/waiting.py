"""What gangs that wait cost a cycle, in a full cluster: prints JSON.

    python tests/benchmarks/waiting.py [--nodes 1000,5000] [--gangs 1000,5000] [--alike 20000,100000]
        [--beside collecting,planned,strict,reserved,windows,victims,cards,quota] [--record]

CPU time of whole cycles of the engine with the memory of earlier ones, and of the longest step between two looks at
the clock, as the loop makes them. All nodes are full of gangs with 8 cards each; `unlike` gangs of two pods all ask for
another amount of cpu, `alike` ones for the same. `unchanged`: nothing changed since the cycle before. `node_moved`: a
pod without cards came to one node, or went. `card_free`: a card of one node came free, so that every gang is told other
numbers; `card_taken`: it is taken again. `cordoned`: one node takes no work any more, or takes some again. `one_came`,
`one_gone`: a gang came, or the first one went.

The unlike gangs wait once more beside each of these: `collecting`: their queues have the default ordering, and all have
waited for so long that the first of each queue collect room that comes free; `planned`: besides, starts are planned, as
it is known when the gangs end that hold the nodes; `strict`: their queues keep their order; `reserved`: an
administrator reserved 16 nodes for tomorrow, for one of the queues; `windows`: their queues start jobs in windows, and
one is open; `victims`: on ten nodes pods without cards run that may be evicted for them; `cards`: a unit of cards is a
time slice on every eighth node; `quota`: as `collecting`, and their queues have too little quota left.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from collections.abc import Callable
from dataclasses import replace

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.policy import Planning, Policy
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import ExpectedEnd, Gang, Running
from t9ksched.model.queue import Ordering
from t9ksched.model.reservation import Reservation
from t9ksched.model.reserved_room import ReservedRoom
from t9ksched.model.start_windows import StartWindow
from tests.benchmarks.timing import calm, least, report, stepped
from tests.builders import gang, node, pod_class, queue, running, view

GPU = "nvidia.com/gpu"
WHOLE = pod_class(cpu=48, memory="512Gi", gpu=8)
SEVEN = pod_class(cpu=48, memory="512Gi", gpu=7)
SMALL = pod_class(cpu="1m", memory=0)
ROUNDS = 6
QUEUES = 8
SECOND = 1_000_000_000
WEEK = 7 * 86_400 * SECOND
BESIDE = ("collecting", "planned", "strict", "reserved", "windows", "victims", "cards", "quota")
ORDERINGS: dict[str, Ordering] = {
    "collecting": "Backfill",
    "planned": "Backfill",
    "strict": "Strict",
    "quota": "Backfill",
}


def cluster(count: int, *, mixed: bool = False) -> NodeTable:
    """Full nodes of 8 cards, in 16 racks, two models. With `mixed`, time slices on every eighth."""
    table = NodeTable()
    for at in range(count):
        labels = {"rack": f"r{at % 16}", "nvidia.com/gpu.product": "A100" if at % 2 else "H100"}
        made = node(f"node-{at:05}", gpu=8, labels=labels)
        made = replace(made, mode="TimeSliced") if mixed and at % 8 == 0 else made
        table.charge(table.upsert(made), WHOLE, CardGrant.packed({GPU: 255}))
    return table


class Cycles:
    """Cycles on a cluster, one after the other, with one memory, beside what `BESIDE` says."""

    def __init__(self, table: NodeTable, gangs: list[Gang], beside: str = "") -> None:
        self.table, self.gangs = table, gangs
        self.memory, self.policy = Memory(), Policy()
        self.now = WEEK
        ordering = ORDERINGS.get(beside, "BestEffort")
        windows = (StartWindow(),) if beside == "windows" else ()
        most, used = (3, {GPU: 2}) if beside == "quota" else (10**6, {})
        limits = {GPU: most, "cpu": 10**7}
        self.queues = {
            f"q{at}": queue(quota=limits, used=used, priority=5, ordering=ordering, start_windows=windows)
            for at in range(QUEUES)
        }
        self.rooms: tuple[ReservedRoom, ...] = ()
        self.running: tuple[Running, ...] = ()
        self.ends: tuple[ExpectedEnd, ...] = ()
        self.planned: tuple[Reservation, ...] = ()
        if beside == "reserved":
            begin = self.now + WEEK // 7
            nodes = table.freeze().names[:16]
            self.rooms = (ReservedRoom("course", begin, begin + WEEK // 7, begin, tuple(nodes), queues=("q0",)),)
        elif beside == "planned":
            self.policy = Policy(planning=Planning())
            hours = ((at, self.now + (1 + at % 24) * WEEK // 168) for at in range(len(table.freeze())))
            self.ends = tuple(
                ExpectedEnd(f"r{at}", f"q{at % QUEUES}", end, ((f"node-{at:05}", WHOLE, 1),)) for at, end in hours
            )
        elif beside == "victims":
            self.policy = Policy(actions=("allocate", "preempt"))
            self.queues["low"] = queue()
            self.running = tuple(running(f"low{at}", "low", [f"node-{at:05}"], of=SMALL) for at in range(10))

    def cycle(self) -> dict[str, float]:
        """CPU milliseconds of a cycle and of its longest step."""
        self.now += SECOND
        given = view(self.table, self.gangs, self.queues, self.planned, running=self.running)
        given = replace(given, reserved=self.rooms, expected_ends=self.ends)
        made, spent = stepped(given, self.policy, self.memory, self.now)
        self.planned = made.planned
        assert len(made.waiting) == len(self.gangs)
        return spent

    def several(self, change: Callable[[int], None]) -> dict[str, float]:
        """The least of a few cycles, each after a change."""
        return least(self.cycle, change, ROUNDS)

    def moved(self, nth: int) -> None:
        (self.table.discharge if nth % 2 else self.table.charge)(7, SMALL)

    def freed(self, nth: int) -> None:
        """A card comes free; before, after a cycle that is not measured, it was taken."""
        if nth:
            self._change_card(free=False)
            self.cycle()
        self._change_card(free=True)

    def taken(self, nth: int) -> None:
        if nth:
            self._change_card(free=True)
            self.cycle()
        self._change_card(free=False)

    def cordoned(self, nth: int) -> None:
        facts = self.table.facts("node-00007")
        self.table.upsert(replace(facts, unschedulable=not facts.unschedulable))

    def _change_card(self, *, free: bool) -> None:
        before, after = ((WHOLE, 255), (SEVEN, 127)) if free else ((SEVEN, 127), (WHOLE, 255))
        self.table.discharge(7, before[0], CardGrant.packed({GPU: before[1]}))
        self.table.charge(7, after[0], CardGrant.packed({GPU: after[1]}))

    def came(self, nth: int) -> None:
        self.gangs = [*self.gangs, gang(f"new{nth}", queue="q1", pods=2, of=self.gangs[0].waiting[0].pod_class)]

    def gone(self, nth: int) -> None:
        self.gangs = self.gangs[1:]

    def figures(self) -> dict[str, dict[str, float]]:
        first = self.cycle()
        return {
            "first": {name: round(one, 2) for name, one in first.items()},
            "unchanged": self.several(lambda nth: None),
            "node_moved": self.several(self.moved),
            "card_free": self.several(self.freed),
            "card_taken": self.several(self.taken),
            "cordoned": self.several(self.cordoned),
            "one_came": self.several(self.came),
            "one_gone": self.several(self.gone),
        }


def unlike(count: int) -> list[Gang]:
    return [
        gang(f"u{at}", queue=f"q{at % QUEUES}", pods=2, of=pod_class(cpu=f"{1000 + at}m", gpu=1), created=at)
        for at in range(count)
    ]


def alike(count: int) -> list[Gang]:
    shape = pod_class(cpu=1, gpu=1)
    return [gang(f"a{at}", queue=f"q{at % QUEUES}", pods=2, of=shape, created=at) for at in range(count)]


def measured(nodes: int, gangs: list[Gang], beside: str = "") -> dict[str, dict[str, float]]:
    """All figures of these gangs on so many nodes."""
    cycles = Cycles(cluster(nodes, mixed=beside == "cards"), gangs, beside)
    with calm():
        return cycles.figures()


def main() -> None:
    parser = argparse.ArgumentParser(description="What gangs that wait cost a cycle.")
    parser.add_argument("--nodes", default="1000,5000")
    parser.add_argument("--gangs", default="1000,5000")
    parser.add_argument("--alike", default="20000,100000")
    parser.add_argument("--beside", default=",".join(BESIDE))
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    nodes, gangs, many = (list(map(int, one.split(","))) for one in (options.nodes, options.gangs, options.alike))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for count in nodes:
        for waiting in gangs:
            found[f"{waiting}_unlike_{count}_nodes"] = measured(count, unlike(waiting))
            for beside in filter(None, options.beside.split(",")):
                found[f"{waiting}_unlike_{count}_nodes_{beside}"] = measured(count, unlike(waiting), beside)
        for waiting in filter(None, many):
            found[f"{waiting}_alike_{count}_nodes"] = measured(count, alike(waiting))
    report("waiting", options.record, nodes=nodes, gangs=gangs, alike=many, figures=found)


if __name__ == "__main__":
    main()
