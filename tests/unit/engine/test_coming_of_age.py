"""When time alone may let a plan find otherwise, as the plan itself says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy, Preemption, Starvation
from t9ksched.model.gang import Gang, Running
from tests.builders import gang, node, queue, running, view

SECOND = 1_000_000_000
NOW = 1_000 * SECOND
POLICY = Policy(actions=("allocate", "preempt"), preemption=Preemption(minimum_run_seconds=60))
QUEUES = {"low": queue(priority=1), "high": queue(priority=5), "safe": queue(priority=1, preemptible=False)}


def runs(name: str, of: str, since: int) -> Running:
    """On one card, since so many seconds."""
    return running(name, of, ["n0"], gpu=1, cards=[1], started=NOW - since * SECOND)


def waits(of: str = "high") -> Gang:
    return gang("waits", of, gpu=8)


@pytest.mark.parametrize(
    ("there", "gangs", "seconds"),
    [
        ([runs("a", "low", 20), runs("b", "low", 50), runs("c", "low", 60)], [waits()], 10),
        ([runs("a", "low", 60), runs("b", "low", 61)], [waits()], None),
        ([runs("a", "low", 20)], [], None),
        ([runs("a", "low", 20)], [waits("low")], None),
        ([runs("a", "high", 20), runs("b", "safe", 20)], [waits()], None),
        ([running("a", "low", ["n0"], gpu=1, cards=[1])], [waits()], None),
    ],
    ids=["the next one", "all are old", "nobody waits", "of its own queue", "never", "not known since when"],
)
def test_when_the_next_victim_is_old_enough(
    there: Sequence[Running], gangs: Sequence[Gang], seconds: int | None
) -> None:
    given = view([node("n0", gpu=8)], gangs, QUEUES, running=there)
    expected = None if seconds is None else NOW + seconds * SECOND
    assert plan(given, POLICY, NOW).again == expected
    assert plan(given, replace(POLICY, actions=("allocate",)), NOW).again is None
    assert plan(given, replace(POLICY, preemption=Preemption()), NOW).again is None


def test_inside_a_queue_gangs_grow_old_for_each_other() -> None:
    policy = replace(POLICY, preemption=Preemption(minimum_run_seconds=60, inside_queue=True))
    given = view([node("n0", gpu=8)], [waits("low")], QUEUES, running=[runs("a", "low", 20)])
    assert plan(given, policy, NOW).again == NOW + 40 * SECOND


def test_what_is_remembered_says_the_same_as_time_passes() -> None:
    there = [running(f"r{at}", "low", ["n0"], gpu=4, cards=[15 << 4 * at], started=NOW + at * SECOND) for at in (0, 1)]
    given = view([node("n0", gpu=8)], [waits()], QUEUES, running=there)
    memory, now, found = Memory(), NOW + 5 * SECOND, []
    for _ in range(3):
        made = plan(given, POLICY, now, memory)
        assert made.to_bytes() == plan(given, POLICY, now).to_bytes()
        assert plan(given, POLICY, now + 1, memory).again in (made.again, NOW + 61 * SECOND)
        assert plan(given, POLICY, NOW, memory).again == NOW + 60 * SECOND, "clocks may be set back"
        found.append((made.again, sorted(one.pod for one in made.evictions)))
        now = made.again or now
    moments = NOW + 60 * SECOND, NOW + 61 * SECOND
    assert found == [(moments[0], []), (moments[1], []), (None, ["r0-0", "r1-0"])]


def test_when_the_next_gang_collects_room() -> None:
    policy = Policy(starvation=Starvation(100, 100))
    gangs = [structs.replace(gang(f"g{at}", gpu=8), created=NOW - at * 40 * SECOND) for at in range(4)]
    queues = {"q": queue(ordering="Backfill"), "plain": queue(ordering="BestEffort")}
    given = view([node("n0", gpu=4)], gangs, queues)
    assert plan(given, policy, NOW).again == NOW + 20 * SECOND
    assert plan(given, policy, NOW + 20 * SECOND).again == NOW + 60 * SECOND
    assert plan(given, policy, NOW + 100 * SECOND).again is None
    others = [structs.replace(one, queue="plain") for one in gangs]
    assert plan(replace(given, gangs=tuple(others)), policy, NOW).again is None
