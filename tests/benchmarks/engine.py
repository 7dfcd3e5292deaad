"""How fast the engine decides, alone, on one core: prints JSON.

    python tests/benchmarks/engine.py [--nodes 5000] [--record]

The mix is stated in the output. Building views is not timed; making the trial, ordering, quota, placement, card
indices, reasons and the plan's values are. Each figure is the best of a few runs. `--record` appends the result to
`tests/benchmarks/record.jsonl`.
"""

import argparse
import gc
import json
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from t9ksched.engine.masks import Memo
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.plan import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.podrules import parse_rules
from tests.builders import gang, node, pod_class, queue, view

MIX = (
    "gangs of 1 to 31 alike pods (mean 16) over 8 queues with quotas and 4 priorities; 8 classes: 60 % of pods ask for "
    "1 card, 20 % for 2, 10 % for 4, 10 % for 8; nodes of 8 cards, 96 cpu, 1Ti; the cluster starts empty and is filled "
    "to 85 % of its cards"
)
CLASSES = [
    *[(pod_class(cpu=4 + extra, memory="32Gi", gpu=1), 30) for extra in (0, 2)],
    *[(pod_class(cpu=8 + extra, memory="64Gi", gpu=2), 10) for extra in (0, 4)],
    *[(pod_class(cpu=16 + extra, memory="128Gi", gpu=4), 5) for extra in (0, 8)],
    *[(pod_class(cpu=48 + extra, memory="512Gi", gpu=8), 5) for extra in (0, 16)],
]
QUEUES = {f"q{at}": queue(priority=at % 4, quota={"nvidia.com/gpu": 10**6, "cpu": 10**7}) for at in range(8)}


def cluster(count: int) -> NodeTable:
    """Nodes of 8 cards, in 16 racks, two models."""
    table = NodeTable()
    for at in range(count):
        labels = {"rack": f"r{at % 16}", "nvidia.com/gpu.product": "A100" if at % 2 else "H100", "zone": f"z{at % 3}"}
        table.upsert(node(f"node-{at:05}", gpu=8, labels=labels))
    return table


def filling(cards: int, seed: int, sizes: tuple[int, int]) -> list[Gang]:
    """Gangs of the mix that need so many cards together."""
    rng = random.Random(seed)
    gangs: list[Gang] = []
    while cards > 0:
        shape = rng.choices([c for c, _ in CLASSES], [weight for _, weight in CLASSES])[0]
        pods = rng.randint(*sizes)
        gangs.append(gang(f"g{len(gangs)}", queue=f"q{rng.randrange(8)}", pods=pods, of=shape, created=len(gangs)))
        cards -= pods * shape.card_counts["nvidia.com/gpu"]
    return gangs


def spread(key: str) -> Gang:
    """1,000 pods that must be spread evenly over the values of a node label."""
    own = {"app": "even"}
    rule = {"maxSkew": 1, "topologyKey": key, "labelSelector": {"matchLabels": own}}
    of = replace(CLASSES[0][0], rules=parse_rules(None, [rule], "test", own))
    wanted = gang("even", queue="q0", pods=1000, of=of)
    return replace(wanted, waiting=tuple(replace(one, labels=tuple(own.items())) for one in wanted.waiting))


def best(run: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        gc.collect()
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times)


def decide(given: View, memo: Memo, rounds: int = 5) -> tuple[Plan, float]:
    """The plan and its best time, with a memo that has seen the nodes, as the service has."""
    found = plan(given, Policy(), 0, memo)
    return found, best(lambda: plan(given, Policy(), 0, memo), rounds)


