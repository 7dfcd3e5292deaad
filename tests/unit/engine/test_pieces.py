"""What is done between two stops does not grow with the cluster: victims first looked for, a new class, sorting.

Lines of Python are counted, and what the meter counts beside them: numpy's work is one line, whatever its size.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine import explain
from t9ksched.engine.actions.allocate import Allocate
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.memory import Memory
from t9ksched.engine.order import gang_key
from t9ksched.engine.planner import Planner, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.sorting import sorted_in_slices
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.engine.view import View
from t9ksched.engine.work import Meter, Work
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang, Running
from t9ksched.model.reasons import Code
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.builders import GPU, gang, member, node, pod_class, queue, running, table, view
from tests.counting import Looked, pieces

PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "high": queue(priority=1)}
ONE, EIGHT = pod_class(gpu=1), pod_class(gpu=8)
HOST = "kubernetes.io/hostname"
LINES = 45_000
"""About five milliseconds."""
UNITS = 1_500_000
"""Of a piece that is one call of numpy: some milliseconds."""


def full(nodes: int) -> View:
    """Nodes of 8 cards, in racks of 16, full of one-card pods of a lower queue."""
    live = table(node(f"n{at:04}", gpu=8, labels={"rack": f"r{at // 16}"}) for at in range(nodes))
    groups: list[Running] = []
    for at in range(nodes):
        for card in range(8):
            name = f"g{card}-{at:04}"
            groups.append(running(name, "low", [f"n{at:04}"], of=ONE, cards=[1 << card], created=at))
            live.charge(live.row(f"n{at:04}"), ONE, CardGrant.packed({GPU: 1 << card}))
    found = view(live, [], QUEUES, running=groups)
    return replace(found, running=Looked(found.running))


@pytest.fixture(scope="module")
def large() -> View:
    return full(3000)


def together(pods: int, gpu: int, level: str) -> Gang:
    return structs.replace(gang("p", "high", pods, gpu=gpu), topology="Required", levels=(level,))


GANGS = {
    "anywhere": gang("p", "high", 4, gpu=8),
    "one rack": together(4, 8, "rack"),
    "one host": together(4, 2, HOST),
}


def longest(planner: Planner) -> tuple[int, int]:
    """Plan; the most lines, and the most units that the meter counts, between two stops."""
    spent = [0]

    def counted() -> Work[None]:
        for _ in planner._work:
            spent.append(planner.meter.spent)
            yield

    found, _ = pieces(counted())
    return max(found), max(after - before for before, after in pairwise(spent))


@pytest.mark.parametrize("wants", GANGS.values(), ids=GANGS)
def test_no_piece_of_the_first_search_for_victims_is_long(large: View, wants: Gang) -> None:
    planner = Planner(asking(large, wants), PREEMPT, 0, Memory())
    lines, units = longest(planner)
    assert planner.result().evictions
    assert lines <= LINES
    assert units <= UNITS


@pytest.mark.parametrize(("cpu", "told"), [(2, ()), (60, (Code.NEVER_FITS,))], ids=["has room", "never fits"])
def test_whether_many_kinds_of_pods_can_ever_fit_is_asked_by_pieces(cpu: int, told: tuple[Code, ...]) -> None:
    kinds = [member(f"m{at}", pod_class(cpu=f"{1000 * cpu + at}m")) for at in range(400)]
    nodes = [node(f"n{at:03}", cpu="100") for at in range(150)]
    planner = Planner(view(nodes, [gang("p", "high", members=kinds)], QUEUES), Policy(), 0, Memory())
    lines, units = longest(planner)
    assert tuple(reason.code for gang in planner.result().waiting for reason in gang.reasons) == told
    assert lines <= LINES
    assert units <= UNITS / 10


def test_running_groups_are_taken_in_by_pieces(large: View) -> None:
    found, made = pieces(VictimTable.of(large.running, large.nodes.static, Meter()))
    assert [one.uid for one in made.groups] == sorted(one.uid for one in large.running)
    assert max(found) <= LINES
    assert sum(found) >= len(large.running), "all that is done is counted"


def test_a_class_that_is_new_asks_nodes_by_pieces(large: View) -> None:
    planner = Planner(asking(large, gang("p", "low", 1, gpu=1, cpu=7)), Policy(), 0, Memory())
    found, _ = pieces(planner._work)
    assert max(found) <= LINES


def test_gangs_are_sorted_by_pieces() -> None:
    gangs = [gang(f"g{at * 7919 % 20_000:05}", "low", 1, of=ONE, created=at % 17) for at in range(20_000)]
    found, ordered = pieces(sorted_in_slices(Looked(gangs), gang_key, Meter()))
    assert ordered == sorted(gangs, key=gang_key)
    assert max(found) <= LINES
    assert sum(found) >= len(gangs)


def asking(given: View, wants: Gang) -> View:
    return replace(given, gangs=(wants,))


def test_reasons_that_come_again_are_not_composed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card comes free and is taken, over and over: what thousands are told of it goes to and fro."""
    live = table(node(f"n{at}", gpu=8) for at in range(3))
    seven = pod_class(gpu=7)
    for at in range(3):
        live.charge(at, ONE, CardGrant.packed({GPU: 1}))
        live.charge(at, seven, CardGrant.packed({GPU: 254}))
    gangs = [gang(f"g{at}", "low", 1, of=pod_class(gpu=8, cpu=f"{at + 1}m"), created=at) for at in range(50)]
    memory, composed = Memory(), 0
    short_of = explain.short_of

    def count(*given: Any) -> Any:
        nonlocal composed
        composed += 1
        return short_of(*given)

    monkeypatch.setattr(explain, "short_of", count)
    told = []
    for nth in range(6):
        (live.discharge if nth % 2 else live.charge)(1, *((ONE, CardGrant.packed({GPU: 1})) if nth else (pod_class(),)))
        before = composed
        found = plan(view(live, gangs, QUEUES), Policy(), 0, memory)
        told.append(composed - before)
        assert found.to_bytes() == plan(view(live, gangs, QUEUES), Policy(), 0).to_bytes()
        assert len(found.waiting) == 50
    assert told == [50, 50, 0, 0, 0, 0]


