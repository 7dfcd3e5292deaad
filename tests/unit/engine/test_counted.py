"""Accelerators that are counted by number: more cards than have indices, slices, shares."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View, dump, load
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import NodeFacts
from t9ksched.model.reasons import Code
from tests.builders import GPU, gang, node, pod_class, queue, running, table, view
from tests.unit.engine.deciding import decide, where


def many(name: str = "big", gpu: int = 80, cordoned: int = 0, mode: str = "Whole") -> NodeFacts:
    found = node(name, gpu=gpu)
    return replace(found, cards=CardTable(), mode=mode, cordoned={GPU: cordoned} if cordoned else {})


def test_all_cards_of_a_node_are_used_and_none_twice() -> None:
    found = decide(view([many()], [gang(f"g{at}", pods=5, gpu=8) for at in range(3)]))
    assert len(where(found)) == 10
    assert {one.cards for one in found.assignments} == {()}
    assert {one.grant.masks for one in found.assignments} == {()}
    (waiting,) = found.waiting
    assert "has room for 0" in waiting.reasons[0].message or "best has 0 free" in waiting.reasons[0].message


def test_the_reason_knows_how_many_are_free() -> None:
    busy = table([many()])
    busy.charge(busy.row("big"), pod_class(gpu=8))
    (reason,) = decide(view(busy, [gang("g", gpu=75)])).waiting[0].reasons
    assert reason.code is Code.INSUFFICIENT_RESOURCES
    assert "best has 72 free" in reason.message
    (reason,) = decide(view([many()], [gang("g", gpu=81)])).waiting[0].reasons
    assert reason.code is Code.NEVER_FITS
    assert "the largest has 80" in reason.message


def test_cards_out_of_service_are_taken_off() -> None:
    found = decide(view([many(cordoned=2)], [gang("fits", gpu=78), gang("waits", gpu=1)]))
    assert set(where(found)) == {"fits-0"}
    live = table([many(cordoned=2)])
    assert live.has_room("big", pod_class(gpu=78))
    assert not live.has_room("big", pod_class(gpu=79))


def test_indices_that_pods_name_there_mean_nothing() -> None:
    """Written before the node was counted, or by another scheduler: the number of cards is what is taken."""
    live = table([many(gpu=10)])
    live.charge(live.row("big"), pod_class(gpu=2), CardGrant.packed({GPU: 0b11}))
    live.charge(live.row("big"), pod_class(gpu=2), CardGrant.packed({GPU: 0b11}))
    found = decide(view(live, [gang("fits", gpu=6), gang("waits", gpu=1)]))
    assert set(where(found)) == {"fits-0"}


def test_victims_give_back_their_number_of_cards() -> None:
    low = running("low", "low", on=["big", "big"], gpu=40, cards=[0b1, 0b10])
    queues = {"low": queue(), "high": queue(priority=5)}
    nodes = [many(), node("other", gpu=0)]
    found = decide(view(nodes, [gang("g", "high", gpu=80)], queues, running=[low]), Policy(("allocate", "preempt")))
    assert {one.pod for one in found.evictions} == {"low-0", "low-1"}


def test_nodes_of_both_kinds_stand_beside_each_other() -> None:
    found = decide(view([many(), node("small", gpu=8)], [gang("g", pods=11, gpu=8)]))
    cards = {one.pod: one.grant.masks for one in found.assignments}
    assert sum(bool(masks) for masks in cards.values()) == 1


def test_pods_that_ask_for_accelerators_stay_off_nodes_where_they_are_not_ready() -> None:
    nodes = [many("n", 8, mode="NotReady")]
    found = decide(view(nodes, [gang("cpu"), gang("card", gpu=1)]))
    assert set(where(found)) == {"cpu-0"}
    (reason,) = found.waiting[0].reasons
    assert reason.code is Code.NO_NODE_MATCHES
    assert "1 has GPUs that are not ready" in reason.message
    assert reason.nodes["accelerators not ready"] == 1


@given(st.lists(st.integers(1, 90), min_size=1, max_size=12), st.integers(65, 90))
def test_counted_cards_are_neither_lost_nor_given_twice(asked: list[int], has: int) -> None:
    found = decide(view([many(gpu=has)], [gang(f"g{at}", gpu=cards) for at, cards in enumerate(asked)]))
    taken = sum(asked[int(one.gang[1:])] for one in found.assignments)
    assert taken <= has
    placed = {one.gang for one in found.assignments}
    assert all(cards > has - taken for at, cards in enumerate(asked) if f"g{at}" not in placed)


def test_a_view_of_counted_nodes_is_written_and_read() -> None:
    live: NodeTable = table([many(cordoned=1), many("sliced", 32, mode="TimeSliced")])
    live.charge(live.row("big"), pod_class(gpu=8))
    before: View = view(live, [gang("g", gpu=8)])
    assert dump(load(dump(before))) == dump(before)
    assert decide(load(dump(before))).to_bytes() == decide(before).to_bytes()
