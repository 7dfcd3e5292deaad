"""Victims card by card, as tables: what pods leave on several cards does not add up."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.victims import every_set
from t9ksched.engine.view import View
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang, Running
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.reservation import ReservationKind
from tests.builders import GPU, divided_node, gang, member, node, pod_class, queue, running, shared_class, view

NOW = 1_000_000_000_000
PREEMPT = Policy(actions=("allocate", "preempt"))
QUEUES = {
    "low": queue(),
    "mid": queue(priority=1),
    "safe": queue(preemptible=False),
    "top": queue(priority=9),
}
ONE_GPU = pod_class(gpu=1)


def holder(
    name: str,
    cards: Sequence[int],
    of: PodClass,
    at: NodeFacts,
    queue: str = "low",
    created: int = 5,
    **more: int,
) -> Running:
    """A gang of one pod that has these cards of a node, or its parts of them."""
    made = running(name, queue, [at.name], of=of, created=created, **more)  # type: ignore[arg-type]
    given = at.cards.divide(of.cards, CardGrant.of({GPU: cards}))
    return structs.replace(made, pods=(structs.replace(made.pods[0], cards=given),))


def decide(nodes: Sequence[NodeFacts], held: Sequence[Running], wants: Gang, policy: Policy = PREEMPT) -> Plan:
    return plan(view(nodes, [wants], QUEUES, running=held), policy, NOW)


def gone(found: Plan) -> list[str]:
    return sorted(one.gang for one in found.evictions)


A = divided_node("a", 2, memory=1000)
THREE = divided_node("a", 3, memory=1000)
SMALL = divided_node("a", 1, memory=1000, places=2)
TIGHT = divided_node("a", 2, memory=1000, cpu=4)
B = divided_node("b", 2, memory=1000)
WHOLE = node("w", gpu=2, labels={"nvidia.com/gpu.memory": "1000"})

Held = tuple[str, list[int], PodClass, NodeFacts, str, int]
CASES: dict[str, tuple[list[NodeFacts], list[Held], PodClass, int, list[str]]] = {
    "what is free on two cards does not add up": (
        [A],
        [
            ("safe0", [0], shared_class(500, 100), A, "safe", 1),
            ("x", [0], shared_class(300, 100), A, "low", 1),
            ("safe1", [1], shared_class(700, 100), A, "safe", 1),
        ],
        shared_class(600, 100),
        1,
        [],
    ),
    "fewest pods on one card, not on the node": (
        [A],
        [
            ("x", [0], shared_class(400, 100), A, "low", 9),
            ("y", [0], shared_class(400, 100), A, "low", 9),
            ("z", [1], shared_class(800, 100), A, "low", 1),
        ],
        shared_class(700, 100),
        1,
        ["z"],
    ),
    "two of a lower queue on one card before one of a higher": (
        [A],
        [
            ("x", [0], shared_class(400, 100), A, "low", 1),
            ("y", [0], shared_class(400, 100), A, "low", 1),
            ("z", [1], shared_class(800, 100), A, "mid", 9),
        ],
        shared_class(700, 100),
        1,
        ["x", "y"],
    ),
    "the younger of equals": (
        [A],
        [("x", [0], shared_class(800, 100), A, "low", 2), ("y", [1], shared_class(800, 100), A, "low", 3)],
        shared_class(700, 100),
        1,
        ["y"],
    ),
    "memory that is lacking is not made up by cores": (
        [A],
        [
            ("cores", [0], shared_class(900, 10), A, "low", 9),
            ("more", [0], shared_class(100, 700), A, "mid", 1),
            ("safe", [1], shared_class(100, 900), A, "safe", 1),
        ],
        shared_class(150, 800),
        1,
        ["cores", "more"],
    ),
    "a holder that leaves nothing that is lacking stays": (
        [A],
        [
            ("cores", [0], shared_class(500, 0, percent=1), A, "low", 9),
            ("more", [0], shared_class(100, 700), A, "low", 1),
            ("safe", [1], shared_class(100, 900), A, "safe", 1),
        ],
        shared_class(50, 800),
        1,
        ["more"],
    ),
    "no cores run only where some are left": (
        [SMALL],
        [("x", [0], shared_class(1000 - 1, 10), SMALL, "low", 1), ("y", [0], shared_class(1, 10), SMALL, "low", 9)],
        shared_class(0, 10),
        1,
        ["y"],
    ),
    "a place of a card": (
        [SMALL],
        [("x", [0], shared_class(10, 10), SMALL, "low", 1), ("y", [0], shared_class(10, 10), SMALL, "low", 2)],
        shared_class(10, 10),
        1,
        ["y"],
    ),
    "a whole card comes free when each of its holders has gone": (
        [A],
        [
            ("x", [0], shared_class(100, 10), A, "low", 9),
            ("y", [0], shared_class(100, 10), A, "low", 9),
            ("z", [0], shared_class(100, 10), A, "low", 9),
            ("u", [1], shared_class(100, 10), A, "low", 1),
            ("v", [1], shared_class(100, 10), A, "low", 1),
        ],
        ONE_GPU,
        1,
        ["u", "v"],
    ),
    "no whole card while one of its holders stays": (
        [A],
        [
            ("x", [0], shared_class(100, 10), A, "low", 9),
            ("safe0", [0], shared_class(100, 10), A, "safe", 9),
            ("safe1", [1], shared_class(100, 10), A, "safe", 9),
        ],
        ONE_GPU,
        1,
        [],
    ),
    "a whole card goes for a part of it": (
        [A],
        [("x", [0], ONE_GPU, A, "low", 1), ("safe", [1], ONE_GPU, A, "safe", 1)],
        shared_class(100, 10),
        1,
        ["x"],
    ),
    "several cards of a pod, of which one is free": (
        [THREE],
        [
            ("x", [0], shared_class(900, 10), THREE, "low", 1),
            ("y", [1], shared_class(400, 10), THREE, "low", 9),
            ("z", [1], shared_class(400, 10), THREE, "low", 9),
            ("w", [2], shared_class(100, 10), THREE, "low", 9),
        ],
        shared_class(700, 10, cards=2),
        1,
        ["x"],
    ),
    "several cards of a pod that one gang holds": (
        [THREE],
        [
            ("x", [0, 1], shared_class(900, 10, cards=2), THREE, "low", 1),
            ("y", [2], shared_class(900, 10), THREE, "low", 9),
        ],
        shared_class(700, 10, cards=2),
        1,
        ["x"],
    ),
    "two pods on one card": (
        [A],
        [("x", [0], shared_class(900, 10), A, "low", 1), ("y", [1], shared_class(600, 10), A, "low", 9)],
        shared_class(500, 10),
        2,
        ["y"],
    ),
    "two pods on cards of two nodes": (
        [A, B],
        [
            ("x", [0], shared_class(900, 10), A, "low", 1),
            ("safe0", [1], shared_class(900, 10), A, "safe", 1),
            ("y", [0], shared_class(900, 10), B, "low", 1),
            ("safe1", [1], shared_class(900, 10), B, "safe", 1),
        ],
        shared_class(700, 10),
        2,
        ["x", "y"],
    ),
    "cpu that is lacking besides": (
        [TIGHT],
        [
            ("x", [0], shared_class(900, 10, cpu=1), TIGHT, "low", 1),
            ("y", [1], shared_class(900, 10, cpu=3), TIGHT, "mid", 1),
        ],
        shared_class(100, 10, cpu=2),
        1,
        ["y"],
    ),
    "a node that gives whole cards gives one for a part": (
        [A, WHOLE],
        [
            ("safe0", [0], shared_class(900, 10), A, "safe", 1),
            ("safe1", [1], shared_class(900, 10), A, "safe", 1),
            ("x", [0], ONE_GPU, WHOLE, "low", 1),
            ("y", [1], ONE_GPU, WHOLE, "low", 2),
        ],
        shared_class(200, 10),
        1,
        ["y"],
    ),
}


@pytest.mark.parametrize("every", [True, False], ids=["every set is looked at", "card by card"])
@pytest.mark.parametrize(("nodes", "held", "of", "pods", "expected"), CASES.values(), ids=CASES)
def test_who_goes(
    nodes: list[NodeFacts],
    held: list[Held],
    of: PodClass,
    pods: int,
    expected: list[str],
    every: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not every:
        monkeypatch.setattr(every_set, "_ALL_SETS", 0)
    found = decide(nodes, [holder(*one) for one in held], gang("p", "top", pods, of=of))
    assert gone(found) == expected


def test_many_holders_on_many_cards_cost_as_few_pods_as_need_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight nodes of four cards with six, five, four and three holders each: three pods go for each whole card."""
    monkeypatch.setattr(every_set, "_ALL_SETS", 0)
    nodes = [divided_node(f"n{at}", 4) for at in range(8)]
    held = [
        holder(f"{at.name}-{card}-{nth}", [card], shared_class(100, 100, cpu="100m"), at)
        for at in nodes
        for card in range(4)
        for nth in range(6 - card)
    ]
    found = decide(nodes, held, gang("p", "top", 8, of=ONE_GPU))
    assert gone(found) == sorted(f"{at.name}-3-{nth}" for at in nodes for nth in range(3))
    two = decide(nodes, held, gang("p", "top", 8, of=pod_class(gpu=2)))
    assert gone(two) == sorted(f"{at.name}-{card}-{nth}" for at in nodes for card in (2, 3) for nth in range(6 - card))


