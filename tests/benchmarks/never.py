"""What can never fit: how soon one such gang is told so, and in which words: prints JSON.

    python tests/benchmarks/never.py [--nodes 1000,5000] [--record]

Nodes of 8 cards in 3 zones, half of them full of work that could be evicted. A gang comes that asks for what the
cluster would not have if it were empty: two roles too many together, more pods than hosts that must be apart by host,
four apart over three zones, more pods than there is room for, more than one rack or node holds, and more than could be
spread evenly over the zones or be near each other in one. The plan of a cycle that knows the nodes and judges
that gang alone, which is of classes never seen before; best of a few. `idle` is a cycle without any gang. `cpu_ms` is
told with the cluster left out of garbage collections, as the service leaves out what it read at the start;
`after_collection_ms` is of a plan made right after a collection walked all of it, which leaves the processor's caches
empty.
"""

import argparse
import gc
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang
from t9ksched.model.podrules import parse_rules
from tests.benchmarks.engine import cluster
from tests.benchmarks.timing import Spent, best, report
from tests.builders import GPU, gang, member, pod_class, queue, running, view

try:
    from t9ksched.engine.members import with_kinds
except ImportError:  # older commits, with which this is compared
    with_kinds = tuple  # type: ignore[assignment]

POLICY = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "high": queue(priority=1)}
WHOLE = pod_class(cpu=8, gpu=8)


def ruled(rule: str, key: str, pods: int, cpu: int, **more: Any) -> Gang:
    """Pods with a rule about each other: no two of them in one domain, all of them in one, or spread evenly."""
    own = {"app": "ruled"}
    term = {"labelSelector": {"matchLabels": own}, "topologyKey": key, **more}
    affinity = None if rule == "spread" else {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    rules = parse_rules(affinity, [term] if rule == "spread" else None, "test", own)
    of = replace(pod_class(cpu=cpu, gpu=8 if rule != "podAntiAffinity" else 0), rules=rules)
    labels = tuple(own.items())
    members = [structs.replace(member(f"ruled-{at}", of), labels=labels) for at in range(pods)]
    return gang("ruled", "high", members=members)


def in_one(key: str, wanted: Gang) -> Gang:
    """The gang, within one domain of a label."""
    return structs.replace(wanted, topology="Required", levels=(key,))


def forms(nodes: int, cpu: int) -> dict[str, Gang]:
    """Gangs that a cluster of so many nodes has no room for, by what is wrong with them; `cpu` tells classes apart."""
    whole, less = pod_class(cpu=cpu, gpu=8), pod_class(cpu=cpu, gpu=5)
    roles = [member(f"a{at}", whole, "chief") for at in range(nodes // 2)]
    roles += [member(f"b{at}", less, "worker") for at in range(nodes // 2 + 1)]
    return {
        "two_roles_together": gang("roles", "high", members=roles),
        "more_pods_than_hosts_apart": ruled("podAntiAffinity", "kubernetes.io/hostname", nodes + 1, cpu),
        "four_apart_over_three_zones": ruled("podAntiAffinity", "zone", 4, cpu),
        "more_than_the_cluster": gang("more", "high", nodes + 1, of=whole),
        "more_than_one_rack": in_one("rack", gang("rack", "high", nodes // 16 + 2, of=whole)),
        "more_than_one_node": in_one("kubernetes.io/hostname", gang("node", "high", 2, of=whole)),
        "two_roles_in_one_node": in_one(
            "kubernetes.io/hostname",
            gang("two", "high", members=[member("a", whole, "chief"), member("b", less, "worker")]),
        ),
        "spread_over_four_zones_of_three": ruled("spread", "zone", 4, cpu, maxSkew=1, minDomains=4),
        "near_each_other_in_one_zone": ruled("podAffinity", "zone", nodes // 3 + 2, cpu),
    }


def views(nodes: int, rounds: int) -> dict[str, list[View]]:
    """For each form a view for each round."""
    table = cluster(nodes)
    groups = []
    for at in range(0, nodes, 2):
        group = running(f"r{at:05}", "low", [f"node-{at:05}"], of=WHOLE, cards=[255])
        groups.append(group)
        table.charge(table.row(group.pods[0].node), WHOLE, CardGrant.packed({GPU: 255}))
    idle = view(table, [], QUEUES, running=groups)
    found: dict[str, list[View]] = {"idle": [idle] * rounds}
    for nth in range(rounds):
        for name, one in forms(nodes, 1 + nth).items():
            known = structs.replace(one, waiting=with_kinds(one.waiting))  # as the service's state makes them
            found.setdefault(name, []).append(replace(idle, gangs=(known,)))
    return found


def measure(nodes: int, rounds: int = 9) -> dict[str, object]:
    """What each costs and is told."""
    given = views(nodes, rounds)
    cold = spent(given)
    gc.freeze()
    figures: dict[str, object] = {}
    for name, one in spent(given).items():
        figures[name] = one.ms(3) | {"after_collection_ms": cold[name].ms(3)["cpu_ms"]}
        for told in plan(given[name][0], POLICY, 0).waiting:
            (reason,) = told.reasons
            figures[name] |= {"code": reason.code, "message": reason.message}  # type: ignore[operator]
    gc.unfreeze()
    return figures


def spent(given: dict[str, list[View]]) -> dict[str, Spent]:
    """Of each form, the round that took the least CPU."""
    found = {}
    for name, rounds in given.items():
        memory = Memory()
        plan(replace(rounds[0], gangs=()), POLICY, 0, memory)
        found[name] = min((best(partial(plan, one, POLICY, 0, memory), 1) for one in rounds), key=lambda one: one.cpu)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What can never fit: how soon one such gang is told so.")
    parser.add_argument("--nodes", default="1000,5000")
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    figures = {str(nodes): measure(nodes) for nodes in map(int, options.nodes.split(","))}
    report("never", options.record, figures=figures)


if __name__ == "__main__":
    main()
