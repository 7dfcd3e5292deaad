"""What gangs are told that must be in one topology domain: the best one, what is away, that none could hold them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang, Running
from t9ksched.model.node import NodeFacts
from t9ksched.model.podrules import parse_rules
from t9ksched.model.reasons import Code, Reason
from tests.builders import gang, member, node, pod_class, queue, running, table, view

HOST = "kubernetes.io/hostname"
POLICY = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "q": queue(priority=1)}
POOL = [
    node(name, cpu=64, gpu=8, labels={"rack": rack, "zone": rack[-1]})
    for name, rack in (("a0", "r1"), ("a1", "r1"), ("b0", "r2"), ("b1", "r2"), ("c0", "r3"))
]
BUSY = [running(one.name, "low", [one.name], cpu=1, gpu=8, cards=[255]) for one in POOL]


def in_one(wanted: Gang, *levels: str, **more: Any) -> Gang:
    """The gang, all of it in one domain of one of these levels."""
    return structs.replace(wanted, topology="Required", levels=levels, **more)


def apart(pods: int, key: str) -> Gang:
    """Pods no two of which may share a domain."""
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": key}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = gang("g", pods=pods, of=replace(pod_class(gpu=1), rules=parse_rules(required, None, "test", {"app": "a"})))
    return structs.replace(made, waiting=tuple(structs.replace(one, labels=(("app", "a"),)) for one in made.waiting))


def roles(*amounts: int) -> Gang:
    """One pod of each role, with so many cards."""
    return gang("g", members=[member(f"m{at}", pod_class(gpu=gpu), f"r{at}") for at, gpu in enumerate(amounts)])


def decided(nodes: Sequence[NodeFacts], wanted: Gang, busy: Sequence[Running] = BUSY) -> Plan:
    """The plan for one gang on these nodes, full of what could be evicted unless said otherwise."""
    return plan(view(nodes, [wanted], QUEUES, running=busy), POLICY, 0)


def told(found: Plan) -> Reason:
    """The only reason of the only gang."""
    ((reason,),) = (one.reasons for one in (*found.waiting, *found.surplus))
    return reason


def without(*names: str) -> list[NodeFacts]:
    """The nodes, with these cordoned."""
    return [replace(one, unschedulable=one.name in names) for one in POOL]


@pytest.mark.parametrize(
    ("wanted", "has", "says"),
    [
        (
            in_one(gang("g", pods=3, gpu=8), "rack"),
            2,
            "3 pods (8 × nvidia.com/gpu each) within one rack; 5 nodes match; ",
        ),
        (in_one(gang("g", pods=3, gpu=8), "rack"), 2, "the largest, rack=r1, when empty with room for at most 2"),
        (in_one(gang("g", pods=3, gpu=4), HOST), 2, f"the largest, {HOST}=a0, when empty with room for at most 2"),
        (
            in_one(gang("g", pods=3, gpu=8), HOST, "rack"),
            2,
            f"within one {HOST} or rack; 5 nodes match; the largest, rack",
        ),
        (in_one(gang("g", pods=40, gpu=1), "rack"), 16, "the largest, rack=r1, when empty with room for at most 16"),
        (
            in_one(gang("g", pods=2, gpu=1), "nosuch"),
            0,
            "needs room for 2 pods (1 × nvidia.com/gpu each) within one nosuch",
        ),
        (in_one(gang("g", pods=2, gpu=1), "nosuch"), 0, "no node has such a label"),
        (in_one(roles(8, 8, 1), "rack"), 2, "needs room for 3 pods within one rack"),
        (in_one(roles(5, 5, 5), "rack"), 2, "when empty with room for at most 2"),
        (in_one(apart(3, HOST), "rack"), 2, "when empty with room for at most 2"),
        (in_one(apart(2, "rack"), "rack"), 1, "when empty with room for at most 1"),
    ],
)
def test_what_no_domain_could_hold_never_fits(wanted: Gang, has: int, says: str) -> None:
    for nodes, busy in (
        (POOL, BUSY),
        (POOL, ()),
        (without("a0", "b1"), ()),
        (without(*(one.name for one in POOL)), ()),
    ):
        found = decided(nodes, wanted, busy)
        reason = told(found)
        assert reason.code is Code.NEVER_FITS
        assert (reason.needs, reason.has) == ({"members": len(wanted.waiting)}, {"members": has})
        assert reason.nodes == {"match": 5}
        assert says in reason.message
        assert reason.unblocks[-1] == "allow a wider level, or set topologyPolicy to Preferred"
        assert not found.evictions
        assert not found.stats.searched


@pytest.mark.parametrize(
    "wanted",
    [
        in_one(gang("g", pods=2, gpu=8), "rack"),
        in_one(gang("g", pods=2, gpu=4), HOST),
        in_one(gang("g", pods=3, gpu=4), HOST, "rack"),
        in_one(roles(8, 4, 4), "rack"),
        in_one(apart(2, HOST), "rack"),
        structs.replace(in_one(gang("g", pods=3, gpu=8), "rack"), topology="Preferred"),
    ],
)
def test_what_some_domain_could_hold_does(wanted: Gang) -> None:
    assert decided(POOL, wanted, ()).assignments
    assert {one.code for one in decided(POOL, wanted).waiting[0].reasons}.isdisjoint({Code.NEVER_FITS})


def test_a_label_that_only_other_nodes_have_is_told_so() -> None:
    cpus = [node("d0", labels={"row": "w1"}), node("d1", labels={"row": "w1"})]
    of = replace(pod_class(gpu=1), node_selector=(("zone", "1"),))
    reason = told(decided([*POOL, *cpus], in_one(gang("g", pods=2, of=of), "row"), ()))
    assert reason.code is Code.NEVER_FITS
    assert reason.message.endswith("within one row; 2 nodes match; none of these has such a label")


def test_it_is_taken_back_when_nodes_change() -> None:
    live, memory = table(POOL), Memory()
    wanted = in_one(gang("g", pods=3, gpu=8), "rack")

    def reasons() -> list[Reason]:
        found = plan(view(live, [wanted], QUEUES), POLICY, 0, memory)
        return [reason for one in found.waiting for reason in one.reasons]

    assert [one.code for one in reasons()] == [one.code for one in reasons()] == [Code.NEVER_FITS]
    more = node("c1", cpu=64, gpu=8, labels={"rack": "r1"})
    live.upsert(replace(more, unschedulable=True))
    (reason,) = reasons()
    assert (reason.code, reason.nodes) == (Code.TOPOLOGY_NOT_SATISFIED, {"unschedulable": 1})
    live.upsert(replace(more, labels={**more.labels, "rack": "r3"}))
    assert [one.code for one in reasons()] == [Code.NEVER_FITS]
    live.upsert(more)
    assert not reasons()


def test_nodes_that_are_away_are_named_where_their_domain_would_do() -> None:
    wanted = in_one(gang("g", pods=2, gpu=8), "rack")
    reason = told(decided(without("a1", "b1", "c0"), wanted, ()))
    assert reason.code is Code.TOPOLOGY_NOT_SATISFIED
    assert (reason.needs, reason.has, reason.nodes) == ({"members": 2}, {"members": 1}, {"unschedulable": 2})
    assert "has room for 1; 2 more are away: a1, b1 (cordoned)" in reason.message
    assert reason.unblocks == (
        "allow a wider level, or set topologyPolicy to Preferred",
        "an administrator uncordons the nodes",
    )
    # One domain that is there would do: what is away is not what is missing.
    given = view(without("a1", "c0"), [wanted], QUEUES, running=BUSY[2:3])
    reasons = plan(given, Policy(), 0).waiting[0].reasons
    assert [one.nodes for one in reasons if one.code is Code.TOPOLOGY_NOT_SATISFIED] == [{}]
    assert reasons[0].unblocks[0] == "room is given back within one rack"


def member_beside(nodes: Sequence[NodeFacts], more: Gang, busy: Sequence[Running] = ()) -> Reason:
    """What a gang of two pods is told that has them on the first nodes and one more pod that it does not need."""
    mine = running("g", "q", ["a0", "a1"], cpu=1, gpu=4, cards=[15, 15])
    wanted = structs.replace(
        in_one(more, "rack", nodes=("a0", "a1")), min_member=2, total=3, placed=(("", 2),), accepted=True, ran=True
    )
    return told(decided(nodes, wanted, [*busy, mine]))


def test_a_member_above_the_minimum_is_told_of_the_domain_of_its_gang() -> None:
    reason = member_beside(POOL, gang("g", pods=1, gpu=8))
    assert reason.code is Code.TOPOLOGY_NOT_SATISFIED
    assert (reason.needs, reason.has, reason.nodes) == ({"members": 1}, {"members": 0}, {"match": 2})
    assert reason.message == (
        "needs room for 1 pod (8 × nvidia.com/gpu each) within rack=r1, where other members of its gang are; "
        "2 nodes match there, now with room for 0"
    )
    assert reason.unblocks == ("room is given back within rack=r1",)
    assert member_beside(POOL, gang("g", pods=1, gpu=9)).code is Code.NEVER_FITS


def test_a_member_above_the_minimum_is_told_of_nodes_of_its_domain_that_are_away() -> None:
    away = node("a2", cpu=64, gpu=16, labels={"rack": "r1"})
    other = node("c1", cpu=64, gpu=16, labels={"rack": "r3"})
    reason = member_beside([*POOL, other, replace(away, ready=False)], gang("g", pods=1, gpu=16))
    assert (reason.code, reason.nodes) == (Code.TOPOLOGY_NOT_SATISFIED, {"match": 2, "not ready": 1})
    assert "within rack=r1" in reason.message
    assert reason.message.endswith("1 more is away: a2 (not ready)")
    assert reason.unblocks == ("the nodes are ready again",)


def test_a_gang_that_lost_members_is_told_of_the_domain_of_the_others() -> None:
    wanted = structs.replace(
        in_one(gang("g", pods=1, gpu=8), "rack", nodes=("a0", "a1")), min_member=3, total=3, placed=(("", 2),), ran=True
    )
    mine = running("g", "q", ["a0", "a1"], cpu=1, gpu=4, cards=[15, 15])
    reason = told(decided(POOL, wanted, [mine]))
    assert (reason.code, reason.has, reason.nodes) == (Code.TOPOLOGY_NOT_SATISFIED, {"members": 0}, {"match": 2})
    assert "within rack=r1, where other members of its gang are" in reason.message