def test_surplus_of_its_own_queue_goes_before_a_gang_of_a_lower_queue() -> None:
    of = shared_class(700, 10)
    own = running("own", "top", ["a", "a"], of=of, min_member=1)
    pods = [
        structs.replace(pod, cards=A.cards.divide(of.cards, CardGrant.of({GPU: [card]})))
        for card, pod in enumerate(own.pods)
    ]
    own = structs.replace(own, pods=tuple(pods))
    low = holder("low", [0], shared_class(700, 10), B)
    safe = holder("safe", [1], shared_class(700, 10), B, "safe")
    found = decide([A, B], [own, low, safe], gang("p", "top", of=shared_class(600, 10)))
    assert [one.pod for one in found.evictions] == ["own-1"]


def test_slices_of_a_profile_are_made_room_for_and_never_by_those_of_another() -> None:
    slices: dict[str, str | int] = {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1}
    nodes = [node("m", **slices)]  # type: ignore[arg-type]
    small, large = (pod_class(**{name: 1}) for name in slices)  # type: ignore[arg-type]
    held = [
        running("s0", "low", ["m"], created=1, of=small),
        running("s1", "low", ["m"], created=2, of=small),
        running("l", "low", ["m"], created=9, of=large),
    ]
    assert gone(decide(nodes, held, gang("p", "top", of=small))) == ["s1"]
    assert gone(decide(nodes, held, gang("p", "top", of=large))) == ["l"]
    assert gone(decide(nodes, held, gang("p", "top", 2, of=large))) == []


