"""Gangs of unlike pods: against exhaustive search on 2,000 seeded small cases.

What the engine accepts is checked pod by pod; of what exhaustive search can place, at least 99 % must be found.
"""

import random
from collections import Counter
from functools import cache

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, gang, member, node, pod_class, view

CASES = 2_000
Room = tuple[tuple[int, int, str], ...]
"""Free cpu in millicores, free cards and zone, a node each."""


def case(seed: int) -> tuple[Room, list[PodClass]]:
    """Nodes with rests of room, and pods that about fill them."""
    rng = random.Random(seed)
    room = tuple(
        (1000 * rng.randint(1, 12), rng.choice([0, 1, 2, 4, 4, 8]), rng.choice("ab")) for _ in range(rng.randint(2, 6))
    )
    kinds = [
        pod_class(
            cpu=rng.randint(1, 7),
            memory=0,
            gpu=rng.choice([0, 0, 1, 2, 3, 4]),
            selector=rng.choice([{}, {}, {"zone": "a"}]),
        )
        for _ in range(rng.randint(2, 4))
    ]
    pods = [rng.choice(kinds) for _ in range(rng.randint(2, 8))]
    # Mostly tight: pods that a hidden placement proves to fit, and sometimes one more.
    left = [list(one[:2]) for one in room]
    hidden: list[PodClass] = []
    for of in [*pods, *rng.choices(kinds, k=8)]:
        asked, zone = dict(of.requests), dict(of.node_selector).get("zone")
        able = [
            at
            for at, (cpu, cards) in enumerate(left)
            if cpu >= asked["cpu"] and cards >= asked.get(GPU, 0) and zone in (None, room[at][2])
        ]
        if able and len(hidden) < 8:
            at = rng.choice(able)
            left[at][0] -= asked["cpu"]
            left[at][1] -= asked.get(GPU, 0)
            hidden.append(of)
    return room, pods if rng.random() < 0.3 or not hidden else hidden


def possible(room: Room, pods: list[PodClass]) -> bool:
    """Whether any placement exists: every node for every pod, states seen before left out."""
    asked = sorted(
        (
            (dict(of.requests)["cpu"], dict(of.requests).get(GPU, 0), dict(of.node_selector).get("zone", ""))
            for of in pods
        ),
        reverse=True,
    )

    @cache
    def place(at: int, left: Room) -> bool:
        if at == len(asked):
            return True
        cpu, cards, zone = asked[at]
        for nth, (free, idle, where) in enumerate(left):
            if free >= cpu and idle >= cards and zone in ("", where):
                rest = (*left[:nth], (free - cpu, idle - cards, where), *left[nth + 1 :])
                if place(at + 1, tuple(sorted(rest))):
                    return True
        return False

    return place(0, tuple(sorted(room)))


def test_unlike_members_are_placed_where_exhaustive_search_can() -> None:
    exists = found = 0
    for seed in range(CASES):
        room, pods = case(seed)
        nodes = [
            node(f"n{at}", cpu=f"{cpu}m", gpu=cards, labels={"zone": zone})
            for at, (cpu, cards, zone) in enumerate(room)
        ]
        wanted = gang("g", members=[member(f"p{at}", of) for at, of in enumerate(pods)], created=0)
        decided = plan(view(nodes, [wanted]), Policy(), 0)
        can = possible(room, pods)
        exists += can
        if not decided.assignments:
            continue
        assert can, f"case {seed}: accepted what cannot be"
        used: Counter[tuple[str, str]] = Counter()
        for one in decided.assignments:
            of = pods[int(one.pod[1:])]
            used.update({(one.node, name): amount for name, amount in of.requests})
            zone = dict(of.node_selector).get("zone")
            assert zone in (None, room[int(one.node[1:])][2])
        for at, (cpu, cards, _) in enumerate(room):
            assert used[f"n{at}", "cpu"] <= cpu
            assert used[f"n{at}", GPU] <= cards
        assert len(decided.assignments) == len(pods)
        found += 1
    assert exists > CASES // 2, "the cases are not worth asking"
    assert found >= 0.99 * exists, f"{found} of {exists}"
