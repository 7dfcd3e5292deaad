"""No gang, however awkward, holds a plan for long: work between two places to stop is bounded, in units."""

import dataclasses
from collections.abc import Callable

import pytest
from msgspec import structs

from t9ksched.engine.planner import Planner, plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import ExpectedEnd, Gang
from tests.builders import GPU, gang, member, node, pod_class, queue, running, table, view

PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "high": queue(priority=1)}
NODES = 200
SECOND = 1_000_000_000
HOST = "kubernetes.io/hostname"


def full(wants: Gang, nodes: int = NODES) -> View:
    """Nodes full of one-card pods of a lower queue, in racks of ten."""
    live = table(node(f"n{at:03}", gpu=8, labels={"rack": f"r{at // 10}"}) for at in range(nodes))
    shape = running("shape", "low", ["n"], gpu=1).pods[0].pod_class
    groups = []
    for at in range(nodes):
        for card in range(8):
            groups.append(running(f"g{at:03}-{card}", "low", [f"n{at:03}"], of=shape, cards=[1 << card], created=at))
            live.charge(live.row(f"n{at:03}"), shape, CardGrant.packed({GPU: 1 << card}))
    return view(live, [wants], QUEUES, running=groups)


def together(wants: Gang, level: str) -> Gang:
    return structs.replace(wants, topology="Required", levels=(level,))


def unlike(pods: int, gpu: int = 1) -> Gang:
    shapes = [pod_class(cpu=1 + at % 60, memory=1 + at, gpu=gpu) for at in range(pods)]
    return gang("p", "high", members=[member(f"m{at}", of) for at, of in enumerate(shapes)])


GANGS: dict[str, tuple[Callable[[], Gang], int, int]] = {
    "one node": (lambda: together(gang("p", "high", 8, gpu=1), HOST), 80, 1_430),
    "no node is large enough": (lambda: together(gang("p", "high", 9, gpu=1), HOST), 80, 700),
    "one rack": (lambda: together(gang("p", "high", 10, gpu=8), "rack"), 310, 6_700),
    "unlike pods on one node": (lambda: together(unlike(6), HOST), 80, 6_600),
    "unlike pods in one rack": (lambda: together(unlike(40), "rack"), 160, 18_600),
    "hundreds of unlike pods": (lambda: unlike(300), 380, 41_300),
    "half of the cluster": (lambda: gang("p", "high", 100, gpu=8), 80, 830),
    "many members": (lambda: gang("p", "high", 1600, gpu=1), 80, 1_190),
}
"""The gang, and how many thousand units of work a step of its plan may cost on `NODES` nodes, and the plan in all.

The bounds are a quarter above what was seen when they were written down, so that costs that grow are noticed.
"""


@pytest.mark.parametrize(("wants", "a_step", "in_all"), GANGS.values(), ids=GANGS)
def test_neither_a_step_nor_the_plan_costs_more_than_its_bound(
    wants: Callable[[], Gang], a_step: int, in_all: int
) -> None:
    given = full(wants())
    planner = Planner(given, PREEMPT, 0)
    most, spent = steps(planner)
    assert most <= a_step * 1000
    assert spent <= in_all * 1000
    assert planner.result().to_bytes() == plan(given, PREEMPT, 0).to_bytes(), "slices decide nothing"


@pytest.mark.parametrize(("wants", "a_step", "in_all"), GANGS.values(), ids=GANGS)
def test_work_grows_no_faster_than_the_cluster(wants: Callable[[], Gang], a_step: int, in_all: int) -> None:
    most, spent = steps(Planner(full(wants(), 3 * NODES), PREEMPT, 0))
    assert most <= 3 * a_step * 1000
    assert spent <= 3 * in_all * 1000


def steps(planner: Planner) -> tuple[int, int]:
    """Units of the worst step, and of all."""
    meter = planner.meter
    most, done = 0, False
    while not done:
        before = meter.spent
        done = planner.step(1)
        most = max(most, meter.spent - before)
    return most, meter.spent


def test_thousands_of_ends_and_plans_are_taken_in_by_slices() -> None:
    live = table(node(f"n{at:04}", gpu=8) for at in range(4_000))
    whole = pod_class(cpu=32, memory="256Gi", gpu=8)
    ends = []
    for at in range(4_000):
        live.charge(live.row(f"n{at:04}"), whole, CardGrant.packed({GPU: 255}))
        ends.append(ExpectedEnd(f"r{at}", "low", (at + 1) * SECOND, ((f"n{at:04}", whole, 1),)))
    lasting = [structs.replace(gang(f"g{at}", "low", 40, of=whole, created=at), lasts=SECOND) for at in range(30)]
    policy = Policy(planning=Planning(gangs=30, per_queue=30))
    given = dataclasses.replace(view(live, lasting, QUEUES), expected_ends=tuple(ends))
    planner = Planner(given, policy, 0)
    most, _ = steps(planner)
    assert most <= 300_000
    planned = planner.result().planned
    assert len(planned) == 30 * 40
    # An end that is not as expected makes plans be looked at again.
    later = dataclasses.replace(given, reservations=planned, expected_ends=tuple(ends[:-1]))
    most, _ = steps(Planner(later, policy, 0))
    assert most <= 300_000


def test_a_gang_that_must_be_on_one_node_evicts_only_there() -> None:
    found = plan(full(together(gang("p", "high", 8, gpu=1), "kubernetes.io/hostname")), PREEMPT, 0)
    assert len({hold.node for hold in found.reservations}) == 1
    assert len(found.evictions) == 8


def test_domains_that_could_never_have_room_are_not_searched() -> None:
    given = full(together(gang("p", "high", 9, gpu=1), "kubernetes.io/hostname"))
    planner = Planner(given, PREEMPT, 0)
    planner.step(1 << 60)
    assert planner.meter.spent < 450 * 8 * NODES, "half of what a search costs"


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
    nodes = [node(f"n{at:03}", cpu=4) for at in range(110)]
    busy = [running(f"r{at}", "high", [f"n{at:03}"], cpu=1) for at in range(50)]
    busy += [running(f"s{at}", "high", [f"n{at:03}"], cpu=4) for at in range(50, 100)]
    (waiting,) = plan(view(nodes, [gang("p", "high", members=members)], QUEUES, running=busy), Policy(), 0).waiting
    assert "each kind of its pods finds room alone, all 100 together do not" in waiting.reasons[0].message


def test_few_unlike_pods_that_fill_their_nodes_are_placed() -> None:
    found = plan(exactly(8), Policy(), 0)
    assert len(found.assignments) == 8
