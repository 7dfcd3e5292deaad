"""Preemption beside planned starts: who may take room that a plan needs later."""

from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import ExpectedEnd, Gang
from tests.ahead import HOUR
from tests.builders import gang, node, pod_class, queue, running, view

CARD = pod_class(cpu=0, memory=0, gpu=1)
POLICY = Policy(actions=("allocate", "preempt"), planning=Planning())
QUEUES = {
    "low": queue(priority=1),
    "firm": queue(priority=9, preemptible=False),
    "high": queue(priority=9),
    "urgent": queue(priority=20),
}
RUNNING = [
    running("v", "low", ["n0", "n1"], of=CARD),
    running("w", "low", ["n2"], of=CARD),
    running("h", "firm", ["n3"], of=CARD),
]


def limited(name: str, of: str, pods: int, hours: float) -> Gang:
    return structs.replace(gang(name, of, pods, of=CARD), lasts=round(hours * HOUR))


def with_plan() -> View:
    """Four cards: two low gangs and one that stays, which all end at hour 5. Gang b, of queue high, needs all four, and
    is to start then.
    """
    ends = [
        ExpectedEnd(one.uid, one.queue, 5 * HOUR, tuple((pod.node, CARD, 1) for pod in one.pods)) for one in RUNNING
    ]
    seen = replace(
        view([node(f"n{at}", gpu=1) for at in range(4)], [limited("b", "high", 4, 2)], QUEUES, running=RUNNING),
        expected_ends=tuple(ends),
    )
    found = plan(seen, POLICY, 0)
    assert not found.evictions, "the gang that stays would be in its way"
    assert {(one.owner, one.since) for one in found.planned} == {("b", 5 * HOUR)}
    return replace(seen, reservations=found.planned)


def after(seen: View, *more: Gang) -> Plan:
    return plan(replace(seen, gangs=(*seen.gangs, *more)), POLICY, 0)


@pytest.mark.parametrize(
    ("of", "hours", "takes"),
    [
        pytest.param("high", 0, False, id="it would never end"),
        pytest.param("high", 6, False, id="it would still run"),
        pytest.param("high", 5, False, id="it may end too late, because its victims may take long to leave"),
        pytest.param("high", 4, True, id="it ends before the planned gang starts"),
        pytest.param("urgent", 0, True, id="its queue has a larger priority"),
        pytest.param("low", 1, False, id="its queue may evict none"),
    ],
)
def test_who_may_evict_what_a_plan_waits_for(of: str, hours: float, takes: bool) -> None:
    found = after(with_plan(), limited("p", of, 1, hours))
    assert bool(found.evictions) is takes
    starts = {one.owner: one.since for one in found.planned}
    if of != "urgent":
        assert starts["b"] == 5 * HOUR


def test_of_gangs_alike_one_that_ends_in_time_may_evict_after_one_that_does_not() -> None:
    found = after(with_plan(), limited("a", "high", 1, 6), limited("c", "high", 1, 4))
    assert {one.by for one in found.evictions} == {"c"}


def test_the_plan_stands_while_the_victims_leave_and_when_they_have_left() -> None:
    seen = with_plan()
    seen = replace(seen, gangs=(*seen.gangs, limited("p", "high", 1, 4)))
    found = plan(seen, POLICY, 0)
    (gone,) = {one.gang for one in found.evictions}
    promised = tuple(replace(one, until=660 * 1_000_000_000) for one in found.reservations)
    for minute in (1, 9):
        later = replace(seen, reservations=(*promised, *found.planned))
        found = plan(later, POLICY, minute * 60 * 1_000_000_000)
        assert {one.owner: one.since for one in found.planned} == {"b": 5 * HOUR}
        assert not found.evictions
    staying = [one for one in RUNNING if one.uid != gone]
    left = view([node(f"n{at}", gpu=1) for at in range(4)], seen.gangs, QUEUES, (*promised, *found.planned), staying)
    left = replace(left, expected_ends=tuple(one for one in seen.expected_ends if one.gang != gone))
    found = plan(left, POLICY, 10 * 60 * 1_000_000_000)
    assert {one.gang for one in found.assignments} == {"p"}
    assert {one.owner: one.since for one in found.planned} == {"b": 5 * HOUR}


def test_a_gang_with_a_plan_evicts_others_once_that_makes_room() -> None:
    seen = with_plan()
    more = running("x", "low", ["n4"], of=CARD)
    larger = view([node(f"n{at}", gpu=1) for at in range(5)], [], running=[*RUNNING, more])
    seen = replace(seen, nodes=larger.nodes, running=larger.running)
    found = after(seen)
    assert {(one.gang, one.by) for one in found.evictions} == {("v", "b"), ("w", "b"), ("x", "b")}
    assert not found.planned
