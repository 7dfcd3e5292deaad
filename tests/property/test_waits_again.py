"""Gangs that wait are told what a planner without memory would tell them, whatever comes, goes and is promised."""

import random
from unittest.mock import patch

import pytest

from t9ksched.engine.memory import Memory
from t9ksched.engine.past_order import Asks, PastOrder
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.starvation import Starving
from t9ksched.engine.wait_kinds import Kind
from tests.builders import gang, node, pod_class, queue, table, view
from tests.examples import part
from tests.property.waiting_histories import CYCLES, Collecting, History, Mixed, Ordered, Reserving, Turning


def play(kind: type[History], first: int, usual: int, coming: int = 6) -> tuple[int, int]:
    """Play part of the `usual` number of histories from this seed on, before each of which so many gangs come. Returns
    how many cycles that were, and how many attempts were left out because of what was remembered.
    """
    seeds, spared = range(first, first + part(usual)), 0
    for seed in seeds:
        history = kind(random.Random(seed))
        for _ in range(coming):
            history._come()
        for _ in range(CYCLES):
            history.step()
            history.cycle()
        spared += history.memory.failures.spared
    return len(seeds) * CYCLES, spared


@pytest.mark.parametrize("first", range(0, 36, 12))
@pytest.mark.parametrize("kind", [History, Reserving, Mixed])
def test_what_is_told_again_is_what_a_fresh_planner_tells(kind: type[History], first: int) -> None:
    cycles, spared = play(kind, first, 12)
    assert spared > cycles, "most of what waits is told from memory"


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_what_is_told_follows_nodes_that_take_no_work_and_work_again(first: int) -> None:
    with patch.object(Kind, "moved", autospec=True, side_effect=Kind.moved) as counted:
        cycles, _ = play(Turning, first, 4, coming=25)
    assert counted.call_count > cycles // 4, "kinds follow the nodes without a turn"


@pytest.mark.parametrize("first", range(0, 36, 12))
def test_what_is_told_beside_gangs_that_collect_room_is_what_a_fresh_planner_tells(first: int) -> None:
    with patch.object(Starving, "stands", autospec=True, side_effect=Starving.stands) as counted:
        cycles, _ = play(Collecting, first, 12)
    assert counted.call_count > cycles // 10, "gangs that collect room are told from memory, too"


@pytest.mark.parametrize("first", range(0, 24, 12))
def test_what_is_told_behind_others_is_what_a_fresh_planner_tells(first: int) -> None:
    with (
        patch.object(PastOrder, "of", autospec=True, side_effect=PastOrder.of) as asked,
        patch.object(Asks, "turn", autospec=True, side_effect=Asks.turn) as turned,
    ):
        cycles, _ = play(Ordered, first, 12)
    assert asked.call_count > cycles, "gangs of strict queues are told from memory"
    assert turned.call_count > cycles // 10, "and beside nodes that take no work, or work again"


@pytest.mark.parametrize("seed", range(10))
def test_the_numbers_follow_the_room(seed: int) -> None:
    rng = random.Random(seed)
    live = table(node(f"n{at}", cpu=16, memory="16Gi", gpu=4) for at in range(5))
    gangs = [
        gang(
            f"g{at}", pods=5, cpu=rng.randint(8, 16), memory=f"{rng.randint(1, 8)}Gi", gpu=rng.randint(0, 4), created=at
        )
        for at in range(12)
    ]
    taken = [(at, pod_class(cpu=rng.randint(1, 12), memory=f"{rng.randint(1, 12)}Gi", gpu=1)) for at in range(5)]
    for row, shape in taken:
        live.charge(row, shape)
    memory, placed = Memory(), 0
    for nth in range(40):
        at = rng.randrange(5)
        live.discharge(*taken[at])
        taken[at] = at, pod_class(cpu=rng.randint(1, 12), memory=f"{rng.randint(1, 12)}Gi", gpu=rng.randint(1, 4))
        live.charge(*taken[at])
        given = view(live, gangs, {"q": queue()})
        found = plan(given, Policy(), nth, memory)
        assert found.to_bytes() == plan(given, Policy(), nth).to_bytes()
        placed += found.stats.placed
        assert memory.failures.tried <= 12 + 2 * placed, "only the first cycle tries what finds no room"