def test_promises_are_charged_together_and_refusals_are_counted_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gangs that wait for their victims; how often queues are charged as a cycle begins, and how many turns a step
    of the loop has at most.
    """
    charged: list[str] = []
    charge, place, turns = Ledger.charge, Allocate._place, list[int]()

    def count(self: Ledger, name: str, demand: Any) -> None:
        charged.append(name)
        charge(self, name, demand)

    def turn(self: Allocate, *given: Any) -> Any:
        turns[-1] += 1
        return place(self, *given)

    monkeypatch.setattr(Ledger, "charge", count)
    monkeypatch.setattr(Allocate, "_place", turn)
    live = table(node(f"n{at}", gpu=8) for at in range(40))
    gangs, promised, low = [], [], []
    for at in range(40):
        live.charge(live.row(f"n{at}"), EIGHT, CardGrant.packed({GPU: 255}))
        low.append(running(f"low{at}", "low", [f"n{at}"], of=EIGHT, leaving=[0], cards=[255]))
        unlike = pod_class(cpu=f"{at + 1}m", gpu=8)
        gangs.append(gang(f"g{at}", "high", of=unlike, created=at, accepted=True))
        promised.append(Reservation(f"g{at}", f"n{at}", unlike, ReservationKind.VICTIMS, until=1 << 60))
    planner = Planner(view(live, gangs, QUEUES, promised, low), PREEMPT, 0, Memory())
    while not planner._begun:
        next(planner._work)
    assert sorted(charged) == ["high", "high", "low"], "what each uses, and what was promised to its gangs"
    assert planner._cycle.ledger.used("high")[GPU] == 8 * 40
    done = False
    while not done:
        turns.append(0)
        done = planner.step(100_000)
    assert sum(turns) == len(planner.result().waiting) == 40
    assert max(turns) <= 4
