"""Quotas of cards and pods that have more of them on some nodes than on others: what they would take decides."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.plan import Plan
from t9ksched.engine.policy import Planning, Policy, Preemption
from t9ksched.engine.view import QueueState
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.card_worth import held, worth_on
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD, CARDS
from tests.builders import GPU, divided_node, gang, member, node, pod_class, queue, shared_class, view
from tests.unit.engine.deciding import codes, decide, starts, where
from tests.unit.engine.test_card_choice import asks, of
from tests.unit.engine.test_card_victims import holder

SMALL, LARGE = divided_node("a-small", 1, memory=16_000), divided_node("b-large", 1, memory=64_000)
WHOLE = node("w", gpu=4, labels={"nvidia.com/gpu.memory": "40000"})


def with_quota(cards: str | int, **more: Any) -> dict[str, QueueState]:
    return {"q": queue(quota={CARDS: cards}, **more)}


def slices(name: str, count: int) -> NodeFacts:
    """A node on which one `nvidia.com/gpu` is a seventh of a card."""
    return replace(of(name, "MIGSingle", gpu=count), part_worths={GPU: CARD // 7})


def told(found: Plan) -> str:
    (waiting,) = found.waiting
    return waiting.reasons[0].message


def test_a_pod_goes_where_it_has_no_more_than_its_queue_can_pay_for() -> None:
    asked = shared_class(0, 8_000)
    assert where(decide(view([SMALL, LARGE], [gang("g", of=asked)], with_quota("0.4")))) == {"g-0": "b-large"}
    assert where(decide(view([SMALL, LARGE], [gang("g", of=asked)], with_quota("0.5")))) == {"g-0": "a-small"}
    only = with_quota("0.4", selector={"kubernetes.io/hostname": "b-large"})
    assert starts(decide(view([SMALL, LARGE], [gang("g", of=asked)], only))) == ["g"]


def test_a_pod_that_has_too_much_on_every_node_is_told_the_least() -> None:
    found = decide(view([SMALL, LARGE], [gang("g", of=shared_class(0, 8_000))], with_quota("0.1")))
    reason = found.waiting[0].reasons[0]
    assert (reason.code, reason.needs, reason.has) == ("QuotaExceeded", {CARDS: CARD // 8}, {CARDS: CARD // 10})
    assert reason.message == (
        "needs at least 0.125 cards, queue 'q' has 0.1 of 0.1 left: it has that where it has least of cards, and 0.5"
        " elsewhere"
    )
    assert reason.unblocks[0] == "ask for less: the whole quota is 0.1 cards"


def test_whole_cards_here_and_parts_there() -> None:
    nodes, asked = [divided_node("d", 2, memory=16_000), WHOLE], shared_class(0, 4_000, cards=2)
    assert set(where(decide(view(nodes, [gang("g", of=asked)], with_quota(1)))).values()) == {"d"}
    alone = told(decide(view(nodes[1:], [gang("g", of=asked)], with_quota(1))))
    assert alone == "needs 2 cards, queue 'q' has 1 of 1 left"


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize(("quota", "on"), [(pods_, "whole") for pods_ in (2, 3)] + [("0.5", "mig")])
def test_slices_are_taken_where_whole_cards_are_too_dear(pods: int, quota: str | int, on: str) -> None:
    """A role takes one kind of cards: not one that its queue cannot pay for while it can pay for another."""
    nodes = [of("whole"), slices("mig", 14)]
    found = decide(view(nodes, [gang("g", pods=pods, of=asks(mode="any"))], with_quota(quota)))
    assert set(where(found).values()) == {on}


def test_members_have_more_where_there_is_too_little_room_for_less() -> None:
    """Room for two where each has an eighth of a card, so that the third has a half."""
    nodes = [divided_node("a-small", 4, memory=16_000), divided_node("b-large", 1, memory=64_000, places=2)]
    asked = shared_class(0, 8_000)
    for quota, started in (("0.75", True), ("0.74", False), (2, True)):
        found = decide(view(nodes, [gang("g", pods=3, of=asked)], with_quota(quota)))
        assert bool(starts(found)) is started, quota
    waits = decide(view(nodes, [gang("g", pods=3, of=asked)], with_quota("0.74"))).waiting[0].reasons[0]
    assert waits.code == "QuotaExceeded"
    assert "there is no room for it where it has less, at least 0.375 cards" in waits.message


def test_it_waits_for_room_where_its_queue_can_pay() -> None:
    """And is told which nodes are too dear; what is given back there is its own."""
    large = divided_node("b-large", 1, memory=64_000)
    given_ = view([SMALL, large], [gang("g", of=shared_class(0, 8_000))], with_quota(1, used={CARDS: "0.6"}))
    full = holder("r", [0], shared_class(0, 64_000), LARGE, "other")
    queues = {**given_.queues, "other": queue()}
    waiting = decide(view([SMALL, large], given_.gangs, queues, running=[full]))
    reason = waiting.waiting[0].reasons[0]
    assert reason.code == "InsufficientResources"
    assert "on 1 more node it would count as 0.5 cards, more than its queue can pay for" in reason.message
    assert "cards of the queue are given back, or an administrator raises its quota of cards" in reason.unblocks


def mixed(places: int = 4) -> NodeFacts:
    """A node with a card of 16,000 MiB and one of 64,000, of two models."""
    sizes = (CardSize(16_000, places, model="T4"), CardSize(64_000, places, model="A100"))
    return replace(divided_node("m", 2, memory=16_000, places=places), cards=CardTable({GPU: 2}, divided={GPU: sizes}))


def cards_of(found: Plan) -> list[int]:
    return sorted(part.index for one in found.assignments for part in one.grant.parts)


@pytest.mark.parametrize(("quota", "cards"), [("0.1", []), ("0.125", [1]), ("0.49", [1]), ("0.5", [0])])
def test_of_unlike_cards_of_a_node_a_pod_gets_one_that_its_queue_can_pay_for(quota: str, cards: list[int]) -> None:
    """8,000 MiB are half of the small card, which is fuller and taken first, and an eighth of the large one."""
    found = decide(view([mixed()], [gang("g", of=shared_class(0, 8_000))], with_quota(quota)))
    assert cards_of(found) == cards
    if not cards:
        assert told(found).startswith("needs at least 0.125 cards, queue 'q' has 0.1 of 0.1 left")


@pytest.mark.parametrize(("quota", "cards"), [("0.24", []), ("0.25", []), ("0.625", [0, 1])])
def test_members_have_unlike_cards_of_one_node_as_far_as_there_is_room(quota: str, cards: list[int]) -> None:
    found = decide(view([mixed(places=1)], [gang("g", pods=2, of=shared_class(0, 8_000))], with_quota(quota)))
    assert cards_of(found) == cards


def test_only_cards_of_the_model_that_a_pod_names_count() -> None:
    asked = replace(shared_class(0, 8_000), choice=CardChoice(models=(("a100",),)))
    assert cards_of(decide(view([mixed()], [gang("g", of=asked)], with_quota("0.125")))) == [1]
    small = replace(shared_class(0, 8_000), choice=CardChoice(models=(("t4",),)))
    waits = told(decide(view([mixed()], [gang("g", of=small)], with_quota("0.4"))))
    assert waits == "needs 0.5 cards, queue 'q' has 0.4 of 0.4 left"


def test_victims_are_looked_for_where_its_queue_can_pay() -> None:
    """The small card is free and too dear: the pod on the large one is evicted."""
    full = holder("r", [0], shared_class(0, 64_000), LARGE, "other")
    queues = {"q": queue(quota={CARDS: "0.4"}, priority=9), "other": queue()}
    given_ = view([SMALL, LARGE], [gang("g", of=shared_class(0, 8_000))], queues, running=[full])
    found = decide(given_, Policy(actions=("allocate", "preempt"), preemption=Preemption()))
    assert [one.pod for one in found.evictions] == ["r-0"]


def test_members_above_the_minimum_go_where_their_queue_can_pay() -> None:
    nodes = [divided_node("a-small", 4, memory=16_000), divided_node("b-large", 1, memory=64_000, places=2)]
    elastic = gang("g", pods=5, of=shared_class(0, 8_000), min_member=1)
    found = decide(view(nodes, [elastic], with_quota("0.8")))
    assert sorted(where(found).values()) == ["a-small", "b-large", "b-large"]
    assert [one.reasons[0].code for one in found.surplus] == ["QuotaExceeded"]


def test_a_strict_queue_keeps_its_cards_for_the_head() -> None:
    """The head waits for room on the large card: what is behind it must not take the cards with which it pays, on
    another node.
    """
    full = holder("r", [0], shared_class(0, 64_000), LARGE, "other")
    queues = {"q": queue(quota={CARDS: "0.4"}, ordering="Strict"), "other": queue()}
    there = replace(shared_class(0, 4_000), node_selector=(("kubernetes.io/hostname", "a-small"),))
    gangs = [gang("head", of=shared_class(0, 8_000)), gang("next", of=there), gang("bare", of=pod_class(cpu=1))]
    found = decide(view([SMALL, LARGE], gangs, queues, running=[full]))
    assert codes(found)["next"] == ["Behind"]


def test_classes_with_the_same_bound_are_for_nodes_of_their_own() -> None:
    """Three parts may be half a card on the two larger nodes, two of them on three."""
    nodes = [divided_node(f"n{size}", 3, memory=size * 1000, places=1) for size in (8, 16, 24, 36)]
    three, two = shared_class(0, 4_000, 3), shared_class(0, 4_000, 2)
    gangs = [gang("a", "qa", of=three), gang("b", "qb", of=three), gang("c", "qc", of=two)]
    found = where(decide(view(nodes, gangs, {name: queue(quota={CARDS: "0.7"}) for name in ("qa", "qb", "qc")})))
    assert {found["a-0"], found["b-0"]} == {"n24", "n36"}
    assert found["c-0"] == "n16"


def test_a_plan_is_made_where_its_queue_can_pay() -> None:
    full = holder("r", [0], shared_class(0, 64_000), LARGE, "other")
    queues = {"q": queue(quota={CARDS: "0.4"}), "other": queue()}
    given_ = view([SMALL, LARGE], [gang("g", of=shared_class(0, 8_000))], queues, running=[full])
    found = decide(given_, Policy(planning=Planning()))
    assert not starts(found)
    assert codes(found)["g"][0] in ("InsufficientResources", "PlannedStart")


def _part() -> st.SearchStrategy[PodClass]:
    return st.builds(shared_class, st.integers(0, 500), st.integers(1, 15_000), st.integers(1, 2))


_NODES = st.lists(
    st.sampled_from([SMALL, LARGE, WHOLE, divided_node("d", 3, memory=24_000)]),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.name,
)


@settings(max_examples=150)
@given(_NODES, _part(), st.integers(0, 3_000))
def test_a_pod_waits_for_quota_only_where_no_node_with_room_gives_it_within_the_quota(
    nodes: list[NodeFacts], asked: PodClass, quota: int
) -> None:
    found = decide(view(nodes, [gang("g", of=asked)], with_quota(f"{quota}m")))
    limit = quota * CARD // 1000
    able = [one for one in nodes if starts(decide(view([one], [gang("g", of=asked)], {"q": queue()})))]
    fitting = [one for one in able if worth_on(asked, one.card_layout)[1] <= limit]
    assert bool(starts(found)) is bool(fitting)
    for one in found.assignments:
        assert held(asked, next(facts for facts in nodes if facts.name == one.node), one.grant) <= limit
    if able and not fitting:
        assert codes(found)["g"] == ["QuotaExceeded"]


@settings(max_examples=100)
@given(_NODES, st.lists(st.tuples(_part(), st.integers(1, 3)), min_size=1, max_size=4), st.integers(0, 6_000))
def test_gangs_of_several_kinds_are_kept_within_the_quota(
    nodes: list[NodeFacts], kinds: list[tuple[PodClass, int]], quota: int
) -> None:
    made: Gang = gang(
        "g", members=[member(f"{at}-{nth}", of_) for at, (of_, pods) in enumerate(kinds) for nth in range(pods)]
    )
    found = decide(view(nodes, [made], with_quota(f"{quota}m")))
    classes = {one.uid: one.pod_class for one in made.waiting}
    facts = {one.name: one for one in nodes}
    used = sum(held(classes[one.pod], facts[one.node], one.grant) for one in found.assignments)
    assert used <= quota * CARD // 1000
    assert len(found.assignments) in (0, len(made.waiting))


def test_a_pod_that_asks_for_no_cards_is_not_held_against_them() -> None:
    assert starts(decide(view([WHOLE], [gang("g", of=pod_class(cpu=1))], with_quota(0)))) == ["g"]
    assert CardChoice().most_cards == 0


@pytest.mark.parametrize("count", [10**15, 10**18, 2**63 - 1])
def test_a_pod_that_asks_for_more_cards_than_can_be_counted_waits(count: int) -> None:
    huge = gang("huge", of=pod_class(gpu=count))
    found = decide(view([WHOLE, SMALL], [huge, gang("g", of=shared_class(0, 4_000))], with_quota(1)))
    assert starts(found) == ["g"]
    assert codes(found)["huge"][0] == "QuotaExceeded"


@pytest.mark.parametrize("policy", [Policy(planning=Planning()), Policy(actions=("allocate", "preempt"))])
@pytest.mark.parametrize(
    "of_", [pod_class(gpu=10**18), pod_class(gpu=2**63 - 1), shared_class(0, 10**18), shared_class(1000, 0, 10**18)]
)
@pytest.mark.parametrize("quota", [{}, {CARDS: 1}, {CARDS: 1, GPU: 4}])
def test_no_number_of_cards_ends_a_cycle(policy: Policy, of_: PodClass, quota: dict[str, int]) -> None:
    """Others start, and what runs stays, whatever plans and searches for victims there are."""
    queues = {"q": queue(quota=quota, priority=9), "low": queue(quota=quota)}
    gangs = [gang("huge", pods=3, of=of_, min_member=least, priority=5) for least in (1, 3)]
    given_ = view(
        [WHOLE, LARGE],
        [*gangs, gang("g", "low", gpu=1)],
        queues,
        running=[holder("r", [0], shared_class(0, 64_000), LARGE, "low")],
    )
    found = decide(given_, policy)
    assert starts(found) == ["g"]
    assert not found.evictions
