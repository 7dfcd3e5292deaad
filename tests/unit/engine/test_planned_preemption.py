"""Preemption beside planned starts: who may take room that a plan needs later."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine.actions.passed_over import PassedOver
from t9ksched.engine.memory import Memory
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Planning, Policy, Preemption
from t9ksched.engine.view import View
from t9ksched.model.gang import ExpectedEnd, Gang
from tests.ahead import HOUR, MINUTE
from tests.builders import GPU, gang, node, pod_class, queue, running, view

SECOND = 1_000_000_000
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


def with_plan(*graces: int) -> View:
    """Four cards: two low gangs and one that stays, which all end at hour 5. Gang b, of queue high, needs all four, and
    is to start then. Pods of the low gangs take so many seconds to end.
    """
    groups = [
        structs.replace(one, grace=grace * SECOND) for one, grace in zip(RUNNING, (*graces, 0, 0, 0)[:3], strict=True)
    ]
    ends = [ExpectedEnd(one.uid, one.queue, 5 * HOUR, tuple((pod.node, CARD, 1) for pod in one.pods)) for one in groups]
    seen = replace(
        view([node(f"n{at}", gpu=1) for at in range(4)], [limited("b", "high", 4, 2)], QUEUES, running=groups),
        expected_ends=tuple(ends),
    )
    found = plan(seen, POLICY, 0)
    assert not found.evictions, "the gang that stays would be in its way"
    assert {(one.owner, one.since) for one in found.planned} == {("b", 5 * HOUR)}
    return replace(seen, reservations=found.planned)


def after(seen: View, *more: Gang) -> Plan:
    return plan(replace(seen, gangs=(*seen.gangs, *more)), POLICY, 0)


@pytest.mark.parametrize(
    ("of", "seconds", "grace", "takes"),
    [
        pytest.param("high", 0, 0, False, id="it would never end"),
        pytest.param("high", 21_600, 0, False, id="it would still run"),
        pytest.param("high", 17_991, 0, False, id="its victims take a while to leave"),
        pytest.param("high", 17_990, 0, True, id="it ends when the planned gang starts"),
        pytest.param("high", 17_990, 60, False, id="the grace of its victims is too long"),
        pytest.param("high", 17_930, 60, True, id="it ends in time after the grace of its victims"),
        pytest.param("high", 17_390, 9_999, True, id="none gets more grace than the policy allows"),
        pytest.param("urgent", 0, 0, True, id="its queue has a larger priority"),
        pytest.param("low", 3_600, 0, False, id="its queue may evict none"),
    ],
)
def test_who_may_evict_what_a_plan_waits_for(of: str, seconds: int, grace: int, takes: bool) -> None:
    found = after(with_plan(grace, grace), limited("p", of, 1, seconds / 3600))
    assert bool(found.evictions) is takes
    starts = {one.owner: one.since for one in found.planned}
    if of != "urgent":
        assert starts["b"] == 5 * HOUR


@pytest.mark.parametrize(
    ("pods", "graces", "goes"),
    [
        pytest.param(1, (600, 0), {"w"}, id="the one that leaves in time"),
        pytest.param(1, (0, 600), {"v"}, id="the one that leaves in time, though the other is younger"),
        pytest.param(3, (0, 600), set(), id="one alone does not make room"),
    ],
)
def test_victims_that_leave_too_late_are_spared(pods: int, graces: tuple[int, int], goes: set[str]) -> None:
    found = after(with_plan(*graces), limited("p", "high", pods, 17_800 / 3600))
    assert {one.gang for one in found.evictions} == goes
    assert {one.owner: one.since for one in found.planned if one.owner == "b"} == {"b": 5 * HOUR}


@pytest.mark.parametrize("hours", [0, 3, 6])
@pytest.mark.parametrize(("ends", "goes"), [((5, 0), {"b"}), ((0, 5), {"a"})])
def test_no_victim_goes_only_because_a_plan_counts_on_its_end(
    ends: tuple[int, int], goes: set[str], hours: int
) -> None:
    """Two gangs have a card each on n0; `big` has a plan for one of the two cards there, when one of them has ended."""
    groups = [running("a", "low", ["n0"], of=CARD, created=1), running("b", "low", ["n0"], of=CARD, created=2)]
    groups.append(running("h", "firm", ["n1", "n1"], of=CARD))
    known = [
        ExpectedEnd(one.uid, one.queue, end * HOUR, tuple((pod.node, CARD, 1) for pod in one.pods))
        for one, end in zip(groups, (*ends, 5), strict=True)
        if end
    ]
    nodes = [node("n0", gpu=2), node("n1", gpu=2)]
    seen = replace(view(nodes, [limited("big", "high", 3, 2)], QUEUES, running=groups), expected_ends=tuple(known))
    found = plan(seen, POLICY, 0)
    assert starts(found) == {"big": 5 * HOUR}
    found = after(replace(seen, reservations=found.planned), limited("p", "high", 1, hours))
    assert {one.gang for one in found.evictions} == (goes if hours != 3 else {"b"})
    assert starts(found)["big"] == 5 * HOUR


def test_pods_that_leave_already_may_take_long() -> None:
    """Of three cards, w's comes free without an eviction, but maybe only in ten minutes."""
    for grace, evicts in ((0, True), (600, False)):
        seen = with_plan(0, grace)
        groups = [
            structs.replace(one, pods=tuple(structs.replace(pod, leaving=one.uid == "w") for pod in one.pods))
            for one in seen.running
        ]
        found = after(replace(seen, running=tuple(groups)), limited("p", "high", 3, 17_800 / 3600))
        assert {one.gang for one in found.evictions} == ({"v"} if evicts else set())


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


