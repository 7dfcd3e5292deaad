"""Which cards of a node pods get where its links are known, and which nodes they prefer."""

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t9ksched.engine.card_links import best_linked, link_table
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import dump, load
from t9ksched.model.card_links import CardLinks
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import NodeFacts
from tests.builders import GPU, gang, node, pod_class, table, view
from tests.unit.engine.deciding import decide, indices, where


def groups(*sizes: int, inside: str = "NV12", across: str = "SYS") -> CardLinks:
    """Cards in groups of these sizes, in order of indices: linked well inside, badly across."""
    of = [at for at, size in enumerate(sizes) for _ in range(size)]
    return CardLinks(tuple(tuple("X" if a == b else inside if x == y else across for b, y in enumerate(of))
                           for a, x in enumerate(of)))  # fmt: skip


def matrix(cards: int, links: dict[str, Sequence[tuple[int, int]]], rest: str = "SYS") -> CardLinks:
    """Cards of which these pairs have these links."""
    of = {frozenset(pair): name for name, pairs in links.items() for pair in pairs}
    return CardLinks(tuple(tuple(of.get(frozenset((a, b)), rest) for b in range(cards)) for a in range(cards)))


CUBE = matrix(
    8,
    {
        "NV2": [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)],
        "NV1": [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)],
    },
)
"""The hybrid cube mesh of machines with eight V100."""
PAIRS = groups(2, 2, 2, 2)
QUADS = groups(4, 4)
INTERLEAVED = matrix(4, {"NV4": [(0, 2), (1, 3)]})


def linked(name: str, links: CardLinks | None, **more: object) -> NodeFacts:
    made = node(name, gpu=len(links) if links else 8, **more)  # type: ignore[arg-type]
    return replace(made, links=links)


def given_cards(
    links: CardLinks | None, held: Iterable[int], asks: Sequence[int], unusable: int = 0
) -> list[tuple[int, ...]]:
    """The cards that pods with so many each get, one after the other, on a node where some are held."""
    live = table([linked("n", links, unusable={GPU: unusable})])
    of = list(held)
    if of:
        live.charge(live.row("n"), pod_class(gpu=len(of)), CardGrant.of({GPU: of}))
    gangs = [gang(f"g{at}", gpu=count) for at, count in enumerate(asks)]
    return list(indices(decide(view(live, gangs))).values())


@pytest.mark.parametrize(
    ("links", "held", "asks", "gets"),
    [
        (None, [1], [2, 4], [(0, 2), (3, 4, 5, 6)]),
        (groups(8), [1], [2, 4], [(0, 2), (3, 4, 5, 6)]),
        (PAIRS, [0], [2], [(2, 3)]),
        (PAIRS, [0, 3], [2, 2], [(4, 5), (6, 7)]),
        (PAIRS, [0, 3, 4], [4], [(1, 2, 6, 7)]),
        (QUADS, [0], [4, 2], [(4, 5, 6, 7), (1, 2)]),
        (QUADS, [0, 5], [3], [(1, 2, 3)]),
        (QUADS, [0, 4, 5], [2, 3], [(6, 7), (1, 2, 3)]),
        (QUADS, [0, 1, 4], [1], [(2,)]),
        (PAIRS, [2], [1, 1], [(3,), (0,)]),
        (INTERLEAVED, [], [2, 2], [(0, 2), (1, 3)]),
        (CUBE, [], [4], [(0, 1, 2, 3)]),
        (CUBE, [], [2, 2, 2, 2], [(0, 3), (1, 2), (4, 7), (5, 6)]),
        (CUBE, [3], [4], [(4, 5, 6, 7)]),
        (matrix(4, {"30": [(0, 1)], "40": [(2, 3)]}, "0"), [], [2], [(2, 3)]),
        (matrix(4, {}, "0"), [0], [2], [(1, 2)]),
    ],
    ids=[
        "without links the lowest",
        "alike links: the lowest",
        "a whole pair",
        "whole pairs first",
        "a pair and the lowest of what is left",
        "the whole half, then the other",
        "the half that is left",
        "of equal sums what leaves the best rest",
        "one card out of the broken half",
        "one card out of the broken pair",
        "links across indices",
        "a board of the cube",
        "its double links",
        "its other board",
        "weights",
        "worth nothing",
    ],
)
def test_which_cards(links: CardLinks | None, held: list[int], asks: list[int], gets: list[tuple[int, ...]]) -> None:
    assert given_cards(links, held, asks) == gets