def test_a_cordoned_card_is_not_made_free() -> None:
    cordoned = replace(A, cards=CardTable(A.cards.counts, CardGrant.of({GPU: [0]}), A.cards.divided))
    held = [holder("x", [0], shared_class(900, 10), A), holder("y", [1], shared_class(900, 10), A, "mid")]
    assert gone(decide([cordoned], held, gang("p", "top", of=shared_class(700, 10)))) == ["y"]
    held[1] = holder("y", [1], shared_class(900, 10), A, "safe")
    assert gone(decide([cordoned], held, gang("p", "top", of=shared_class(700, 10)))) == []


def test_unlike_pods_get_room_on_the_cards_that_victims_leave() -> None:
    held = [
        holder("x", [0], shared_class(900, 900), A, created=1),
        holder("y", [1], shared_class(300, 300), A, created=2),
    ]
    members = [member("p-0", shared_class(600, 600)), member("p-1", shared_class(500, 500))]
    found = decide([A], held, gang("p", "top", members=members))
    assert gone(found) == ["x"]
    assert sorted(part.index for one in found.reservations for part in one.cards.parts) == [0, 1]


class Cluster:
    """What runs, cycle by cycle, with the reservations of the latest plan."""

    def __init__(self, nodes: Sequence[NodeFacts], held: Sequence[Running]) -> None:
        self.nodes = nodes
        self.held = list(held)
        self.promised: Plan | None = None
        self.memory = Memory()

    def cycle(self, *wants: Gang) -> Plan:
        live = NodeTable()
        for each in self.nodes:
            live.upsert(each)
        for group in self.held:
            for pod in group.pods:
                live.charge(live.row(pod.node), pod.pod_class, pod.cards)
        promised = self.promised.reservations if self.promised is not None else ()
        given = View(live.freeze(), QUEUES, tuple(wants), promised, tuple(self.held))
        found = plan(given, PREEMPT, NOW, self.memory)
        assert found == plan(given, PREEMPT, NOW), "what is remembered changes nothing"
        return found

    def ends(self, *names: str) -> None:
        self.held = [group for group in self.held if group.uid not in names]