def looks(before: View, memory: Memory, now: int, policy: Policy = POLICY) -> tuple[Plan, int]:
    """A cycle, and how many gangs were tried although they had a plan."""
    with patch.object(PlannedStarts, "turn", autospec=True, side_effect=PlannedStarts.turn) as tried:
        found = plan(before, policy, now, memory)
        with (
            patch.object(PlannedStarts, "rests", lambda *_: iter(())),
            patch.object(PassedOver, "of", lambda *_: None),
        ):
            fresh = plan(before, policy, now)
    assert structs.replace(fresh, stats=found.stats).to_bytes() == found.to_bytes()
    return found, tried.call_count - len(before.gangs)


@pytest.mark.parametrize(
    ("there", "pods", "quota", "evicts_from", "tried"),
    [
        pytest.param("high", 6, 100, 0, 0, id="its own queue has the room, and no surplus"),
        pytest.param("low", 8, 100, 0, 0, id="all victims together are too few"),
        pytest.param("low", 6, 8, 0, 0, id="its queue cannot pay before the plans begin"),
        pytest.param("low", 6, 100, 30 * MINUTE, 10, id="it may evict others later"),
    ],
)
def test_a_gang_that_victims_cannot_help_is_not_tried_again(
    there: str, pods: int, quota: int, evicts_from: int, tried: int
) -> None:
    """Ten cards: three of a gang of queue high that stays for two hours, and seven of one whose hour is over soon. Ten
    gangs have plans, one after the other; in the next cycle nothing has happened.
    """
    groups = [(running("h", "high", ["n0"] * 3, of=CARD), 2), (running("l", there, ["n0"] * 7, of=CARD), 1)]
    ends = tuple(ExpectedEnd(one.uid, one.queue, hours * HOUR, (("n0", CARD, len(one.pods)),)) for one, hours in groups)
    gangs = [structs.replace(limited(f"g{at}", "high", pods, 1), evicts_from=evicts_from) for at in range(10)]
    queues = {**QUEUES, "high": queue(priority=9, ordering="Backfill", quota={GPU: quota})}
    seen = view([node("n0", gpu=10)], gangs, queues, running=[one for one, _ in groups])
    seen, memory = replace(seen, expected_ends=ends), Memory()
    first, _ = looks(seen, memory, 0)
    assert len(starts(first)) == 10
    later, count = looks(replace(seen, reservations=first.planned), memory, MINUTE)
    assert later.planned == first.planned
    assert count == tried
    last, _ = looks(replace(seen, reservations=later.planned), memory, 30 * MINUTE)
    assert {one.by for one in last.evictions} == ({"g0"} if evicts_from else set())


