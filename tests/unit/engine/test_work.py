"""No gang, however awkward, holds a plan for long: work between two places to stop is bounded, in units."""

from collections.abc import Callable

import pytest
from msgspec import structs

from t9ksched.engine.plan import Planner, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from tests.builders import GPU, gang, member, node, pod_class, queue, running, table, view

PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "high": queue(priority=1)}
NODES = 200
A_STEP = 20_000
"""So many units a node of the cluster; what a step may cost at most, whatever a gang asks for."""


def full(wants: Gang) -> View:
    """Nodes full of one-card pods of a lower queue, in racks of ten."""
    live = table(node(f"n{at:03}", gpu=8, labels={"rack": f"r{at // 10}"}) for at in range(NODES))
    shape = running("shape", "low", ["n"], gpu=1).pods[0].pod_class
    groups = []
    for at in range(NODES):
        for card in range(8):
            groups.append(running(f"g{at:03}-{card}", "low", [f"n{at:03}"], of=shape, cards=[1 << card], created=at))
            live.charge(live.row(f"n{at:03}"), shape, {GPU: 1 << card})
    return view(live, [wants], QUEUES, running=groups)


def together(wants: Gang, level: str) -> Gang:
    return structs.replace(wants, topology="Required", levels=(level,))


def unlike(pods: int, gpu: int = 1) -> Gang:
    shapes = [pod_class(cpu=1 + at % 60, memory=1 + at, gpu=gpu) for at in range(pods)]
    return gang("p", "high", members=[member(f"m{at}", of) for at, of in enumerate(shapes)])


GANGS: dict[str, Callable[[], Gang]] = {
    "one node": lambda: together(gang("p", "high", 8, gpu=1), "kubernetes.io/hostname"),
    "no node is large enough": lambda: together(gang("p", "high", 9, gpu=1), "kubernetes.io/hostname"),
    "one rack": lambda: together(gang("p", "high", 10, gpu=8), "rack"),
    "unlike pods on one node": lambda: together(unlike(6), "kubernetes.io/hostname"),
    "unlike pods in one rack": lambda: together(unlike(40), "rack"),
    "hundreds of unlike pods": lambda: unlike(300),
    "half of the cluster": lambda: gang("p", "high", 100, gpu=8),
    "many members": lambda: gang("p", "high", 1600, gpu=1),
}


@pytest.mark.parametrize("wants", GANGS.values(), ids=GANGS)
def test_no_step_costs_more_than_its_bound(wants: Callable[[], Gang]) -> None:
    given = full(wants())
    planner = Planner(given, PREEMPT, 0)
    meter = planner.meter
    most, done = 0, False
    while not done:
        before = meter.spent
        done = planner.step(1)
        most = max(most, meter.spent - before)
    assert most <= A_STEP * NODES
    assert planner.result().to_bytes() == plan(given, PREEMPT, 0).to_bytes(), "slices decide nothing"


def test_a_gang_that_must_be_on_one_node_evicts_only_there() -> None:
    found = plan(full(together(gang("p", "high", 8, gpu=1), "kubernetes.io/hostname")), PREEMPT, 0)
    assert len({hold.node for hold in found.holds}) == 1
    assert len(found.evictions) == 8


def test_domains_that_could_never_have_room_are_not_searched() -> None:
    given = full(together(gang("p", "high", 9, gpu=1), "kubernetes.io/hostname"))
    planner = Planner(given, PREEMPT, 0)
    planner.step(1 << 60)
    assert planner.meter.spent < 200 * 8 * NODES


# --- unlike pods on nodes that they fill exactly


def exactly(pods: int) -> View:
    """Pairs of unlike pods, and for each pair a node that it fills; no two amounts of cpu are alike."""
    sizes = [(at * at * 37 + at * 101) % 9973 + 100 for at in range(pods)]
    nodes = [node(f"n{at:02}", cpu=f"{sizes[2 * at] + sizes[2 * at + 1]}m") for at in range(pods // 2)]
    members = [member(f"m{at}", pod_class(cpu=f"{size}m")) for at, size in enumerate(sizes)]
    return view(nodes, [gang("p", "high", members=members)], QUEUES)


def test_a_search_that_ended_at_its_bound_is_not_said_to_prove_anything() -> None:
    (waiting,) = plan(exactly(100), Policy(), 0).waiting
    assert "the search for a way to place all 100 together ended at its bound" in waiting.reasons[0].message


def test_where_it_is_certain_that_all_together_do_not_fit_the_reason_says_so() -> None:
    members = [member(f"m{at}", pod_class(cpu=f"{2001 + at}m")) for at in range(100)]
    nodes = [node(f"n{at:02}", cpu=4) for at in range(60)]
    (waiting,) = plan(view(nodes, [gang("p", "high", members=members)], QUEUES), Policy(), 0).waiting
    assert "each kind of its pods finds room alone, all 100 together do not" in waiting.reasons[0].message


def test_few_unlike_pods_that_fill_their_nodes_are_placed() -> None:
    found = plan(exactly(8), Policy(), 0)
    assert len(found.assignments) == 8
