"""How long gangs that are hard to place hold a plan, and its worst step: prints JSON.

    python tests/benchmarks/domains.py [--nodes 5000] [--rounds 3] [--record]

Nodes of 8 cards in racks of 16 are full of one-card pods of a lower queue, of two lower queues of one priority, or of
gangs of 8 scattered over the cluster. Then one gang comes that must be within one node or one rack, of pods alike or
unlike, and others must go for it. `cold` builds the columns of those who run first, as after any change to them;
`warm` finds them built. `unlike` are pods without preemption on nodes that pairs of them fill exactly.

A step is what runs between two places where a plan can be put down; the loop looks at the clock there. Times are CPU
time of the thread, the collector of garbage included; `units` count work as `engine/work.py` does. Each is the run of a
few that took the least; `worst_step` is the least of the worst steps.
"""

import argparse
import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Running
from tests.benchmarks.timing import report
from tests.builders import gang, member, node, pod_class, queue, running, table, view

CARDS, RACK = 8, 16
HOST = "kubernetes.io/hostname"
PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "other": queue(), "high": queue(priority=1)}


def full(nodes: int, size: int, queues: tuple[str, ...]) -> tuple[Any, tuple[Running, ...]]:
    """Nodes full of gangs of `size` one-card pods, those of more than one pod scattered."""
    rng = random.Random(1)
    live = table(node(f"n{at:04}", gpu=CARDS, labels={"rack": f"r{at // RACK:03}"}) for at in range(nodes))
    slots = [(at, card) for at in range(nodes) for card in range(CARDS)]
    if size > 1:
        rng.shuffle(slots)
    shape = running("shape", "low", ["n"], gpu=1).pods[0].pod_class
    groups = []
    for start in range(0, len(slots), size):
        mine = slots[start : start + size]
        group = running(
            f"g{start:06}",
            queues[start // size % len(queues)],
            [f"n{at:04}" for at, _ in mine],
            of=shape,
            cards=[1 << card for _, card in mine],
            created=start,
            priority=rng.randrange(3),
        )
        groups.append(group)
        for pod in group.pods:
            live.charge(live.row(pod.node), shape, pod.cards)
    return live, tuple(groups)


def together(wants: Gang, level: str) -> Gang:
    return structs.replace(wants, topology="Required", levels=(level,))


def unlike(pods: int, gpu: int = 1) -> Gang:
    shapes = [pod_class(cpu=1 + at % 60, memory=1 + at, gpu=gpu) for at in range(pods)]
    return gang("p", "high", members=[member(f"m{at}", of) for at, of in enumerate(shapes)])


GANGS: dict[str, Callable[[], Gang]] = {
    "node_alike": lambda: together(gang("p", "high", 8, gpu=1), HOST),
    "node_unlike": lambda: together(unlike(6), HOST),
    "rack_alike": lambda: together(gang("p", "high", 10, gpu=8), "rack"),
    "rack_unlike": lambda: together(unlike(10, gpu=8), "rack"),
    "rack_40_unlike": lambda: together(unlike(40), "rack"),
}
RUNNING = {"single": (1, ("low",)), "two_queues": (1, ("low", "other")), "scattered_gangs": (8, ("low",))}


def exactly(pods: int) -> View:
    """Pairs of unlike pods, and for each pair a node that it fills; no two amounts of cpu are alike."""
    sizes = [(at * at * 37 + at * 101) % 9973 + 100 for at in range(pods)]
    nodes = [node(f"n{at:03}", cpu=f"{sizes[2 * at] + sizes[2 * at + 1]}m") for at in range(pods // 2)]
    members = [member(f"m{at}", pod_class(cpu=f"{size}m")) for at, size in enumerate(sizes)]
    return view(nodes, [gang("p", "high", members=members)], QUEUES)


def spent(given: View, policy: Policy, memory: Callable[[], Memory], rounds: int) -> dict[str, float]:
    """CPU milliseconds of a plan and of its worst step, units of the same; and how many steps there were."""
    totals, worst = [], []
    units = most = steps = 0
    for _ in range(rounds):
        kept = memory()
        gc.collect()
        total = longest = 0.0
        steps = most = 0
        begin = thread_time()
        planner = Planner(given, policy, 0, kept)
        done = False
        while not done:
            before, begun = planner.meter.spent, thread_time()
            done = planner.step(1)
            longest = max(longest, thread_time() - begun)
            most = max(most, planner.meter.spent - before)
            steps += 1
        total = thread_time() - begin
        units = planner.meter.spent
        totals.append(total)
        worst.append(longest)
    return {
        "cpu_ms": round(min(totals) * 1e3, 1),
        "worst_step_ms": round(min(worst) * 1e3, 1),
        "units": units,
        "worst_step_units": most,
        "steps": steps,
    }


def measure(nodes: int, rounds: int) -> dict[str, Any]:
    """Every figure."""
    figures: dict[str, Any] = {}
    for kind, (size, queues) in RUNNING.items():
        live, groups = full(nodes, size, queues)
        for name, wants in GANGS.items():
            given = view(live, [wants()], QUEUES, running=groups)
            kept = Memory()
            Planner(given, PREEMPT, 0, kept).step(1 << 60)

            def warm(kept: Memory = kept) -> Memory:
                kept.failures.forget()
                return kept

            def cold(given: View = view(live, [wants()], QUEUES)) -> Memory:
                """Nodes are known, those who run are not."""
                found = Memory()
                Planner(given, PREEMPT, 0, found).step(1 << 60)
                found.failures.forget()
                return found

            figures[f"{kind}.{name}"] = {
                "cold": spent(given, PREEMPT, cold, rounds),
                "warm": spent(given, PREEMPT, warm, rounds),
            }
    for pods in (100, 1000):
        figures[f"unlike.{pods}"] = spent(exactly(pods), Policy(), Memory, rounds)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="How long gangs that are hard to place hold a plan.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    figures = measure(options.nodes, options.rounds)
    report("domains", options.record, nodes=options.nodes, cards_per_node=CARDS, nodes_a_rack=RACK, figures=figures)


if __name__ == "__main__":
    main()
