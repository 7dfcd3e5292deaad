"""Pods of which all cards are to be attached to one NUMA node, and those that take the cards with the most left."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.model.card_filter import CardFilter
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, gang, node, shared_class
from tests.unit.engine.test_card_parts import _Cluster
from tests.unit.engine.test_card_victims import decide, gone, holder

SIZE = 16_000


def attached(name: str, numa: tuple[int, ...], places: int = 10) -> NodeFacts:
    """A node whose cards are attached to these NUMA nodes."""
    sizes = tuple(CardSize(SIZE, places, numa=number) for number in numa)
    made = node(name, gpu=places * len(numa))
    return replace(made, cards=CardTable({GPU: len(numa)}, divided={GPU: sizes}), mode="HAMi")


def asks(cores: int, cards: int, *, together: bool = True, spread: bool = False) -> PodClass:
    made = shared_class(cores, 100, cards, cpu="10m", ram="1Mi")
    return replace(made, choice=CardChoice(only=CardFilter(together=together, spread=spread)))


def test_cards_of_one_numa_node_or_none() -> None:
    cluster = _Cluster(attached("a", (0, 1, 0, 1)))
    assert [one.grant.indices(GPU) for one in cluster.submit(asks(600, 2)).assignments] == [(0, 2)]
    cluster.submit(shared_class(600, 100))
    (waits,) = cluster.submit(asks(600, 2)).waiting
    assert "1/4 NumaNotFit" not in waits.reasons[0].message, "there is one card only"
    assert cluster.submit(asks(600, 1)).assignments, "one card is on one NUMA node"
    cluster = _Cluster(attached("a", (0, 1, 0, 1)))
    for _ in range(2):
        cluster.submit(shared_class(600, 100))
    assert sorted(part.index for part in cluster.parts("a")) == [0, 1]
    (waits,) = cluster.submit(asks(600, 2)).waiting
    assert "2/4 NumaNotFit" in waits.reasons[0].message
    assert "on each of 2 cards that are attached to one NUMA node" in waits.reasons[0].message
    assert cluster.submit(asks(600, 2, together=False)).assignments


def test_without_what_the_node_says_all_its_cards_are_together() -> None:
    cluster = _Cluster(attached("a", (0, 0, 0)))
    assert len(cluster.submit(asks(1, 3)).assignments) == 1


def test_spread_takes_the_cards_with_the_most_left() -> None:
    cluster = _Cluster(attached("a", (0, 0, 0)))
    pods = [asks(300, 1, together=False, spread=True)] * 4 + [asks(300, 1, together=False)]
    assert [one.grant.indices(GPU) for pod in pods for one in cluster.submit(pod).assignments] == [
        (0,),
        (1,),
        (2,),
        (0,),
        (0,),
    ]


@settings(max_examples=150, deadline=None)
@given(
    numa=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    used=st.lists(st.sampled_from((1, 200, 500, 900)), max_size=6),
    cores=st.sampled_from((100, 300, 500)),
    cards=st.integers(1, 3),
    pods=st.integers(1, 5),
)
def test_a_gang_starts_where_the_cards_of_each_numa_node_suffice(
    numa: list[int], used: list[int], cores: int, cards: int, pods: int
) -> None:
    cluster = _Cluster(attached("a", tuple(numa)))
    for each in used:
        cluster.submit(shared_class(each, 100, cpu="10m", ram="1Mi"))
    left = [1000] * len(numa)
    for part in cluster.parts("a"):
        left[part.index] -= part.cores
    room = 0
    for number in set(numa):
        fits = [free // cores for free, at in zip(left, numa, strict=True) if at == number]
        room += max(most for most in range(61) if sum(min(one, most) for one in fits) >= most * cards)
    assigned = cluster.submit(asks(cores, cards), pods=pods).assignments
    assert bool(assigned) == (room >= pods)
    for one in assigned:
        indices = one.grant.indices(GPU)
        assert len(indices) == cards
        assert len({numa[index] for index in indices}) == 1
    for index in range(len(numa)):
        assert sum(part.cores for part in cluster.parts("a") if part.index == index) <= 1000


def test_victims_make_room_on_one_numa_node() -> None:
    """What is free on two NUMA nodes does not add up: of one of them a card comes free."""
    at = attached("a", (0, 1, 0, 1))
    held = [holder(name, [card], shared_class(600, 100), at) for name, card in (("x", 0), ("y", 1))]
    wants = gang("g", queue="top", of=asks(600, 2))
    found = decide([at], held, wants)
    assert len(gone(found)) == 1
    safe = [holder(name, [card], shared_class(600, 100), at, "safe") for name, card in (("x", 0), ("y", 1))]
    assert gone(decide([at], safe, wants)) == []
    crowded = [holder(f"z{card}", [card], shared_class(600, 100), at) for card in range(4)]
    found = decide([at], crowded, wants)
    assert gone(found) in (["z0", "z2"], ["z1", "z3"])
