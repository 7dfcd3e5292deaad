"""Quotas that count physical cards: parts, slices and whole cards of one queue together, now and at planned starts."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy, Preemption
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_worth import held
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD, CARDS
from tests.builders import GPU, divided_node, gang, node, pod_class, queue, running, shared_class, view
from tests.unit.engine.deciding import decide, starts

SLICE = "nvidia.com/mig-1g.5gb"


def sliced(name: str, slices: int, each: int = CARD // 7) -> NodeFacts:
    made = node(name, **{SLICE: slices})
    return replace(made, part_worths={SLICE: each}, mode="MIGMixed")


def test_parts_whole_cards_and_slices_count_together() -> None:
    nodes = [divided_node("d", 2), node("w", gpu=4), sliced("s", 14)]
    gangs = [
        gang("part", pods=2, of=shared_class(250, 8_000)),
        gang("whole", pods=1, gpu=1, selector={"kubernetes.io/hostname": "w"}),
        gang("slices", pods=7, of=pod_class(**{SLICE: 1})),
        gang("more", pods=1, of=shared_class(600, 100)),
        gang("fits", pods=1, of=shared_class(500, 100)),
    ]
    found = decide(view(nodes, gangs, {"q": queue(quota={CARDS: 3})}))
    assert starts(found) == ["part", "whole", "slices", "fits"]
    (waiting,) = found.waiting
    assert waiting.reasons[0].code == "QuotaExceeded"
    assert waiting.reasons[0].message == "needs 0.6 cards, queue 'q' has 0.5 of 3 left"
    assert waiting.reasons[0].unblocks[0] == "0.1 cards of the queue is given back"


def test_a_quota_of_the_resource_as_asked_holds_beside_it() -> None:
    gangs = [gang(f"g{at}", of=shared_class(250, 100)) for at in range(3)]
    found = decide(view([divided_node("d", 2)], gangs, {"q": queue(quota={CARDS: 3, GPU: 2})}))
    assert starts(found) == ["g0", "g1"]
    assert "needs 1 × nvidia.com/gpu" in found.waiting[0].reasons[0].message


def test_the_share_of_cards_may_be_the_dominant_one() -> None:
    """Of equal queues the one with less of its quota goes first: `b` has asked for more cards, and has less of them."""
    queues = {
        "a": queue(quota={CARDS: 4, GPU: 100}, used={CARDS: 3, GPU: 3}),
        "b": queue(quota={CARDS: 4, GPU: 100}, used={CARDS: "1.5", GPU: 30}),
    }
    gangs = [gang("ga", "a", gpu=1), gang("gb", "b", gpu=1)]
    assert starts(decide(view([node("n", gpu=1)], gangs, queues))) == ["gb"]


def test_members_above_the_minimum_are_bounded_too() -> None:
    elastic = gang("g", pods=5, of=shared_class(250, 100), min_member=1)
    found = decide(view([divided_node("d", 2)], [elastic], {"q": queue(quota={CARDS: "0.75"})}))
    assert len(found.assignments) == 3


def test_quotas_that_count_no_cards_are_as_before() -> None:
    nodes, gangs = [divided_node("d", 2)], [gang("g", of=shared_class(250, 100))]
    with_it = decide(view(nodes, gangs, {"q": queue(quota={GPU: 2}), "other": queue(quota={CARDS: 2})}))
    assert with_it.assignments == decide(view(nodes, gangs, {"q": queue(quota={GPU: 2})})).assignments


class _Live:
    """Nodes and one queue on which what is planned is charged with what it has of the cards it got."""

    def __init__(self, nodes: list[NodeFacts], quota: int) -> None:
        self.facts = {one.name: one for one in nodes}
        self.table = NodeTable()
        for one in nodes:
            self.table.upsert(one)
        self.spec = queue(quota={CARDS: f"{quota}m"}).spec
        self.used = 0
        self.nth = 0

    def submit(self, of: PodClass, pods: int) -> None:
        self.nth += 1
        state = QueueState(self.spec, {CARDS: self.used})
        made = plan(View(self.table.freeze(), {"q": state}, (gang(f"g{self.nth}", pods=pods, of=of),)), Policy(), 0)
        for one in made.assignments:
            self.table.charge(self.table.row(one.node), of, one.grant)
            self.used += held(of, self.facts[one.node], one.grant)


@settings(max_examples=60)
@given(
    st.integers(0, 8000),
    st.lists(
        st.tuples(
            st.one_of(
                st.builds(shared_class, st.integers(0, 999), st.integers(1, 30_000), st.integers(1, 2)),
                st.builds(lambda count: pod_class(**{SLICE: count}), st.integers(1, 9)),
                st.builds(lambda count: pod_class(gpu=count), st.integers(1, 3)),
            ),
            st.integers(1, 4),
        ),
        max_size=8,
    ),
)
def test_a_quota_of_cards_is_never_exceeded(quota: int, submitted: list[tuple[PodClass, int]]) -> None:
    nodes = [divided_node("d", 3), divided_node("e", 2, memory=80_000), node("w", gpu=4), sliced("s", 28)]
    live = _Live(nodes, quota)
    for of, pods in submitted:
        live.submit(of, pods)
        assert live.used <= quota * CARD // 1000


@pytest.mark.parametrize(("spare", "expected"), [(0, ["own-0", "own-1"]), (1, ["own-1"])])
def test_a_short_quota_takes_cards_of_its_own_queue(spare: int, expected: list[str]) -> None:
    own = running("own", "q", ["n"] * 2, gpu=1, cards=[1, 2], min_member=2 - spare)
    given_ = view([node("n", gpu=4)], [gang("new", gpu=1, priority=9)], {"q": queue(quota={CARDS: 2})}, running=[own])
    used = {**given_.queues["q"].used, CARDS: 2 * CARD}
    given_ = replace(given_, queues={"q": replace(given_.queues["q"], used=used)})
    policy = Policy(actions=("allocate", "preempt"), preemption=Preemption(inside_queue=True))
    assert sorted(one.pod for one in decide(given_, policy).evictions) == expected