@pytest.mark.parametrize(
    ("more", "evicts"), [(0, True), (1, False)], ids=["no plan of its queue", "a plan of its queue"]
)
def test_surplus_of_its_queue_yields_quota_beside_plans_of_others(more: int, evicts: bool) -> None:
    """Queue q has four cards, all in use, three by members above the minimum of r. A plan of another queue says nothing
    about its quota; one of its own counts on it.
    """
    r, h = running("r", "q", ["n0"] * 4, of=CARD, min_member=1), running("h", "firm", ["n1"] * 4, of=CARD)
    ends = tuple(ExpectedEnd(one.uid, one.queue, HOUR, ((one.pods[0].node, CARD, 4),)) for one in (r, h))
    large = [limited("large", "q", 4, 1)] * more
    gangs = [limited("other", "firm", 4, 1), *large, limited("small", "q", 1, 1)]
    queues = {"q": queue(quota={GPU: 4}), "firm": queue(preemptible=False)}
    seen = view([node("n0", gpu=5), node("n1", gpu=4)], gangs, queues, running=[r, h])
    found = plan(replace(seen, expected_ends=ends), POLICY, 0)
    assert starts(found)["other"] == HOUR
    assert {(one.pod, one.by) for one in found.evictions} == ({("r-3", "small")} if evicts else set())


@pytest.mark.parametrize(
    ("pods", "more"),
    [
        pytest.param(1, [], id="it has a plan"),
        pytest.param(4, [limited("c", "firm", 1, 2)], id="one before it has, and it gets none"),
    ],
)
def test_room_that_pods_leave_is_for_the_gang_that_counts_on_it_first(pods: int, more: list[Gang]) -> None:
    """Of four members, all but one above the minimum, one leaves by itself. A gang that may evict none counts on that
    room whether it is looked at or not, so that for the next one another member has to go.
    """
    easy = replace(POLICY, planning=Planning("EASY"))
    nodes, gangs = [node("n0", gpu=4)], [limited("b", "firm", pods, 2)]
    queues = {"firm": queue(priority=9, preemptible=False, ordering="Backfill"), "q": queue(priority=9)}
    ends = (ExpectedEnd("r", "q", 5 * HOUR, (("n0", CARD, 4),)),)
    stays, leaves = (running("r", "q", ["n0"] * 4, of=CARD, min_member=1, leaving=those) for those in ((), (3,)))
    memory = Memory()
    seen = replace(view(nodes, gangs, queues, running=[stays]), expected_ends=ends)
    for _ in range(2):
        found, _ = looks(seen, memory, 0, easy)
        assert starts(found) == {"b": 5 * HOUR}
        seen = replace(seen, reservations=found.planned)
    gangs = [*gangs, *more, limited("p", "q", 1, 1)]
    found, _ = looks(replace(seen, gangs=tuple(gangs), running=(leaves,)), memory, MINUTE, easy)
    assert {(one.pod, one.by) for one in found.evictions} == {("r-2", "p")}


def test_a_larger_priority_evicts_after_one_alike_with_a_plan_that_may_not() -> None:
    """Gangs with plans have their turns first: what one of a smaller priority finds is no answer to the others."""
    inside = replace(POLICY, preemption=Preemption(inside_queue=True))
    r = running("r", "q", ["n0"] * 2, of=CARD, priority=3)
    seen = view([node("n0", gpu=2)], [limited("low", "q", 2, 1)], {"q": queue(ordering="Backfill")}, running=[r])
    seen = replace(seen, expected_ends=(ExpectedEnd("r", "q", HOUR, (("n0", CARD, 2),)),))
    found = plan(seen, inside, 0)
    assert starts(found) == {"low": HOUR}
    high = structs.replace(limited("high", "q", 2, 0.5), priority=5)
    found = plan(replace(seen, gangs=(*seen.gangs, high), reservations=found.planned), inside, MINUTE)
    assert {(one.gang, one.by) for one in found.evictions} == {("r", "high")}


def starts(found: Plan) -> dict[str, int]:
    return {one.owner: one.since for one in found.planned}