def measure(count: int) -> dict[str, object]:
    """Every figure."""
    table, memo = cluster(count), Memo()
    figures: dict[str, object] = {}

    mixed, seconds = decide(view(table, filling(int(count * 8 * 0.85), 1, (1, 31)), QUEUES), memo)
    figures["mix"] = {
        "gangs": mixed.stats.judged,
        "placed": mixed.stats.placed,
        "pods": mixed.stats.pods,
        "ms": round(seconds * 1e3, 2),
        "gangs_per_s": round(mixed.stats.judged / seconds),
        "pods_per_s": round(mixed.stats.pods / seconds),
    }
    singles = [gang(f"s{at}", queue=f"q{at % 8}", of=CLASSES[at % 2][0], created=at) for at in range(count * 6)]
    small, seconds = decide(view(table, singles, QUEUES), memo, 3)
    figures["gangs_of_one_card"] = {
        "gangs": small.stats.placed,
        "ms": round(seconds * 1e3, 2),
        "gangs_per_s": round(small.stats.placed / seconds),
    }
    triples = [gang(f"t{at}", queue=f"q{at % 8}", pods=3, of=CLASSES[2 + at % 2][0], created=at) for at in range(3000)]
    three, seconds = decide(view(table, triples, QUEUES), memo, 3)
    figures["3000_gangs_of_3"] = {
        "placed": three.stats.placed,
        "ms": round(seconds * 1e3, 2),
        "gangs_per_s": round(three.stats.placed / seconds),
    }
    unlike = [
        gang(f"u{at}", queue=f"q{at % 8}", pods=16, of=pod_class(cpu=f"{2000 + at}m", memory="8Gi", gpu=1), created=at)
        for at in range(1000)
    ]
    each, seconds = decide(view(table, unlike, QUEUES), memo, 3)
    figures["1000_gangs_of_16_all_unlike"] = {
        "placed": each.stats.placed,
        "ms": round(seconds * 1e3, 2),
        "gangs_per_s": round(each.stats.placed / seconds),
    }
    for name, shape in (("8_cards", CLASSES[6][0]), ("1_card", CLASSES[0][0])):
        large, seconds = decide(view(table, [gang("large", queue="q0", pods=1000, of=shape)], QUEUES), memo)
        assert large.stats.pods == 1000
        figures[f"gang_of_1000_pods_{name}_ms"] = round(seconds * 1e3, 2)
    for name, key in (("racks", "rack"), ("hosts", "kubernetes.io/hostname")):
        even, seconds = decide(view(table, [spread(key)], QUEUES), memo, 3)
        assert even.stats.pods == 1000
        figures[f"gang_of_1000_pods_hard_spread_over_{name}_ms"] = round(seconds * 1e3, 2)
    never, seconds = decide(view(table, [gang("never", queue="q0", pods=4, gpu=9)], QUEUES), memo)
    assert never.waiting[0].reasons[0].code == "NeverFits"
    figures["never_fits_ms"] = round(seconds * 1e3, 3)
    nine = pod_class(gpu=9)
    waiting = [gang(f"w{at}", queue="q0", of=nine, created=at) for at in range(100_000)]
    alike, seconds = decide(view(table, waiting, QUEUES), memo, 2)
    assert alike.stats.tried == 1
    figures["100000_alike_waiting_ms"] = round(seconds * 1e3, 1)
    full = [gang(f"f{at}", queue="q3", pods=8, of=CLASSES[6][0], created=at) for at in range(count // 8)]
    late = [gang(f"l{at}", queue="q0", pods=2, of=pod_class(cpu=f"{1000 + at}m", gpu=1)) for at in range(1000)]
    _, before = decide(view(table, full, QUEUES), memo, 3)
    none, seconds = decide(view(table, full + late, QUEUES), memo, 3)
    assert len(none.waiting) == len(late)
    figures["1000_unlike_waiting_in_a_full_cluster_ms"] = round((seconds - before) * 1e3, 1)
    table.freeze()
    figures["freeze_ms"] = round(best(table.freeze, 50) * 1e3, 3)
    figures["cold_masks_ms"] = round(
        best(lambda: plan(view(table, [gang("c", queue="q0", selector={"rack": "r1"}, gpu=1)], QUEUES), Policy(), 0), 3)
        * 1e3,
        2,
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast the engine decides, alone.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    result = {
        "benchmark": "engine",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "nodes": options.nodes,
        "cards_per_node": 8,
        "mix": MIX,
        "figures": measure(options.nodes),
    }
    print(json.dumps(result, indent=2))
    if options.record:
        with (Path(__file__).parent / "record.jsonl").open("a") as record:
            record.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
