"""Gangs that should be together, as a part of the engine's mix, and what they reach in a second of CPU: prints JSON.

    python tests/benchmarks/preferred.py [--nodes 1250,5000] [--record]

The mix is that of `engine.py`. So many percent of its gangs have `topologyPolicy: Preferred`, over the default level
(one node) or over racks, of which there are 16. `together` says how many of those gangs are in one domain.
"""

import argparse
import random
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan
from t9ksched.model.gang import Gang
from tests.benchmarks.engine import GPU, MIX, cluster, decide, filling
from tests.benchmarks.timing import report
from tests.builders import queue, view

LEVELS = {"host": "kubernetes.io/hostname", "rack": "rack"}


def some(gangs: list[Gang], percent: int, level: str) -> list[Gang]:
    """The gangs, so many percent of them with `Preferred`, chosen at random."""
    chosen = set(random.Random(percent).sample(range(len(gangs)), len(gangs) * percent // 100))
    return [
        structs.replace(one, topology="Preferred", levels=(level,)) if at in chosen else one
        for at, one in enumerate(gangs)
    ]


def together(gangs: list[Gang], found: Plan, domains: dict[str, str]) -> int:
    """How many of the gangs with `Preferred` were placed within one domain."""
    places = defaultdict(set)
    for one in found.assignments:
        places[one.gang].add(domains[one.node])
    return sum(len(places[one.uid]) == 1 for one in gangs if one.topology == "Preferred")


def measure(count: int) -> dict[str, object]:
    """Rates by level and percentage."""
    table, memory = cluster(count), Memory()
    queues = {f"q{at}": queue(priority=at % 4, quota={GPU: 10**6, "cpu": 10**7}) for at in range(8)}
    mix = filling(int(count * 8 * 0.85), 1, (1, 31))
    static = table.freeze().static
    figures: dict[str, object] = {}
    for percent in (0, 5, 20, 100):
        for name, level in LEVELS.items():
            gangs = some(mix, percent, level)
            domains = {facts.name: facts.labels[level] for facts in static.facts}
            found, spent = decide(view(table, gangs, queues), memory, 0, 6)
            figures[f"{percent}_percent_{name}"] = {
                **spent.rates(gangs=found.stats.placed, pods=found.stats.pods),
                "together": together(gangs, found, domains),
            }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Gangs that should be together, as a part of the engine's mix.")
    parser.add_argument("--nodes", default="1250,5000")
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    figures = {str(nodes): measure(nodes) for nodes in map(int, options.nodes.split(","))}
    report("preferred", options.record, mix=MIX, figures=figures)


if __name__ == "__main__":
    main()
