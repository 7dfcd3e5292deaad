"""The live table of nodes and its frozen pictures."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.placement.constraints import QueueNodes, Usable
from t9ksched.engine.placement.feasibility import FeasibilityCache
from t9ksched.model.card_links import CardLinks
from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.labels import LabelSelector
from tests.builders import GPU, divided_node, node, pod_class, table

ONE = node("a", gpu=4)


def test_a_frozen_picture_does_not_move() -> None:
    live = table([ONE, node("b", gpu=4)])
    before = live.freeze()
    live.charge(live.row("a"), pod_class(gpu=2, ports=[80]), CardGrant.of({GPU: [0, 1]}))
    after = live.freeze()
    assert not before.used.any()
    assert not before.cards_used.any()
    assert before.ports == {}
    assert after.static is before.static
    assert live.used("a") == {"cpu": 1000, "memory": 1 << 30, GPU: 2, "pods": 1}
    assert live.cards_used("a") == CardGrant.of({GPU: [0, 1]})
    assert [p.port for p in after.ports["a"]] == [80]
    assert after.free()[after.static.resources.index(GPU)].tolist() == [2, 4]


def test_generation_grows_with_each_change_of_facts_only() -> None:
    live = table([ONE])
    row = live.row("a")
    assert live.upsert(replace(ONE)) == row
    assert live.generation[row] == 1
    assert live.upsert(replace(ONE, unschedulable=True)) == row
    assert live.generation[row] == 2
    live.charge(row, pod_class())
    assert live.freeze().static.generation == (2,)
    live.remove("a")
    again = live.upsert(ONE)
    assert live.generation[again] > 2
    assert live.used("a") == {}


def test_rows_stay_while_names_are_sorted_in_a_picture() -> None:
    live = table([node(name) for name in "cab"])
    rows = {name: live.row(name) for name in "cab"}
    live.charge(rows["b"], pod_class(cpu=7))
    live.remove("a")
    live.upsert(node("d", **{"example.com/x": 3}))
    assert {name: live.row(name) for name in "cb"} == {name: rows[name] for name in "cb"}
    frozen = live.freeze()
    assert frozen.names == ("b", "c", "d")
    assert frozen.used[frozen.static.resources.index("cpu")].tolist() == [7000, 0, 0]
    assert frozen.static.allocatable[frozen.static.resources.index("example.com/x")].tolist() == [0, 0, 3]


def test_columns_grow_by_need() -> None:
    live = table([node(f"n{at:03}", **{f"example.com/r{at % 20}": 1}) for at in range(200)])
    for at in range(200):
        live.charge(at, pod_class(cpu=1, **{f"example.com/r{at % 20}": 1}))
    frozen = live.freeze()
    assert frozen.used.sum(axis=1).max() == 200 << 30
    assert frozen.used[frozen.static.resources.index("cpu")].tolist() == [1000] * 200


def test_a_card_with_two_holders_is_free_when_both_are_gone() -> None:
    live = table([ONE])
    for _ in range(2):
        live.charge(0, pod_class(gpu=1), CardGrant.of({GPU: [1]}))
    live.discharge(0, pod_class(gpu=1), CardGrant.of({GPU: [1]}))
    assert live.cards_used("a") == CardGrant.of({GPU: [1]})
    live.discharge(0, pod_class(gpu=1), CardGrant.of({GPU: [1]}))
    assert live.cards_used("a") == NO_CARDS


def test_unknown_names() -> None:
    live = table([ONE])
    live.remove("nobody")
    with pytest.raises(KeyError):
        live.row("nobody")
    with pytest.raises(KeyError):
        live.freeze().row("nobody")


def test_more_than_any_number_we_count_in_does_not_break_the_sums() -> None:
    live = table([node("a", memory="16Ei")])
    huge = pod_class(memory=10**30)
    for _ in range(3):
        live.charge(0, huge)
    assert (live.freeze().free() < 1 << 62).all()
    for _ in range(3):
        live.discharge(0, huge)
    assert live.used("a") == {}


def test_the_memo_computes_only_what_changed() -> None:
    selector = LabelSelector.parse({"matchLabels": {"pool": "x"}})
    live = table([node(f"n{at}", labels={"pool": "x" if at % 2 else "y"}) for at in range(10)])
    memo = FeasibilityCache()
    memo.follow(live.freeze())
    first = memo.column(QueueNodes(selector))
    assert np.flatnonzero(first).tolist() == [1, 3, 5, 7, 9]
    memo.column(Usable())
    done = memo.computed
    memo.follow(live.freeze())
    assert memo.computed == done
    live.upsert(node("n0", labels={"pool": "x"}, ready=False))
    live.upsert(node("n00", labels={"pool": "x"}))
    live.remove("n9")
    memo.follow(live.freeze())
    assert memo.computed == done + 2 * 2
    assert live.freeze().names[:2] == ("n0", "n00")
    assert np.flatnonzero(memo.column(QueueNodes(selector))).tolist() == [0, 1, 2, 4, 6, 8]
    assert not memo.column(Usable())[0]
    assert np.flatnonzero(first).tolist() == [1, 3, 5, 7, 9], "a picture already handed out stays as it was"


@pytest.mark.parametrize(("amounts", "asked"), [({"free-volumes-local": 3}, 0), ({"free-volumes-local": 3, GPU: 1}, 1)])
def test_how_many_volumes_a_node_takes_decides_no_constraint(amounts: dict[str, int], asked: int) -> None:
    live = table([ONE])
    memo = FeasibilityCache()
    memo.follow(live.freeze())
    memo.column(Usable())
    done = memo.computed
    live.upsert(replace(ONE, allocatable={**ONE.allocatable, **amounts}))
    memo.follow(live.freeze())
    assert memo.computed == done + asked


class Read(dict[str, int]):
    """Amounts that count how often they are looked at."""

    looks = 0

    def items(self) -> Any:
        type(self).looks += 1
        return super().items()

    def get(self, *args: Any) -> Any:
        type(self).looks += 1
        return super().get(*args)


@pytest.mark.parametrize("change", ["upsert", "remove"])
def test_freezing_after_a_change_of_one_node_looks_at_no_other(change: str) -> None:
    live = NodeTable()
    for at in range(50):
        facts = node(f"n{at:02}", gpu=8)
        live.upsert(replace(facts, allocatable=Read(facts.allocatable)))
    live.freeze()
    before = Read.looks
    if change == "remove":
        live.remove("n07")
    else:
        live.upsert(node("n07", gpu=4, cpu=3))
    found = live.freeze()
    assert Read.looks - before <= 1
    fresh = NodeTable()
    for facts in found.static.facts:
        fresh.upsert(facts)
    again = fresh.freeze()
    assert found.static.names == again.static.names
    assert found.static.allocatable.tobytes() == again.static.allocatable.tobytes()
    assert found.static.cards.usable.tobytes() == again.static.cards.usable.tobytes()


@given(st.data())
def test_a_live_table_freezes_as_one_that_has_just_read_the_same(data: st.DataObject) -> None:
    live = NodeTable()
    links = CardLinks(tuple(tuple("X" if a == b else "NV2" for b in range(4)) for a in range(4)))
    for _ in range(data.draw(st.integers(1, 12))):
        name = f"n{data.draw(st.integers(0, 4))}"
        if data.draw(st.booleans()):
            facts = data.draw(
                st.sampled_from(
                    [
                        node(name, gpu=4),
                        replace(node(name, gpu=4), links=links),
                        node(name, gpu=4, unusable={GPU: 3}),
                        replace(node(name, **{"amd.com/gpu": 2}), cordoned={"amd.com/gpu": 1}, why_cordoned={1: ""}),
                        replace(node(name, gpu=2), mode="TimeSliced"),
                        divided_node(name, 2),
                        node(name, cpu=1, **{"example.com/licence": 7}),
                    ]
                )
            )
            live.upsert(facts)
        else:
            live.remove(name)
        if data.draw(st.booleans()):
            live.freeze()
    fresh = NodeTable()
    found = live.freeze()
    for facts in found.static.facts:
        fresh.upsert(facts)
    again = fresh.freeze().static
    static = found.static
    assert static.names == again.names
    assert static.facts == again.facts
    for at, resource in enumerate(static.resources):
        known = again.resources.index(resource) if resource in again.resources else None
        expected = again.allocatable[known] if known is not None else np.zeros(len(static.names))
        assert static.allocatable[at].tolist() == expected.tolist()
        withdrawn = again.withdrawn[known].tolist() if again.withdrawn is not None and known is not None else None
        assert (static.withdrawn is None) == (again.withdrawn is None)
        if static.withdrawn is not None and withdrawn is not None:
            assert static.withdrawn[at].tolist() == withdrawn
    for at, resource in enumerate(static.cards.names):
        if resource in again.cards.names:
            row = again.cards.row_of[resource]
            assert static.cards.usable[at].tolist() == again.cards.usable[row].tolist()
            assert static.cards.indexed[at].tolist() == again.cards.indexed[row].tolist()
    named = {(static.cards.names[at], row): table for (at, row), table in static.cards.links.items()}
    assert named == {(again.cards.names[at], row): table for (at, row), table in again.cards.links.items()}
    assert static.divided.keys() == again.divided.keys()
    assert static.card_kinds == again.card_kinds
    assert static.cordoned_rows == again.cordoned_rows