def test_cards_out_of_service_are_no_candidates() -> None:
    assert given_cards(QUADS, [], [4, 3], unusable=0b0000_0100) == [(4, 5, 6, 7), (0, 1, 3)]


def test_pods_of_a_gang_on_one_node_get_the_best_linked_together() -> None:
    live = table([linked("n", matrix(6, {"NV4": [(0, 3), (0, 5), (3, 5), (1, 2)]}))])
    found = indices(decide(view(live, [gang("g", pods=3, gpu=1)])))
    assert sorted(found.values()) == [(0,), (3,), (5,)]


def test_two_ways_that_differ_count_as_the_worse() -> None:
    found = CardLinks((("X", "NV4", "SYS"), ("PIX", "X", "PHB"), ("SYS", "PXB", "X")))
    assert found.weights == ((0, 50, 10), (50, 0, 30), (10, 30, 0))
    assert found.told((0, 1)) == "PIX"
    assert found.told((0, 1, 2)) == "SYS to PIX"
    assert found.told((2,)) == ""


Weights = list[list[int]]


@st.composite
def weights(draw: st.DrawFn, most: int) -> Weights:
    """Random weights, with many equal sums."""
    cards = draw(st.integers(1, most))
    rng = draw(st.randoms(use_true_random=False))
    kinds = draw(st.sampled_from([[10], [0, 10], [10, 50, 100], list(range(40)), [1_000_000, 999_999]]))
    found = [[0] * cards for _ in range(cards)]
    for a, b in itertools.combinations(range(cards), 2):
        found[a][b] = found[b][a] = rng.choice(kinds)
    return found


def of_weights(found: Weights) -> CardLinks:
    return CardLinks(tuple(tuple(map(str, row)) for row in found))


def inside(found: Weights, cards: Iterable[int]) -> int:
    return sum(found[a][b] for a, b in itertools.combinations(sorted(cards), 2))


