"""How much more shapes of pods weigh that may run on some nodes only."""

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.engine.placement.crowding import PLACES, crowding

EVERYWHERE = (1, 1, 1, 1)


def weighed(asked: list[int], allowed: Sequence[tuple[int, ...]], cards: list[int]) -> list[float]:
    """The factors; `allowed` by shape."""
    masks = np.array(allowed, np.bool_).reshape(len(asked), len(cards)).T
    return [one / (1 << PLACES) for one in crowding(asked, masks, np.array(cards, np.int64))]


@pytest.mark.parametrize(
    ("asked", "allowed", "factors"),
    [
        ([5, 5], [EVERYWHERE, EVERYWHERE], [1, 1]),
        ([1, 1], [EVERYWHERE, (1, 0, 0, 0)], [1, 2]),
        ([3, 1], [EVERYWHERE, (1, 0, 0, 0)], [1, 2]),
        ([7, 1], [EVERYWHERE, (1, 0, 0, 0)], [1, 1.5]),
        ([6, 1, 1], [EVERYWHERE, (1, 0, 0, 0), (1, 0, 0, 0)], [1, 2, 2]),
        ([6, 1, 1], [EVERYWHERE, (1, 0, 0, 0), (0, 1, 0, 0)], [1, 1.5, 1.5]),
        ([2, 1, 1], [EVERYWHERE, (1, 1, 0, 0), (1, 0, 0, 0)], [1, sqrt(2), 2]),
        ([2, 2], [EVERYWHERE, (0, 0, 0, 0)], [1, 1]),
        ([], [], []),
    ],
    ids=[
        "no one is confined",
        "a pressure of 2 counts as 1",
        "a pressure of 1",
        "a pressure of one half",
        "two shapes press on the same nodes",
        "two shapes press on different nodes",
        "who may be on fewer nodes presses on more nodes too",
        "what may run nowhere presses on nothing",
        "no shapes",
    ],
)
def test_factors(asked: list[int], allowed: list[tuple[int, ...]], factors: list[float]) -> None:
    assert weighed(asked, allowed, [8, 8, 8, 8]) == pytest.approx(factors, abs=1e-4)


SHAPES = st.lists(st.tuples(st.integers(0, 1 << 36), st.tuples(*[st.booleans()] * 5)), max_size=6)


@given(SHAPES, st.lists(st.sampled_from([0, 1000, 8000, 64_000]), min_size=5, max_size=5))
def test_the_factors_are_those_of_the_definition(shapes: list[tuple[int, tuple[bool, ...]]], cards: list[int]) -> None:
    whole = sum(cards)
    masks = np.array([mask for _, mask in shapes], np.bool_).reshape(len(shapes), 5).T
    found = crowding([amount for amount, _ in shapes], masks, np.array(cards, np.int64))
    where = [{at for at in range(5) if mask[at]} for _, mask in shapes]
    rooms = [sum(cards[at] for at in there) for there in where]
    asked = [amount if room else 0 for (amount, _), room in zip(shapes, rooms, strict=True)]
    for there, room, factor in zip(where, rooms, found, strict=True):
        inside = sum(amount for amount, theirs in zip(asked, where, strict=True) if theirs <= there)
        pressure = Fraction(inside * whole, sum(asked) * room) if room and sum(asked) else Fraction(0)
        root = sqrt(whole / room) if room else 1.0
        exact = 1 + (root - 1) * min(float(pressure), 1.0)
        assert factor / (1 << PLACES) == pytest.approx(exact, abs=(root + 2) / (1 << PLACES))
        assert factor >= 1 << PLACES


def test_a_kind_of_nodes_is_looked_at_once_whatever_their_order() -> None:
    allowed = [(1, 0, 1, 0, 1), (1, 1, 1, 1, 1), (0, 1, 0, 1, 0)]
    turned = [tuple(reversed(mask)) for mask in allowed]
    cards = [8, 4, 8, 4, 8]
    assert weighed([3, 5, 1], allowed, cards) == weighed([3, 5, 1], turned, cards[::-1])
