"""Sets of jobs that run where what has the fewest card-seconds left goes first, held against all sets that fit."""

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.simulation.cluster import Cluster
from t9ksched.simulation.job import Job
from t9ksched.simulation.packing import Part, chosen, fullest, in_order
from t9ksched.simulation.policies import named
from t9ksched.simulation.replay import replay

PARTS = st.lists(st.tuples(st.integers(1, 16), st.integers(1, 60)), min_size=1, max_size=9).map(
    lambda drawn: sorted(
        (Part(at, cards, left * 10**9) for at, (cards, left) in enumerate(drawn)),
        key=lambda part: (part.cards * part.left, part.at),
    )
)


def value(parts: tuple[Part, ...]) -> float:
    return sum(1e9 / part.left for part in parts)


def parts(*given: tuple[int, int]) -> list[Part]:
    """Jobs of so many cards, with so many seconds left."""
    return [Part(at, cards, left * 10**9) for at, (cards, left) in enumerate(given)]


def which(found: tuple[Part, ...]) -> set[int]:
    return {part.at for part in found}


@given(there=PARTS, capacity=st.integers(1, 24))
def test_the_fullest_set_is_the_best_of_all_that_fit(there: list[Part], capacity: int) -> None:
    sets = chain.from_iterable(combinations(there, count) for count in range(len(there) + 1))
    best = max(value(one) for one in sets if sum(part.cards for part in one) <= capacity)
    found = fullest(there, capacity)
    assert sum(part.cards for part in found) <= capacity
    assert len(which(found)) == len(found)
    assert value(found) == pytest.approx(best)


@given(there=PARTS, capacity=st.integers(1, 24))
def test_one_of_the_two_sets_is_chosen(there: list[Part], capacity: int) -> None:
    assert which(chosen(there, capacity)) in (which(in_order(there, capacity)), which(fullest(there, capacity)))


def test_a_large_job_that_is_soon_done_goes_before_a_small_one_that_leaves_cards_idle() -> None:
    """60 and 160 seconds, not 100 and 160: two cards of four would idle beside the small one."""
    there = parts((2, 100), (4, 60))
    assert (which(in_order(there, 4)), which(chosen(there, 4))) == ({0}, {1})


def test_a_set_that_only_looks_better_at_the_moment_is_not_chosen() -> None:
    """5, 13 and 17 seconds, not 8, 12 and 17."""
    there = parts((3, 5), (2, 8), (2, 12))
    assert (which(fullest(there, 4)), which(chosen(there, 4))) == ({1, 2}, {0})


def test_replays_run_that_set() -> None:
    jobs = [Job("small", 0, 100, 2), Job("large", 0, 60, 4)]
    assert [run.started for run in replay(jobs, Cluster(2, 2), named("srsf")).runs] == [60, 0]
    assert [run.started for run in replay(jobs, Cluster(2, 2), named("srtf")).runs] == [60, 0]


def test_large_jobs_of_the_set_find_room_on_nodes_first() -> None:
    """3 + 1 and 2 + 2 cards; in order, the first node would have 2 + 1, and the second 2."""
    jobs = [Job("a", 0, 5, 2), Job("b", 0, 11, 1), Job("c", 0, 6, 2), Job("d", 0, 5, 3)]
    assert [run.started for run in replay(jobs, Cluster(2, 4), named("srsf")).runs] == [0, 0, 0, 0]
