"""Gangs that wait cost a cycle what changed for them, not their number.

Counted is of how many it is found out what they are told.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine import told_lines
from t9ksched.engine.actions import told_again
from t9ksched.engine.actions.allocate import Allocate
from t9ksched.engine.actions.minima import Minima
from t9ksched.engine.actions.told_again import ToldAgain
from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.plan import Plan
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy, Starvation
from t9ksched.engine.told_lines import ToldLine
from t9ksched.engine.wait_kinds import Kind
from t9ksched.engine.work import Meter
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.gang import Gang, Member, Neighbours, Running
from t9ksched.model.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from t9ksched.model.podrules import Peers, PodRules, PodTerm
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.taints import Taint
from tests.builders import gang, node, pod_class, queue, running, table, view
from tests.counting import Lines, pieces

HOST = "kubernetes.io/hostname"
MANY = 150
"""Gangs of each of two queues that wait, all unlike."""
ONE_CARD = pod_class(cpu=1, gpu=1)
BOTH = Policy(actions=("allocate", "preempt"))


class Counts:
    """Of how many gangs or kinds it was found out what they are told, reasons composed, and turns."""

    asked = composed = turns = 0


@contextmanager
def counting() -> Iterator[Counts]:
    counts = Counts()

    def counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            setattr(counts, name, getattr(counts, name) + 1)
            return original(*args, **more)

        return call

    with (
        patch.object(ToldAgain, "_reasons", counted("asked", ToldAgain._reasons)),
        patch.object(ToldAgain, "_told_by_numbers", counted("asked", ToldAgain._told_by_numbers)),
        patch.object(Kind, "composed", counted("composed", Kind.composed)),
        patch.object(Allocate, "_place", counted("turns", Allocate._place)),
    ):
        yield counts


class Full:
    """Nodes of two cards that are all taken, gangs that wait, and an urgent queue."""

    def __init__(self, waiting: Sequence[Gang] = (), policy: Policy | None = None) -> None:
        self.live: NodeTable = table(node(f"n{at}", cpu=64, gpu=2) for at in range(20))
        self.policy = policy or Policy()
        for at in range(20):
            self.live.charge(at, ONE_CARD)
            self.live.charge(at, ONE_CARD)
        self.waiting = list(waiting) or [self.unlike(at) for at in range(2 * MANY)]
        self.groups = tuple(running(f"r{at}", queue="low", on=(f"n{at % 20}",), of=ONE_CARD) for at in range(40))
        self.held: tuple[Reservation, ...] = ()
        self.near: tuple[Neighbours, ...] = ()
        self.memory, self.now = Memory(), 0

    def settle(self) -> None:
        """Every gang has its turn, and then is told for the first time without."""
        self.cycle()
        self.cycle()

    @staticmethod
    def unlike(at: int, cpu: int = 1000, pods: int = 2) -> Gang:
        return gang(f"g{at}", queue="ab"[at % 2], pods=pods, cpu=f"{cpu + at}m", gpu=2, created=at)

    def cycle(self, *urgent: Gang, groups: tuple[Running, ...] | None = None) -> tuple[Plan, Counts]:
        """A cycle whose plan is that of a fresh memory, and what it took."""
        queues = {"a": queue(), "b": queue(), "low": queue(), "urgent": queue(priority=5)}
        given = view(self.live, [*self.waiting, *urgent], queues, self.held, self.groups if groups is None else groups)
        given = replace(given, neighbours=self.near)
        self.now += 1
        with counting() as counts:
            found = plan(given, self.policy, self.now, self.memory)
        assert found.to_bytes() == plan(given, self.policy, self.now).to_bytes()
        return found, counts


@pytest.mark.parametrize("policy", [Policy(), BOTH], ids=["allocate", "preempt"])
def test_gangs_with_too_few_members_have_no_turns(policy: Policy) -> None:
    """Also among others, whose line is told whole all the same."""
    gate = Reason(Code.SCHEDULING_GATED, "a gate")
    gated = [gang(f"x{at}", queue="a", pods=0, total=1, min_member=1, blocked=[gate], created=at) for at in range(MANY)]
    short = [gang(f"y{at}", queue="b", pods=2, min_member=3, gpu=2, created=at) for at in range(MANY)]
    full = Full([*gated, *short, *(Full.unlike(at) for at in range(10))], policy)
    with patch.object(Minima, "judge", autospec=True, side_effect=Minima.judge) as judged:
        full.cycle()
    assert judged.call_count <= 3 * 10, "with memory and without"
    full.cycle()
    with patch.object(told_again, "_short", side_effect=told_again._short) as looked:
        found, counts = full.cycle()
    assert counts.turns <= 10
    assert looked.call_count <= 3 * MANY, "of the plan without memory"
    told = {one.gang: one.reasons for one in found.waiting}
    assert told["x7"] == (gate,)
    assert [reason.code for reason in told["y7"]] == [Code.GANG_INCOMPLETE]
    assert len(told) == 2 * MANY + 10


def urgent(at: int) -> Gang:
    return gang(f"u{at}", queue="urgent", of=ONE_CARD, created=1000 + at)


@pytest.mark.parametrize("policy", [Policy(), BOTH], ids=["allocate", "preempt"])
def test_cards_that_come_and_go_again_cost_nothing_to_those_who_wait(policy: Policy) -> None:
    full = Full(policy=policy)
    full.settle()
    for at in range(5):
        full.live.discharge(at, ONE_CARD)
        found, counts = full.cycle(urgent(at))
        full.live.charge(at, ONE_CARD)
        assert len(found.assignments) == 1
        assert len(found.waiting) == 2 * MANY
        assert counts.asked + counts.composed + counts.turns <= 5


def test_only_those_are_looked_at_whose_numbers_moved() -> None:
    few = [Full.unlike(MANY * 4 + at, cpu=60_000) for at in range(2)]
    full = Full([*(Full.unlike(at) for at in range(2 * MANY)), *few])
    # Of the two that ask for most, one more pod would fit on a node of which both cards came free.
    full.live.upsert(node("large", cpu=64, gpu=4))
    full.live.charge(full.live.row("large"), pod_class(cpu="2500m", gpu=2))
    full.settle()
    full.live.discharge(full.live.row("large"), pod_class(cpu="2500m", gpu=2))
    full.live.charge(full.live.row("large"), pod_class(cpu="4500m", gpu=2))
    found, counts = full.cycle()
    assert len(found.waiting) == 2 * MANY + 2
    assert counts.asked + counts.turns <= 6


def test_victims_that_leave_and_room_that_is_held_concern_few() -> None:
    full = Full(policy=BOTH)
    full.settle()
    full.held = (Reservation("u0", "n0", ONE_CARD, ReservationKind.VICTIMS),)
    leaving = (running("r0", queue="low", on=("n0",), of=ONE_CARD, leaving=(0,)), *full.groups[1:])
    full.cycle(urgent(0), groups=leaving)
    for at in range(1, 4):
        _, counts = full.cycle(urgent(0), urgent(at), groups=leaving)
        assert counts.asked + counts.composed + counts.turns <= 10


def test_gangs_with_rules_about_pods_are_told_again_while_no_pod_of_theirs_fits() -> None:
    term = PodTerm((Peers(LabelSelector((Requirement("app", "In", ("x",)),)), ("test",)),), HOST)
    waiting = []
    for at in range(40):
        of = replace(pod_class(cpu=f"{1000 + at}m", gpu=2), rules=PodRules(together=(term,)))
        members = tuple(Member(f"g{at}-{nth}", f"test/g{at}-{nth}", "", of) for nth in range(2))
        waiting.append(Gang(f"g{at}", f"test/g{at}", "ab"[at % 2], created=at, waiting=members, total=2, min_member=2))
    full = Full(waiting)
    full.near = (Neighbours("test", (("app", "x"),), (("n0", 1), ("n1", 1)), ()),)
    full.settle()
    for at in range(3):
        full.live.discharge(at, ONE_CARD)
        found, counts = full.cycle(urgent(at))
        full.live.charge(at, ONE_CARD)
        assert len(found.assignments) == 1
        assert counts.turns <= 2
    _come_and_go(full)


def test_gangs_that_no_node_may_take_are_told_again_whoever_keeps_away_from_their_pods() -> None:
    term = PodTerm((Peers(LabelSelector((Requirement("app", "In", ("x",)),)), ("test",)),), HOST)
    away = replace(pod_class(cpu=100, gpu=2), rules=PodRules(apart=(term,)))
    waiting = [gang("away", queue="a", of=away, created=0)]
    for at in range(40):
        of = pod_class(cpu=f"{1000 + at}m", gpu=2, selector={"pool": "none"})
        members = [Member(f"g{at}", f"test/g{at}", "", of, (("app", "x"),))]
        waiting.append(gang(f"g{at}", queue="ab"[at % 2], members=members, created=at + 1))
    full = Full(waiting)
    full.settle()
    for at in range(3):
        full.live.discharge(at, ONE_CARD)
        found, counts = full.cycle()
        full.live.charge(at, ONE_CARD)
        assert {one.reasons[0].code for one in found.waiting[1:]} >= {Code.NO_NODE_MATCHES}
        assert counts.turns <= 1, "of the one that keeps away"


def label(full: Full, at: int, **labels: str) -> None:
    facts = full.live.facts(f"n{at}")
    full.live.upsert(replace(facts, labels={**facts.labels, **labels}))


def test_a_label_of_a_node_concerns_those_who_read_it() -> None:
    """A selector, a topology level, a rule; not one that only reads others."""
    term = PodTerm((Peers(LabelSelector((Requirement("app", "In", ("x",)),)), ("test",)),), "zone")
    waiting = [Full.unlike(at) for at in range(MANY)]
    for at in range(10):
        selecting = pod_class(cpu=f"{2000 + at}m", gpu=2, selector={"pool": "a"})
        near = replace(pod_class(cpu=f"{3000 + at}m", gpu=2), rules=PodRules(together=(term,)))
        waiting.append(gang(f"s{at}", queue="a", of=selecting, created=1000 + at))
        waiting.append(gang(f"z{at}", queue="a", of=near, created=1000 + at))
        racked = gang(f"r{at}", queue="b", pods=2, cpu=f"{4000 + at}m", gpu=2, created=1000 + at)
        waiting.append(structs.replace(racked, topology="Required", levels=("rack",)))
    full = Full(waiting)
    full.near = (Neighbours("test", (("app", "x"),), (("n0", 1), ("n1", 1)), ()),)
    for at in range(20):
        label(full, at, pool="ab"[at % 2], rack=f"r{at % 4}", zone=f"z{at % 3}")
    full.settle()
    for key, turns in (("color", 0), ("pool", 10), ("zone", 10), ("rack", 10), ("color", 0)):
        label(full, 3, **{key: "new"})
        _, counts = full.cycle()
        assert counts.turns == turns, key
    facts = full.live.facts("n3")
    more = {**facts.allocatable, "cpu": 65_000}
    full.live.upsert(replace(facts, allocatable=more, labels={**facts.labels, "color": "other"}))
    assert full.cycle()[1].turns == len(waiting), "more than a label changed"


def turn(full: Full, name: str, **state: Any) -> Counts:
    """What it takes that a node takes no work, or takes some again."""
    full.live.upsert(replace(full.live.facts(name), **state))
    return full.cycle()[1]


def test_a_node_that_takes_no_work_or_takes_it_again_gives_nobody_a_turn_whom_it_does_not_help() -> None:
    """Those with rules about pods, and those that must be in one domain, have one if they may be there."""
    term = PodTerm((Peers(LabelSelector((Requirement("app", "In", ("x",)),)), ("test",)),), HOST)
    near = replace(pod_class(cpu="1500m", gpu=2, selector={"pool": "a"}), rules=PodRules(together=(term,)))
    racked = structs.replace(Full.unlike(700), topology="Required", levels=("rack",))
    named = NodeSelector((NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n3", "n5", "n6")),)),))
    few = gang("few", queue="a", of=pod_class(cpu="1600m", gpu=2, affinity=named), created=998)
    near_x = gang("near", queue="a", of=near, created=999)
    full = Full([*(Full.unlike(at) for at in range(2 * MANY)), few, near_x, racked])
    full.near = (Neighbours("test", (("app", "x"),), (("n3", 1), ("n5", 1)), ()),)
    for at in range(20):
        label(full, at, rack=f"r{at % 4}", **({"pool": "a"} if at in (3, 5) else {}))
    full.live.upsert(node("no-cards", cpu=64))
    full.settle()
    taint = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")
    for state in ({"unschedulable": True}, {"unschedulable": False}, {"ready": False, "taints": (taint,)}):
        assert turn(full, "n3", **state).turns == 2, state
        assert turn(full, "n4", **state).turns == 1, state
        assert turn(full, "no-cards", **state).turns <= 1, state
    assert turn(full, "n3", ready=True, taints=()).turns == 2


def test_where_very_many_nodes_change_at_once_all_are_tried_anew() -> None:
    """In slices, in place of one long look at all of these nodes."""
    full = Full()
    for at in range(300):
        full.live.upsert(node(f"m{at}", cpu=64))
    full.settle()
    for at in range(300):
        full.live.upsert(replace(full.live.facts(f"m{at}"), ready=False))
    assert full.cycle()[1].turns == len(full.waiting)


def test_cordoned_cards_of_a_node_that_takes_work_again_are_told() -> None:
    full = Full()
    worn = node("worn", cpu=64, gpu=2, unusable={"nvidia.com/gpu": 1}, unschedulable=True)
    full.live.upsert(replace(worn, why_cordoned={0: "worn"}))
    full.settle()
    full.live.upsert(replace(full.live.facts("worn"), unschedulable=False))
    found, counts = full.cycle()
    assert counts.turns == len(full.waiting)
    assert "CardCordoned: card 0 (worn) of worn" in found.waiting[0].reasons[0].message


def test_of_nodes_with_other_cards_the_number_of_all_that_take_work_is_told() -> None:
    a100 = [replace(pod_class(cpu=f"{1000 + at}m", gpu=2), choice=CardChoice((("A100",),))) for at in range(9)]
    full = Full([gang(f"a{at}", queue="a", pods=2, of=of, created=at) for at, of in enumerate(a100)])
    for at in range(20):
        label(full, at, **{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB" if at < 15 else "NVIDIA-H100-NVL"})
    full.settle()
    for cordoned, number in ((True, 19), (False, 20)):
        full.live.upsert(replace(full.live.facts("n3"), unschedulable=cordoned))
        found, counts = full.cycle()
        assert f"5/{number} CardTypeMismatch" in found.waiting[0].reasons[0].message
        assert counts.turns == 0


@pytest.mark.parametrize("policy", [Policy(), BOTH, Policy(starvation=Starvation(after_seconds=600))])
def test_beside_divided_cards_those_who_take_whole_ones_are_told_again(policy: Policy) -> None:
    """And those of a single pod, which may take any kind. A gang that takes several has its turn."""
    any_kind = replace(pod_class(cpu=1, gpu=2), choice=CardChoice(mode="any"))
    several, single = gang("any", queue="a", pods=2, of=any_kind), gang("single", queue="a", of=any_kind)
    full = Full([*(Full.unlike(at) for at in range(2 * MANY)), single, several], policy)
    full.live.upsert(replace(node("parts", cpu=64, gpu=2), mode="TimeSliced"))
    full.live.charge(full.live.row("parts"), pod_class(cpu=1, gpu=2))
    full.settle()
    full.live.charge(4, pod_class(cpu=1))
    assert full.cycle()[1].turns <= 1


def test_a_node_that_takes_work_again_has_those_tried_whom_it_helps() -> None:
    full = Full([*(Full.unlike(at) for at in range(2 * MANY)), Full.unlike(2 * MANY, cpu=30_000, pods=1)])
    full.live.upsert(node("other", cpu=32, gpu=2, labels={"pool": "a"}))
    full.live.charge(full.live.row("other"), pod_class(cpu="1500m"))
    turn(full, "other", unschedulable=True)
    full.settle()
    full.live.upsert(replace(full.live.facts("other"), unschedulable=False))
    found, counts = full.cycle()
    assert [one.gang for one in found.assignments] == [f"g{2 * MANY}"]
    assert counts.turns == 1
    full.waiting.pop()
    full.live.charge(full.live.row("other"), ONE_CARD)
    full.cycle()
    assert turn(full, "other", unschedulable=True).turns == 0
    for at in range(19):
        full.live.upsert(replace(full.live.facts(f"n{at}"), unschedulable=True))
    found, counts = full.cycle()
    assert counts.turns == 2 * MANY, "pods of two nodes: now it is told that others are cordoned"
    assert "cordoned" in found.waiting[0].reasons[0].message


@pytest.mark.parametrize("key", ["nvidia.com/gpu.product", "nvidia.com/gpu.replicas", "example.com/card.replicas"])
def test_a_label_that_says_what_cards_are_concerns_everybody(key: str) -> None:
    full = Full()
    full.settle()
    label(full, 3, **{key: "2"})
    assert full.cycle()[1].turns == len(full.waiting)


def test_what_was_told_at_a_level_is_told_again_when_it_is_reached_again() -> None:
    full = Full(policy=BOTH)
    full.settle()
    _come_and_go(full)


def _come_and_go(full: Full) -> None:
    """A card comes free and is taken, over and over: who waits is told so, and costs nothing after the first times."""
    for at in range(8):
        full.live.discharge(at, ONE_CARD)
        with_a_card, one = full.cycle()
        full.live.charge(at, ONE_CARD)
        without, other = full.cycle()
        assert with_a_card.waiting != without.waiting
        if at >= 2:
            assert one.asked + one.composed + one.turns + other.asked + other.composed + other.turns <= 4


def test_a_line_is_kept_in_small_pieces_and_another_reason_costs_the_others_nothing() -> None:
    """Counted in lines of Python, for a short line and for a long one."""

    def lines(count: int) -> tuple[int, int]:
        full = Full([Full.unlike(2 * at) for at in range(count)])
        full.settle()
        (line,) = [one for one in full.memory.waits.lines.values() if len(one.kinds) == count]
        with patch.object(told_lines, "_SOME", 8):
            found, made = pieces(ToldLine.made(line.source, line.kinds, line._of, line.told, 1, Meter()))
        assert (made.kinds, made.uids, made.alike) == (line.kinds, {one.uid for one in full.waiting}, 0)
        kind = next(iter(made.kinds))
        made.tell(kind, made.kinds[kind])  # where its gangs are is found once
        with Lines() as counted:
            made.tell(kind, made.kinds[kind])
        assert (made.tried, made.searched) == (count, count)
        return max(found), counted.count

    assert lines(120) == lines(24)