def test_the_card_that_victims_leave_is_kept_for_the_gang_until_it_starts() -> None:
    """The victim has left one card, and another gang asks for as much: it gets what is free beside the promise."""
    world = Cluster(
        [A], [holder("x", [0], shared_class(900, 10), A), holder("safe", [1], shared_class(800, 10), A, "safe")]
    )
    preemptor, other = gang("p", "top", of=shared_class(600, 10)), gang("o", "top", of=shared_class(300, 10), created=9)
    world.promised = world.cycle(preemptor)
    assert gone(world.promised) == ["x"]
    (promise,) = world.promised.reservations
    assert promise.kind is ReservationKind.VICTIMS
    assert [(part.index, part.cores) for part in promise.cards.parts] == [(0, 600)]
    leaving = structs.replace(
        world.held[0], pods=tuple(structs.replace(pod, leaving=True) for pod in world.held[0].pods)
    )
    world.held[0] = leaving
    assert not world.cycle(preemptor, other).assignments
    assert not world.cycle(preemptor, other).evictions, "it waits for those that are leaving"
    world.ends("x")
    assert [one.gang for one in world.cycle(other).assignments] == ["o"], "400 are left beside the promise"
    started = world.cycle(gang("o", "top", of=shared_class(500, 10)))
    assert not started.assignments
    started = world.cycle(preemptor)
    assert [(one.gang, one.grant.parts[0].index) for one in started.assignments] == [("p", 0)]


def test_what_is_leaving_a_card_is_waited_for_and_not_made_twice() -> None:
    held = [holder("x", [0], shared_class(900, 10), A), holder("y", [1], shared_class(900, 10), A)]
    held[0] = structs.replace(held[0], pods=tuple(structs.replace(pod, leaving=True) for pod in held[0].pods))
    assert gone(decide([A], held, gang("p", "top", of=shared_class(600, 10)))) == []
    assert gone(decide([A], held, gang("p", "top", 2, of=shared_class(600, 10)))) == ["y"]


def test_two_preemptors_get_different_cards() -> None:
    held = [holder("x", [0], shared_class(900, 10), A), holder("y", [1], shared_class(900, 10), A)]
    wants = [gang(name, "top", of=shared_class(600, 10)) for name in ("p", "r")]
    found = plan(view([A], wants, QUEUES, running=held), PREEMPT, NOW)
    assert gone(found) == ["x", "y"]
    assert sorted(part.index for one in found.reservations for part in one.cards.parts) == [0, 1]
    # Of one card both have a half.
    halves = [gang(name, "top", of=shared_class(500, 10)) for name in ("p", "r")]
    held[1] = holder("y", [1], shared_class(900, 10), A, "safe")
    found = plan(view([A], halves, QUEUES, running=held), PREEMPT, NOW)
    assert gone(found) == ["x"]


def test_holders_of_other_forms_and_a_dump() -> None:
    held: Mapping[str, Running] = {
        "x": holder("x", [0], ONE_GPU, A),
        "y": holder("y", [1], shared_class(900, 10), A),
    }
    given = view([A], [gang("p", "top", of=shared_class(200, 10))], QUEUES, running=held.values())
    assert gone(plan(given, PREEMPT, NOW)) == ["x"]
