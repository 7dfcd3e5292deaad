"""How fast the engine decides, alone, on one core: prints JSON.

    python tests/benchmarks/engine.py [--nodes 5000] [--ordering Backfill] [--waited MINUTES] [--record]

The mix is stated in the output. Building views is not timed; making the trial, ordering, quota, placement, card
indices, reasons and the plan's values are. Each figure is the run of a few that took the least CPU. `--record` appends
the result to `tests/benchmarks/record.jsonl`.
"""

import argparse
import random
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Plan, Planner, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang
from t9ksched.model.podrules import parse_rules
from t9ksched.model.queue import ORDERINGS, Ordering
from t9ksched.scheduler.state.state import ClusterState
from tests.benchmarks.memory import NOW
from tests.benchmarks.memory import singles as waiting_singles
from tests.benchmarks.timing import Spent, best, report
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
GPU = "nvidia.com/gpu"
NINE = pod_class(gpu=9)


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
        cards -= pods * shape.card_counts[GPU]
    return gangs


def spread(key: str) -> Gang:
    """1,000 pods that must be spread evenly over the values of a node label."""
    own = {"app": "even"}
    rule = {"maxSkew": 1, "topologyKey": key, "labelSelector": {"matchLabels": own}}
    of = replace(CLASSES[0][0], rules=parse_rules(None, [rule], "test", own))
    wanted = gang("even", queue="q0", pods=1000, of=of)
    return structs.replace(
        wanted, waiting=tuple(structs.replace(one, labels=tuple(own.items())) for one in wanted.waiting)
    )


def apart(key: str) -> Gang:
    """1,000 pods no two of which may share a domain."""
    own = {"app": "apart"}
    term = {"labelSelector": {"matchLabels": own}, "topologyKey": key}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    of = replace(CLASSES[0][0], rules=parse_rules(required, None, "test", own))
    wanted = gang("apart", queue="q0", pods=1000, of=of)
    return structs.replace(
        wanted, waiting=tuple(structs.replace(one, labels=tuple(own.items())) for one in wanted.waiting)
    )


def decide(given: View, memory: Memory, now: int, rounds: int = 5) -> tuple[Plan, Spent]:
    """The plan and its best time, with a memory that has seen the nodes, as the service has."""
    found = plan(given, Policy(), now, memory)
    return found, best(lambda: plan(given, Policy(), now, memory), rounds)


def measure(count: int, ordering: Ordering, now: int) -> dict[str, object]:
    """Every figure, with queues of that ordering; all gangs have waited until `now`, in nanoseconds."""
    table, memory = cluster(count), Memory()
    figures: dict[str, object] = {}
    quota = {GPU: 10**6, "cpu": 10**7}
    queues = {f"q{at}": queue(priority=at % 4, quota=quota, ordering=ordering) for at in range(8)}

    def several(name: str, gangs: list[Gang], rounds: int = 3) -> Plan:
        found, spent = decide(view(table, gangs, queues), memory, now, rounds)
        figures[name] = spent.rates(gangs=found.stats.placed, pods=found.stats.pods)
        return found

    several("mix", filling(int(count * 8 * 0.85), 1, (1, 31)), 5)
    singles = [gang(f"s{at}", queue=f"q{at % 8}", of=CLASSES[at % 2][0], created=at) for at in range(count * 6)]
    several("gangs_of_one_card", singles)
    triples = [gang(f"t{at}", queue=f"q{at % 8}", pods=3, of=CLASSES[2 + at % 2][0], created=at) for at in range(3000)]
    several("3000_gangs_of_3", triples)
    unlike = [
        gang(f"u{at}", queue=f"q{at % 8}", pods=16, of=pod_class(cpu=f"{2000 + at}m", memory="8Gi", gpu=1), created=at)
        for at in range(1000)
    ]
    several("1000_gangs_of_16_all_unlike", unlike)
    large = {
        "8_cards": gang("large", queue="q0", pods=1000, of=CLASSES[6][0]),
        "1_card": gang("large", queue="q0", pods=1000, of=CLASSES[0][0]),
        "hard_spread_over_racks": spread("rack"),
        "hard_spread_over_hosts": spread("kubernetes.io/hostname"),
        "apart_by_host": apart("kubernetes.io/hostname"),
    }
    for name, wanted in large.items():
        found, spent = decide(view(table, [wanted], queues), memory, now, 3)
        assert found.stats.pods == 1000, name
        figures[f"gang_of_1000_pods_{name}"] = spent.ms()
    never, spent = decide(view(table, [gang("never", queue="q0", pods=4, gpu=9)], queues), memory, now)
    assert never.waiting[0].reasons[0].code == "NeverFits"
    figures["never_fits"] = spent.ms(3)
    waiting = [gang(f"w{at}", queue="q0", of=NINE, created=at) for at in range(100_000)]
    alike, spent = decide(view(table, waiting, queues), memory, now, 2)
    assert alike.stats.tried == 1
    figures["100000_alike_waiting"] = spent.ms()
    figures["1000_unlike_waiting_in_a_full_cluster"] = crowded(table, queues, now)
    figures["5000_single_pods_on_1000_nodes_with_their_view"] = singles_of_a_state(1000, 5000, ordering)
    table.freeze()
    figures["freeze"] = best(table.freeze, 50).ms(3)
    cold = view(table, [gang("c", queue="q0", selector={"rack": "r1"}, gpu=1)], queues)
    figures["cold_masks"] = best(lambda: plan(cold, Policy(), now), 3).ms()
    return figures


