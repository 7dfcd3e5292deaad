"""How fast victims are chosen, and how many: prints JSON.

    python tests/benchmarks/victims.py [--nodes 100,200,500,1000] [--record]

N nodes of 8 cards are full of low-priority work; then one gang of N/2 pods of 8 cards comes in a higher queue. The low
work is one-card pods, gangs of 3, 8 or 64 one-card pods scattered at random, one-card pods that fill half the cards, or
gangs of 3 with three priorities, or of two queues. `victims` is compared with simple searches written here without the
engine: in order of age with pruning, cheapest nodes first, and a greedy one that finds its costs anew after each node
and prunes; where there are priorities, a pod of a larger one costs this more than all of smaller ones. `warm` plans
again on the same running groups, `cold` builds their columns too; best of a few.
"""

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Running
from tests.benchmarks.timing import best, report
from tests.builders import gang, node, queue, running, table, view

CARDS = 8
POLICY = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "other": queue(), "high": queue(priority=1)}


def cluster(
    nodes: int, size: int, part: float, seed: int, priorities: Sequence[int] = (0,), queues: Sequence[str] = ("low",)
) -> View:
    """Nodes filled to a part of their cards by gangs of `size` one-card pods, with these priorities and queues in
    turn.
    """
    rng = random.Random(seed)
    live = table(node(f"n{at:04}", gpu=CARDS) for at in range(nodes))
    slots = [(at, card) for at in range(nodes) for card in range(CARDS)]
    if size > 1 or part < 1:
        rng.shuffle(slots)
    slots = slots[: int(len(slots) * part) // size * size]
    shape = running("shape", "low", ["n"], gpu=1).pods[0].pod_class
    groups: list[Running] = []
    for start in range(0, len(slots), size):
        mine = slots[start : start + size]
        name, nth = f"g{start:06}", start // size
        group = running(
            name,
            queues[nth % len(queues)],
            [f"n{at:04}" for at, _ in mine],
            of=shape,
            cards=[1 << c for _, c in mine],
            created=start,
            priority=priorities[nth % len(priorities)],
        )
        groups.append(group)
        for pod in group.pods:
            live.charge(live.row(pod.node), shape, pod.cards)
    wanted = gang("urgent", "high", pods=nodes // 2, cpu=1, gpu=CARDS, created=0)
    return view(live, [wanted], QUEUES, running=groups)


class Simple:
    """Searches anyone would write first, on sets of pods by node."""

    def __init__(self, given: View) -> None:
        self.wanted = len(given.gangs[0].waiting)
        self.groups = {group.uid: [pod.node for pod in group.pods] for group in given.running}
        self.youngest_first = sorted(self.groups, reverse=True)
        self.on = defaultdict[str, set[str]](set)
        for uid, places in self.groups.items():
            for place in places:
                self.on[place].add(uid)
        self.names = list(given.nodes.names)
        whole = 1 + sum(map(len, self.groups.values()))
        self.priorities = {group.uid: group.priority for group in given.running}
        self.weight = {uid: len(pods) * whole ** self.priorities[uid] for uid, pods in self.groups.items()}

    def _count(self, victims: Iterable[str]) -> int:
        return sum(len(self.groups[uid]) for uid in victims)

    def _empty(self, victims: set[str]) -> list[str]:
        return [name for name in self.names if self.on[name] <= victims]

    def by_order(self) -> int:
        """The youngest go until it fits, then victims that are not needed are spared, the oldest first."""
        low, high = 0, len(self.youngest_first)
        while high - low > 1:
            middle = (low + high) // 2
            fits = len(self._empty(set(self.youngest_first[:middle]))) >= self.wanted
            low, high = (low, middle) if fits else (middle, high)
        victims = self.youngest_first[:high]
        going = set(victims)
        empty = set(self._empty(going))
        for uid in reversed(victims):
            losing = empty.intersection(self.groups[uid])
            if len(empty) - len(losing) >= self.wanted:
                going.discard(uid)
                empty -= losing
        return self._count(going)

    def by_nodes(self) -> int:
        """The nodes whose occupants are fewest, with all their companions, until it fits."""
        cost = {name: self._count(self.on[name]) for name in self.names}
        going: set[str] = set()
        for name in sorted(self.names, key=lambda name: (cost[name], name)):
            if len(self._empty(going)) >= self.wanted:
                break
            going |= self.on[name]
        return self._count(going)

    def by_costs_anew(self) -> list[int]:
        """The node whose occupants and companions that stay cost least, costs found anew after each; then victims that
        are not needed are spared, those first whose nodes are needed least. The pods that go, by priority.
        """
        going: set[str] = set()
        cost = {name: sum(self.weight[uid] for uid in self.on[name]) for name in self.names}
        while len(self._empty(going)) < self.wanted:
            cost = {name: left for name, left in cost.items() if left}
            name = min(cost, key=lambda name: (cost[name], name))
            for uid in self.on[name] - going:
                for place in set(self.groups[uid]) & cost.keys():
                    cost[place] -= self.weight[uid]
            going |= self.on[name]
        empty = set(self._empty(going))
        while True:
            losses = {uid: len(empty.intersection(self.groups[uid])) for uid in going}
            may = [uid for uid, lost in losses.items() if len(empty) - lost >= self.wanted]
            if not may:
                return self.by_priority(going)
            uid = min(may, key=lambda uid: (losses[uid], -self.weight[uid], uid))
            going.discard(uid)
            empty.difference_update(self.groups[uid])

    def by_priority(self, going: Iterable[str]) -> list[int]:
        """How many pods of these go, by priority, the largest first."""
        found = Counter[int]()
        for uid in going:
            found[self.priorities[uid]] += len(self.groups[uid])
        return [found[priority] for priority in sorted(set(self.priorities.values()), reverse=True)]


def measure(given: View, rounds: int = 7) -> dict[str, object]:
    """Times and counts of one case."""
    memory = Memory()
    found = plan(given, POLICY, 0, memory)
    warm = best(lambda: plan(given, POLICY, 0, memory), rounds)
    cold = best(lambda: plan(replace(given, running=(*given.running,)), POLICY, 0, memory), rounds)
    simple = Simple(given)
    by_order, by_nodes, anew = simple.by_order(), simple.by_nodes(), simple.by_costs_anew()
    fewest = min(by_order, by_nodes)
    assert len(found.reservations) == simple.wanted
    ours = simple.by_priority({one.gang for one in found.evictions})
    return {
        "victims": len(found.evictions),
        "by_priority": ours,
        "by_order": by_order,
        "by_nodes": by_nodes,
        "by_costs_anew": anew,
        "ratio": round(len(found.evictions) / fewest, 3) if fewest else None,
        "ratio_to_costs_anew": ratio(ours, anew),
        "warm": warm.ms(),
        "cold": cold.ms(),
    }


def ratio(ours: Sequence[int], theirs: Sequence[int]) -> float | None:
    """At the largest priority at which the numbers differ, ours by theirs; None where theirs is none."""
    mine, other = next(((one, two) for one, two in zip(ours, theirs, strict=True) if one != two), (1, 1))
    return round(mine / other, 3) if other else None


CASES: Mapping[str, Mapping[str, Any]] = {
    "one_card_pods": {"size": 1},
    "gangs_of_3": {"size": 3},
    "gangs_of_8": {"size": 8},
    "gangs_of_64": {"size": 64},
    "half_full": {"size": 1, "part": 0.5},
    "gangs_of_3_with_3_priorities": {"size": 3, "priorities": (0, 1, 2)},
    "gangs_of_3_of_2_queues": {"size": 3, "queues": ("low", "other")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast victims are chosen, and how many.")
    parser.add_argument("--nodes", default="100,200,500,1000")
    parser.add_argument("--record", action="store_true", help="append to tests/benchmarks/record.jsonl")
    options = parser.parse_args()
    figures = {
        str(nodes): {name: measure(cluster(nodes, seed=1, **{"part": 1.0, **of})) for name, of in CASES.items()}
        for nodes in map(int, options.nodes.split(","))
    }
    report("victims", options.record, figures=figures)


if __name__ == "__main__":
    main()
