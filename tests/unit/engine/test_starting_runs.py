"""When gangs start without a turn of their own: counted by the turns that others have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine.actions.minima import Minima
from t9ksched.engine.actions.start_tables import StartTables
from t9ksched.engine.actions.told_again import ToldAgain
from t9ksched.engine.memory import Memory
from t9ksched.engine.order import Line
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.engine.view import QueueState
from t9ksched.model.gang import Gang
from t9ksched.model.queue import QueueSpec
from tests.builders import GPU, gang, node, pod_class, queue, table, view

GIB = 1 << 30
ONE = pod_class(gpu=1)


class Turns:
    """Plans with one memory, and how many gangs had a turn in each."""

    def __init__(self, nodes: int) -> None:
        self._live, self._memory = table(node(f"n{at}", gpu=8) for at in range(nodes)), Memory()

    def of(self, gangs: list[Gang], queues: dict[str, QueueState]) -> int:
        """Turns of one cycle."""
        with _counted() as turns:
            plan(view(self._live, gangs, queues), Policy(), 0, self._memory)
        return len(turns)


@contextmanager
def _counted() -> Iterator[list[Gang]]:
    judge, turns = Minima.judge, []

    def counted(self: Minima, gang: Gang):  # type: ignore[no-untyped-def]
        turns.append(gang)
        return judge(self, gang)

    with patch.object(Minima, "judge", counted):
        yield turns


def some(count: int, queues: int = 1) -> list[Gang]:
    return [gang(f"g{at}", f"q{at % queues}", of=ONE) for at in range(count)]


def test_where_no_gang_waited_all_start_without_a_turn() -> None:
    assert Turns(10).of(some(40), {"q0": queue()}) == 0


def test_few_gangs_have_their_turns() -> None:
    assert Turns(10).of(some(7), {"q0": queue()}) == 7


def test_where_gangs_waited_four_start_at_their_turns_first() -> None:
    turns, queues, gangs = Turns(10), {"q0": queue()}, some(40)
    large = gang("large", "q0", gpu=9)
    assert turns.of([*gangs, large], queues) == 1
    assert turns.of([*gangs, large], queues) == 4, "the large one is told again"
    assert turns.of(gangs, queues) == 4
    assert turns.of(gangs, queues) == 0, "none waited in the latest cycle"


def test_with_many_queues_more_start_at_their_turns_first() -> None:
    turns, queues, gangs = Turns(40), {f"q{at}": queue() for at in range(64)}, some(200, 64)
    large = gang("large", "q9", gpu=9)
    turns.of([*gangs, large], queues)
    assert turns.of([*gangs, large], queues) == 4 + 64 // 16


def test_where_runs_let_few_start_they_become_rare() -> None:
    """Every seventh gang is too large for any node: six start at first, then two after four that did at their turns."""
    mixed = [gang(f"g{at}", "q0", gpu=9 if at % 7 == 6 else 1) for at in range(160)]
    with patch.object(StartTables, "follow", autospec=True, side_effect=StartTables.follow) as followed:
        Turns(20).of(mixed, {"q0": queue()})
    assert followed.call_count == 2


def test_where_gangs_waited_little_is_read_at_once() -> None:
    """What waits on is mostly of a class of its own, which costs as much to make ready as a turn."""
    turns, queues = Turns(10), {"q0": queue()}
    unlike = [gang(f"l{at}", "q0", cpu=1 + at, gpu=9) for at in range(60)]
    turns.of(unlike, queues)
    new = [structs.replace(one, priority=1) for one in some(12)]
    with patch.object(StartTables, "_asked", autospec=True, side_effect=StartTables._asked) as asked:
        assert turns.of([*new, *unlike], queues) == 4
    assert asked.call_count == 1 + 8


def test_a_queue_that_waits_on_is_told_at_once_though_it_was_read() -> None:
    """Of its gangs some are read with those of the queue before it; none of them starts."""
    turns, queues = Turns(10), {"q0": queue(priority=1), "q1": queue()}
    large = [gang(f"l{at}", "q1", gpu=9) for at in range(60)]
    for _ in range(3):
        turns.of([*some(40), *large], queues)
    one_by_one, asked = ToldAgain._one_by_one, []

    def noted(self: ToldAgain, line: Line, *rest: Any, **named: Any) -> Any:
        asked.append(line.best().queue)
        return one_by_one(self, line, *rest, **named)

    with patch.object(ToldAgain, "_one_by_one", noted):
        turns.of([*some(40), *large], queues)
    assert set(asked) <= {"q0"}


@pytest.mark.parametrize("most", [900 * GIB, (1 << 63) - 1])
def test_a_queue_may_hold_any_amount_of_what_its_quota_does_not_name(most: int) -> None:
    queues = {
        "q0": QueueState(QueueSpec(quota={GPU: 100}), {GPU: 1, "memory": 800 * GIB}),
        "q1": QueueState(QueueSpec(quota={"memory": most})),
    }
    assert Turns(10).of(some(40, 2), queues) == 0
