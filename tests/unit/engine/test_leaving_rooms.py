"""Plans on nodes that victims are leaving: the room of victims and what is promised of it counts once."""

from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Planning, Policy, Preemption
from t9ksched.engine.view import View
from t9ksched.model.gang import ExpectedEnd, Gang, Running
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.ahead import HOUR, MINUTE
from tests.builders import gang, node, pod_class, queue, running, view

CARD = pod_class(cpu=0, memory=0, gpu=1)
POLICY = Policy(actions=("allocate", "preempt"), planning=Planning(), preemption=Preemption(max_grace_seconds=540))
LEFT = 10 * MINUTE
"""How long victims may take, with this grace period."""
QUEUES = {
    "low": queue(priority=1),
    "firm": queue(priority=9, preemptible=False),
    "high": queue(priority=9, ordering="Backfill"),
    "top": queue(priority=20),
}
V = running("v", "low", ["n0"], of=CARD)
H = running("h", "firm", ["n1", "n1"], of=CARD)
H_ENDS = ExpectedEnd("h", "firm", 5 * HOUR, (("n1", CARD, 2),))


def limited(name: str, of: str, pods: int, hours: float) -> Gang:
    return structs.replace(gang(name, of, pods, of=CARD), lasts=round(hours * HOUR))


def seen(
    gangs: list[Gang],
    there: list[Running],
    ends: list[ExpectedEnd],
    reservations: tuple[Reservation, ...] = (),
    gpus: tuple[int, ...] = (2, 2),
) -> View:
    """Nodes n0 and n1 with two cards each, unless said otherwise."""
    nodes = [node(f"n{at}", gpu=cards) for at, cards in enumerate(gpus)]
    return replace(view(nodes, gangs, QUEUES, reservations, there), expected_ends=tuple(ends))


def starts(found: Plan) -> dict[str, int]:
    return {one.owner: one.since for one in found.planned}


def leaving(group: Running) -> Running:
    return structs.replace(group, pods=tuple(structs.replace(pod, leaving=True) for pod in group.pods))


def evicted(end: float, hours: float) -> tuple[View, Plan]:
    """A card of n0 is free, and gang b needs it and those of n1, which come free at hour 5. Gang p came later; it takes
    the other card of n0 from v, which has this end (0: none).
    """
    ends = [H_ENDS, *([ExpectedEnd("v", "low", round(end * HOUR), (("n0", CARD, 1),))] if end else [])]
    before = seen([b := limited("b", "high", 3, 2)], [V, H], ends)
    found = plan(before, POLICY, 0)
    assert starts(found) == {"b": 5 * HOUR}
    assert not found.evictions
    both = replace(before, gangs=(b, limited("p", "high", 1, hours)), reservations=found.planned)
    return both, plan(both, POLICY, 0)


def promised(found: Plan) -> tuple[Reservation, ...]:
    return tuple(replace(one, until=LEFT + MINUTE) for one in found.reservations)


@pytest.mark.parametrize("hours", [0, 7, 50], ids="its limit is {}".format)
@pytest.mark.parametrize("end", [0, 6, 9], ids="victim ends {}".format)
def test_a_plan_stands_while_victims_leave_its_node(end: float, hours: float) -> None:
    then, found = evicted(end, hours)
    assert {one.by for one in found.evictions} == {"p"}
    assert starts(found) == {"b": 5 * HOUR}
    for minute in (1, 9, 12):
        now = replace(then, reservations=(*promised(found), *found.planned), running=(leaving(V), H))
        assert starts(plan(now, POLICY, minute * MINUTE))["b"] == 5 * HOUR


@pytest.mark.parametrize("end", [0, 9], ids="victim ends {}".format)
def test_a_gang_starts_at_its_moment_beside_victims_that_still_leave(end: float) -> None:
    then, found = evicted(end, 0)
    kept = [replace(one, since=5 * HOUR - MINUTE, until=5 * HOUR + LEFT) for one in found.reservations]
    ends = [one for one in then.expected_ends if one.gang != "h"]
    due = seen(list(then.gangs), [leaving(V)], ends, (*kept, *found.planned))
    found = plan(due, POLICY, 5 * HOUR)
    assert sorted((one.gang, one.node) for one in found.assignments) == [("b", "n0"), ("b", "n1"), ("b", "n1")]
    assert [(one.gang, one.reasons[0].code) for one in found.waiting] == [("p", "WaitingForVictims")]


