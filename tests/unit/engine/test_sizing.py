"""The sizing advice for queues, case by case: how much each of two teams gets of the nodes they share.

Two queues ask for more than there is; what each ends up with follows from quotas, priorities and dominant shares alone.
"""

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from tests.builders import GPU, gang, node, queue, view

NODES = [node(f"n{at:02}", gpu=8) for at in range(25)]
"""A group of 200 cards."""


def shared(quota: dict[str, int], asked: dict[str, int], priority: dict[str, int] | None = None) -> dict[str, int]:
    """Cards each queue gets when one-card jobs wait in both; a queue without an entry in `quota` has none."""
    queues = {
        name: queue(quota={GPU: quota[name]} if name in quota else {}, priority=(priority or {}).get(name, 0))
        for name in asked
    }
    gangs = [gang(f"{name}{at:03}", name, gpu=1, created=at) for name, jobs in asked.items() for at in range(jobs)]
    found = plan(view(NODES, gangs, queues), Policy(), 0)
    return {name: sum(one.gang.startswith(name) for one in found.assignments) for name in asked}


@pytest.mark.parametrize(
    ("quota", "asked", "gets"),
    [
        ({"a": 200, "b": 200}, {"a": 300, "b": 0}, {"a": 200, "b": 0}),
        ({"a": 200, "b": 200}, {"a": 300, "b": 300}, {"a": 100, "b": 100}),
        ({"a": 100, "b": 100}, {"a": 300, "b": 0}, {"a": 100, "b": 0}),
        ({"a": 100, "b": 100}, {"a": 300, "b": 300}, {"a": 100, "b": 100}),
        ({"a": 150, "b": 150}, {"a": 300, "b": 0}, {"a": 150, "b": 0}),
        ({"a": 150, "b": 150}, {"a": 300, "b": 30}, {"a": 150, "b": 30}),
        ({"a": 150, "b": 150}, {"a": 300, "b": 300}, {"a": 100, "b": 100}),
        ({"a": 150, "b": 50}, {"a": 300, "b": 300}, {"a": 150, "b": 50}),
        ({"a": 300, "b": 100}, {"a": 300, "b": 300}, {"a": 150, "b": 50}),
        ({}, {"a": 300, "b": 300}, {"a": 100, "b": 100}),
    ],
    ids=[
        "full share, one asks: all 200",
        "full share, both ask: evenly",
        "strict split, one asks: half stays idle",
        "strict split, both ask",
        "compromise, one asks: 150",
        "compromise, the other asks for little",
        "compromise, both ask: evenly",
        "unequal quotas are unequal shares",
        "oversubscribed unequally: equal parts of the quotas",
        "without quotas: measured against the nodes",
    ],
)
def test_two_teams_share_two_hundred_cards(quota: dict[str, int], asked: dict[str, int], gets: dict[str, int]) -> None:
    assert shared(quota, asked) == gets


def test_the_higher_queue_is_served_to_its_quota_first() -> None:
    full = {"a": 300, "b": 300}
    assert shared({"a": 150, "b": 150}, full, {"b": 1}) == {"a": 50, "b": 150}
    assert shared({"b": 200}, full, {"b": 1}) == {"a": 0, "b": 200}


@pytest.mark.parametrize(
    ("quota", "asked", "gets"),
    [(16, 30, 16), (24, 30, 16), (8, 30, 8), (16, 10, 10)],
    ids=["the node total", "oversubscribed: never more than its nodes", "less than its nodes", "asks for less"],
)
def test_queues_with_nodes_of_their_own(quota: int, asked: int, gets: int) -> None:
    """Disjoint node groups: a queue's room is its quota or its nodes, whichever is less, whatever the other does."""
    nodes = [node(f"{team}{at}", gpu=8, labels={"team": team}) for team in "ab" for at in range(2)]
    queues = {team: queue(quota={GPU: quota}, selector={"team": team}) for team in "ab"}
    gangs = [
        gang(f"{team}-{at}", team, gpu=1, created=at) for team in "ab" for at in range(asked if team == "a" else 99)
    ]
    found = plan(view(nodes, gangs, queues), Policy(), 0)
    assert sum(one.gang.startswith("a-") for one in found.assignments) == gets
    assert {one.node[0] for one in found.assignments if one.gang.startswith("a-")} == {"a"}