@given(weights(7), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_choice_is_the_first_of_the_best(found: Weights, rng: random.Random) -> None:
    """A plain reading of the rule: sum of links, then of links in the rest, then lowest indices."""
    idle = [card for card in range(len(found)) if rng.random() < 0.8] or [0]
    count = rng.randint(1, len(idle))
    best = min(
        itertools.combinations(idle, count),
        key=lambda chosen: (-inside(found, chosen), -inside(found, set(idle) - set(chosen)), chosen),
    )
    mask, worth = best_linked(link_table(of_weights(found)), sum(1 << card for card in idle), count)
    assert (mask, worth) == (sum(1 << card for card in best), inside(found, best))


@given(st.integers(17, 40), st.data())
@settings(deadline=None, max_examples=60)
def test_of_many_cards_each_is_the_best_linked_to_those_before(cards: int, data: st.DataObject) -> None:
    """A plain reading of what is done with more idle cards than every choice is looked at for."""
    rng = data.draw(st.randoms(use_true_random=False))
    found = [[0] * cards for _ in range(cards)]
    for a, b in itertools.combinations(range(cards), 2):
        found[a][b] = found[b][a] = rng.choice([10, 50, 100])
    count = rng.randint(1, cards - 1)

    def after(chosen: Sequence[int]) -> tuple[int, int, list[int]]:
        rest = set(range(cards)) - set(chosen)
        return -inside(found, chosen), -inside(found, rest), sorted(chosen)

    start: Iterable[tuple[int, ...]] = itertools.combinations(range(cards), min(count, 2))
    chosen = list(min(start, key=after))
    while len(chosen) < count:
        chosen = min(
            ([*chosen, one] for one in range(cards) if one not in chosen), key=lambda some: (*after(some)[:2], some[-1])
        )
    mask, worth = best_linked(link_table(of_weights(found)), (1 << cards) - 1, count)
    assert (mask, worth) == (sum(1 << card for card in chosen), inside(found, chosen))


NODES = Policy(binpack=None)
"""Nothing but links says which node."""


@pytest.mark.parametrize(
    ("held", "ask", "pods", "goes"),
    [
        ([[0], [0, 2]], 2, 1, {"a"}),
        ([[0, 4], [0, 1]], 4, 1, {"b"}),
        ([[0, 4], [0, 1]], 1, 1, {"a"}),
        ([[0, 4], [0, 1]], 1, 4, {"b"}),
        ([[0, 4], [0, 1]], 2, 2, {"b"}),
        ([[0, 4], [0, 1]], 3, 1, {"a"}),
    ],
    ids=[
        "whole on both: the first by name",
        "four that are whole",
        "one card: links say nothing",
        "four pods of a gang",
        "two pods of two",
        "three, whole on both",
    ],
)
def test_nodes_with_whole_links_are_preferred(held: list[list[int]], ask: int, pods: int, goes: set[str]) -> None:
    live = table([linked(name, QUADS) for name in "ab"])
    for name, cards in zip("ab", held, strict=True):
        live.charge(live.row(name), pod_class(gpu=len(cards)), CardGrant.of({GPU: cards}))
    assert set(where(decide(view(live, [gang("g", pods=pods, gpu=ask)]), NODES)).values()) == goes


def test_links_are_a_small_score() -> None:
    """A node that is much fuller is taken all the same, and one without links where others are held."""
    live = table([linked("a", QUADS), linked("b", QUADS)])
    live.charge(live.row("b"), pod_class(gpu=4), CardGrant.of({GPU: [0, 1, 4, 5]}))
    assert where(decide(view(live, [gang("g", gpu=4)]))) == {"g-0": "b"}


def test_nodes_without_links_are_not_preferred() -> None:
    live = table([linked("a", None), linked("b", QUADS)])
    assert where(decide(view(live, [gang("g", gpu=4)]), NODES)) == {"g-0": "b"}
    assert where(decide(view(live, [gang("g", gpu=1)]), NODES)) == {"g-0": "a"}


def test_gangs_of_many_pods_and_with_rules_prefer_whole_links_too() -> None:
    names = [f"n{at:02}" for at in range(40)]
    live = table([linked(name, QUADS) for name in names])
    for name in names[:30]:
        live.charge(live.row(name), pod_class(gpu=2), CardGrant.of({GPU: [0, 4]}))
    many = where(decide(view(live, [gang("g", pods=130, gpu=2, cpu=0, memory=0)]), NODES))
    assert len(many) == 130
    quads = where(decide(view(live, [gang("g", pods=20, gpu=4)]), NODES))
    assert set(quads.values()) == set(names[30:])


def test_a_written_view_has_the_links() -> None:
    given_view = view([linked("a", CUBE), linked("b", None)], [gang("g", pods=3, gpu=3), gang("h", gpu=2)])
    again = load(dump(given_view))
    assert again.nodes.static.facts[0].links == CUBE
    assert decide(again) == decide(given_view)


def test_alike_links_are_one_table() -> None:
    static = view([linked("a", CUBE), linked("b", CUBE), linked("c", PAIRS)]).nodes.static
    assert [(one.resource, one.usable, one.rows.tolist()) for one in static.cards.linked] == [
        (0, 255, [0, 1]),
        (0, 255, [2]),
    ]
    assert np.array_equal(static.cards.linked[0].table.weights, np.array(CUBE.weights))
