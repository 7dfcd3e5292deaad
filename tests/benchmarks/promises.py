"""What gangs that wait for their victims cost a cycle: prints JSON.

    python tests/benchmarks/promises.py [--gangs 250,1000] [--record]

CPU time of whole cycles of the engine with the memory of earlier ones, and of the longest step between two looks at
the clock, as the loop makes them. There are twice as many nodes as gangs, all full; on one half run the victims of the
gangs, two pods each of 8 cards, which are leaving, and each gang was promised their room. `unlike` gangs all ask for
another amount of cpu, `alike` ones for the same. `unchanged`: nothing changed since the cycle before. `node_moved`: a
pod without cards came to one node, or went. `victims_left`: those of one gang have left, and it starts.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from collections.abc import Callable

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.policy import Policy
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang, Running
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.benchmarks.timing import calm, least, report, stepped
from tests.builders import gang, node, pod_class, queue, running, view

GPU = "nvidia.com/gpu"
WHOLE = pod_class(cpu=48, memory="512Gi", gpu=8)
SMALL = pod_class(cpu="1m", memory=0)
POLICY = Policy(actions=("allocate", "preempt"))
PODS = 2
ROUNDS = 6


class Promised:
    """A full cluster in which so many gangs wait for their victims."""

    def __init__(self, count: int, *, alike: bool) -> None:
        self.table = NodeTable()
        low = []
        for at in range(2 * PODS * count):
            name = f"node-{at:05}"
            self.table.charge(self.table.upsert(node(name, gpu=8)), WHOLE, CardGrant.packed({GPU: 255}))
            of = at // PODS
            if at % PODS == 0:
                names = [f"node-{one:05}" for one in range(at, at + PODS)]
                leaving = range(PODS) if of < count else ()
                low.append(running(f"low{of}", queue="low", on=names, of=WHOLE, leaving=leaving, cards=[255] * PODS))
        self.running: tuple[Running, ...] = tuple(low)
        self.gangs: list[Gang] = []
        self.promises: list[Reservation] = []
        for at in range(count):
            shape = pod_class(cpu=40 if alike else f"{40_000 + at}m", memory="512Gi", gpu=8)
            self.gangs.append(gang(f"high{at}", queue="high", pods=PODS, of=shape, created=at, accepted=True))
            self.promises += [
                Reservation(f"high{at}", f"node-{row:05}", shape, ReservationKind.VICTIMS, until=1 << 60)
                for row in range(at * PODS, at * PODS + PODS)
            ]
        self.queues = {"low": queue(priority=0, used={GPU: 16 * 2 * count}), "high": queue(priority=5)}
        self.memory = Memory()

    def cycle(self) -> dict[str, float]:
        """CPU milliseconds of a cycle and of its longest step."""
        given = view(self.table, self.gangs, self.queues, reservations=self.promises, running=self.running)
        made, spent = stepped(given, POLICY, self.memory)
        assert len(made.waiting) + len(made.assignments) // PODS == len(self.gangs)
        return spent

    def several(self, change: Callable[[int], None]) -> dict[str, float]:
        """The least of a few cycles, each after a change."""
        return least(self.cycle, change, ROUNDS)

    def moved(self, nth: int) -> None:
        (self.table.discharge if nth % 2 else self.table.charge)(len(self.table) - 1, SMALL)

    def left(self, nth: int) -> None:
        if nth:  # what the gang of the cycle before was promised is its own now
            of, shape = self.gangs[0], self.gangs[0].waiting[0].pod_class
            for one in [one for one in self.promises if one.owner == of.uid]:
                self.table.charge(self.table.row(one.node), shape, CardGrant.packed({GPU: 255}))
            self.promises = [one for one in self.promises if one.owner != of.uid]
            self.gangs = self.gangs[1:]
        gone = next(one for one in self.running if one.pods and one.pods[0].leaving)
        self.running = tuple(one for one in self.running if one is not gone)
        for pod in gone.pods:
            self.table.discharge(self.table.row(pod.node), WHOLE, CardGrant.packed({GPU: 255}))

    def figures(self) -> dict[str, dict[str, float]]:
        first = self.cycle()
        return {
            "first": {name: round(one, 2) for name, one in first.items()},
            "unchanged": self.several(lambda nth: None),
            "node_moved": self.several(self.moved),
            "victims_left": self.several(self.left),
        }


def measured(count: int, *, alike: bool) -> dict[str, dict[str, float]]:
    """All figures of so many gangs."""
    promised = Promised(count, alike=alike)
    with calm():
        return promised.figures()


def main() -> None:
    parser = argparse.ArgumentParser(description="What gangs that wait for their victims cost a cycle.")
    parser.add_argument("--gangs", default="250,1000")
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    gangs = list(map(int, options.gangs.split(",")))
    found = {}
    for count in gangs:
        found[f"{count}_unlike"] = measured(count, alike=False)
        found[f"{count}_alike"] = measured(count, alike=True)
    report("promises", options.record, gangs=gangs, figures=found)


if __name__ == "__main__":
    main()