def test_no_other_gang_plans_on_what_is_promised() -> None:
    """One card of n0 is free, and p was promised it with that of v."""
    p, c = limited("p", "high", 2, 0), limited("c", "high", 1, 1)
    found = plan(seen([p], [V], [], gpus=(2,)), POLICY, 0)
    assert {one.by for one in found.evictions} == {"p"}
    found = plan(seen([p, c], [leaving(V)], [], promised(found), gpus=(2,)), POLICY, MINUTE)
    assert not found.assignments
    assert not found.planned


def test_what_is_free_beside_victims_is_planned_for_when_they_have_left() -> None:
    """Two cards of n0 are free until b needs them at hour 5, and p takes the third from v. Of two gangs that end
    before that, one starts. The columns have no room for the other while v is there: until minute 10 at most.
    """
    b, p = limited("b", "high", 4, 2), limited("p", "high", 1, 0)
    first = plan(seen([b], [V, H], [H_ENDS], gpus=(3, 2)), POLICY, 0)
    second = plan(seen([b, p], [V, H], [H_ENDS], first.planned, gpus=(3, 2)), POLICY, 0)
    assert {one.by for one in second.evictions} == {"p"}
    more = [limited(name, "high", 1, 1) for name in ("c", "d")]
    kept = (*promised(second), *second.planned)
    found = plan(seen([b, p, *more], [leaving(V), H], [H_ENDS], kept, gpus=(3, 2)), POLICY, MINUTE)
    assert {one.gang for one in found.assignments} == {"c"}
    assert starts(found) == {"b": 5 * HOUR, "d": LEFT}


def test_leaving_pods_of_which_a_plan_has_the_room_leave_it_to_no_other() -> None:
    """Gang b is to start when f and h have ended. Now f is deleted. Its room is b's nevertheless: p takes that of v."""
    f = running("f", "firm", ["n0"], of=CARD)
    ends = [H_ENDS, ExpectedEnd("f", "firm", 3 * HOUR, (("n0", CARD, 1),))]
    b = limited("b", "high", 3, 2)
    firm = plan(seen([b], [V, H, f], ends), POLICY, 0)
    assert starts(firm) == {"b": 5 * HOUR}
    p = limited("p", "high", 1, 0)
    found = plan(seen([b, p], [V, H, leaving(f)], ends, firm.planned), POLICY, 0)
    assert {(one.gang, one.by) for one in found.evictions} == {("v", "p")}
    assert starts(found) == {"b": 5 * HOUR}


@pytest.mark.parametrize(("left", "first"), [(2, "o"), (1, "p")])
def test_a_gang_with_a_promise_leaves_the_room_of_a_plan_while_victims_are_there(left: int, first: str) -> None:
    """Of n0, p was promised two cards, o one, and b needs the fourth at hour 5. As long as two victims are there, they
    and p would have all cards of n0; o, which needs one, goes first.
    """
    gangs = [limited("b", "high", 3, 2), limited("p", "high", 2, 0), limited("o", "high", 1, 0)]
    v = leaving(running("v", "low", ["n0"] * left, of=CARD))
    kept = [
        *(Reservation(owner, "n0", CARD, ReservationKind.VICTIMS, rank=9, until=LEFT) for owner in "ppo"),
        *(
            Reservation("b", on, CARD, ReservationKind.PLANNED, rank=9, since=5 * HOUR, until=7 * HOUR, queue="high")
            for on in ("n0", "n1", "n1")
        ),
    ]
    found = plan(seen(gangs, [v, H], [H_ENDS], tuple(kept), gpus=(4, 2)), POLICY, MINUTE)
    assert {one.gang for one in found.assignments} == {first}
    assert starts(found) == {"b": 5 * HOUR}
