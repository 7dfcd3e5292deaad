"""Victims with companions on other nodes, against a greedy search that finds its costs anew after each node."""

from typing import Any

import pytest

from t9ksched.engine.planner import Planner, plan
from t9ksched.engine.victims import one_by_one
from tests.benchmarks.victims import POLICY, Simple, cluster, ratio

PRIORITIES = {"priorities": (0, 1, 2)}
QUEUES = {"queues": ("low", "other")}


@pytest.mark.parametrize(
    ("nodes", "size", "part", "more"),
    [
        (100, 3, 1.0, {}),
        (100, 8, 1.0, {}),
        (100, 64, 1.0, {}),
        (40, 5, 0.75, {}),
        (60, 16, 1.0, {}),
        (60, 3, 1.0, PRIORITIES),
        (60, 8, 0.75, PRIORITIES),
        (60, 3, 1.0, QUEUES),
    ],
)
@pytest.mark.parametrize("most", [one_by_one._MOST, 1])
def test_no_more_victims_than_the_greedy_search(
    monkeypatch: pytest.MonkeyPatch, nodes: int, size: int, part: float, more: dict[str, Any], most: int
) -> None:
    monkeypatch.setattr(one_by_one, "_MOST", most)
    given = cluster(nodes, size, part, 7, **more)
    found, simple = plan(given, POLICY, 0), Simple(given)
    assert len(found.reservations) == simple.wanted
    ours, theirs = simple.by_priority({one.gang for one in found.evictions}), simple.by_costs_anew()
    assert (ratio(ours, theirs) or 0) <= (1.03 if most > 1 else 1.06)


@pytest.mark.parametrize("size", [3, 64])
def test_the_search_is_made_in_slices_and_finds_the_same(size: int) -> None:
    given = cluster(200, size, 1.0, 7)
    planner, before, most = Planner(given, POLICY, 0), 0, 0
    done = False
    while not done:
        done = planner.step(1)
        most, before = max(most, planner.meter.spent - before), planner.meter.spent
    assert planner.result() == plan(given, POLICY, 0)
    assert most < 200_000
