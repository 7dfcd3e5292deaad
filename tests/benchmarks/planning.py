"""What planned starts cost, alone, on one core: prints JSON.

    python tests/benchmarks/planning.py [--nodes 5000] [--record]

Nodes of 8 cards are full: on each runs a job of 8 cards that ends within a day. A thousand gangs wait, of 1 to 16 pods
with 1, 2, 4 or 8 cards each, for half an hour to a day, in 8 queues without quota. Told are a cycle without planned
starts, the cycle that plans the first ones, one in which nothing happened, one after a job ended early, and the longest
step of each in units of work and in milliseconds.
"""

import argparse
import random
import sys
from collections.abc import Iterable
from dataclasses import replace
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
from tests.benchmarks.timing import report
from tests.builders import GPU, gang, node, pod_class, queue

MINUTE = 60 * 1_000_000_000
CLASSES = {cards: pod_class(cpu=4 * cards, memory=f"{32 * cards}Gi", gpu=cards) for cards in (1, 2, 4, 8)}
QUEUES: dict[str, QueueState] = {f"q{at}": queue(ordering="Backfill") for at in range(8)}
STEP = 200_000
"""Units of work that a service asks for at once."""


def full(count: int) -> tuple[NodeTable, list[ExpectedEnd]]:
    """Nodes, each with a job of all its cards, and when these end."""
    rng, table, ends = random.Random(1), NodeTable(), []
    for at in range(count):
        row = table.upsert(node(f"node-{at:05}", gpu=8))
        table.charge(row, CLASSES[8], CardGrant.packed({GPU: 255}))
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


def cycle(view: View, policy: Policy, memory: Memory) -> tuple[Plan, dict[str, object]]:
    """A cycle in steps, and what it cost."""
    begun = process_time()
    planner = Planner(view, policy, 0, memory)
    longest = most = 0.0
    done = False
    while not done:
        before, spent = perf_counter(), planner.meter.spent
        done = planner.step(STEP)
        longest, most = max(longest, perf_counter() - before), max(most, planner.meter.spent - spent)
    found = planner.result()
    return found, {
        "cpu_ms": round((process_time() - begun) * 1e3, 1),
        "longest_step_ms": round(longest * 1e3, 1),
        "longest_step_units": int(most),
        "planned": len({one.owner for one in found.planned}),
        "looked_at": found.stats.tried + found.stats.alike,
    }


def measure(count: int, gangs: Iterable[Gang]) -> dict[str, object]:
    """Every figure."""
    table, ends = full(count)
    view = View(table.freeze(), QUEUES, tuple(gangs), expected_ends=tuple(ends))
    policy, memory = Policy(planning=Planning()), Memory()
    cycle(view, Policy(), memory)
    figures: dict[str, object] = {"without": cycle(view, Policy(), Memory())[1]}
    found, figures["first"] = cycle(view, policy, memory)
    view = replace(view, reservations=found.planned)
    found, figures["settling"] = cycle(view, policy, memory)
    view = replace(view, reservations=found.planned)
    found, figures["nothing_happened"] = cycle(view, policy, memory)
    table.discharge(7, CLASSES[8], CardGrant.packed({GPU: 255}))
    view = replace(view, nodes=table.freeze(), reservations=found.planned, expected_ends=tuple(ends[:7] + ends[8:]))
    found, figures["a_job_ended_early"] = cycle(view, policy, memory)
    return figures


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--gangs", type=int, default=1_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    figures = measure(options.nodes, waiting(options.gangs))
    report("planning", options.record, nodes=options.nodes, gangs=options.gangs, figures=figures)


if __name__ == "__main__":
    main()