def crowded(table: NodeTable, queues: dict[str, QueueState], now: int) -> dict[str, object]:
    """What 1,000 unlike gangs that find no room cost: the first time, and in a cycle in which nothing changed."""
    count = len(table)
    for row in range(count):
        table.charge(row, CLASSES[6][0], CardGrant.packed({GPU: 255}))
    late = [gang(f"l{at}", queue="q0", pods=2, of=pod_class(cpu=f"{1000 + at}m", gpu=1)) for at in range(1000)]
    given = view(table, late, queues)
    memory = Memory()
    plan(view(table, late[:1], queues), Policy(), now, memory)

    def fresh() -> None:
        memory.failures.forget()
        assert len(plan(given, Policy(), now, memory).waiting) == len(late)

    first = best(fresh, 3)
    before = memory.failures.tried
    again = best(lambda: plan(given, Policy(), now, memory), 3)
    assert now or memory.failures.tried == before, "nothing is tried twice"
    for row in range(count):
        table.discharge(row, CLASSES[6][0], CardGrant.packed({GPU: 255}))
    return {"first": first.ms(), "again": again.ms()}


def singles_of_a_state(nodes: int, pods: int, ordering: Ordering) -> dict[str, object]:
    """What single pods that have just come cost, as the loop does it: the view of the state, then a plan in slices."""
    memory = Memory()

    def whole(given: ClusterState) -> None:
        planner = Planner(given.view(NOW), Policy(), NOW, memory)
        while not planner.step(4):
            pass
        assert planner.result().stats.placed == pods

    found = []
    for _ in range(4):
        found.append(best(partial(whole, waiting_singles(nodes, pods, ordering=ordering)), 1))
    spent = min(found, key=lambda one: one.cpu)
    return spent.rates(gangs=pods) | {"cpu_us_a_gang": round(spent.cpu / pods * 1e6, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast the engine decides, alone.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    parser.add_argument("--ordering", choices=ORDERINGS, default="BestEffort", help="of the queues")
    parser.add_argument("--waited", type=int, default=0, metavar="MINUTES", help="how long every gang has waited")
    options = parser.parse_args()
    figures = measure(options.nodes, options.ordering, options.waited * 60_000_000_000)
    given = {"nodes": options.nodes, "ordering": options.ordering, "waited_minutes": options.waited}
    report("engine", options.record, **given, cards_per_node=8, mix=MIX, figures=figures)


if __name__ == "__main__":
    main()
