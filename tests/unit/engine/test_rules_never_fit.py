"""Rules about pods that an empty cluster could not keep: with the numbers, and only while no pods of others count."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang, Member, Neighbours
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.taints import Taint
from tests.builders import gang, member, node, pod_class, queue, running, view

POLICY = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "q": queue(priority=1)}
OWN = {"app": "a"}
POOL = [
    node(name, cpu=64, gpu=8, labels={"zone": name[0], "row": "1"} if name != "c0" else {"zone": "c"})
    for name in ("a0", "a1", "b0", "b1", "c0")
]
BUSY = [running(one.name, "low", [one.name], cpu=1, gpu=8, cards=[255]) for one in POOL]


def ruled(gpu: int, *spread: Mapping[str, Any], near: str = "") -> PodClass:
    """A class of pods with these spread constraints, near pods of their own by a label."""
    selector = {"labelSelector": {"matchLabels": OWN}}
    hard = [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **selector, **one} for one in spread
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{**selector, "topologyKey": near}]}
    rules = parse_rules({"podAffinity": required} if near else None, hard, "test", OWN)
    return replace(pod_class(gpu=gpu), rules=rules)


def labelled(members: Sequence[Member], of: Mapping[str, str] = OWN) -> list[Member]:
    """These members with labels."""
    return [structs.replace(one, labels=tuple(of.items())) for one in members]


def alike(pods: int, of: PodClass) -> Gang:
    """A gang of pods of one class."""
    return gang("g", members=labelled([member(f"g-{at}", of) for at in range(pods)]))


def decided(nodes: Sequence[NodeFacts], wanted: Gang, **more: Any) -> Plan:
    """The plan for one gang on these nodes."""
    return plan(view(nodes, [wanted], QUEUES, **more), POLICY, 0)


def told(found: Plan) -> Reason:
    """The only reason of the only gang."""
    ((reason,),) = (one.reasons for one in found.waiting)
    return reason


@pytest.mark.parametrize(
    ("wanted", "has", "says"),
    [
        (
            lambda pods: alike(pods, ruled(4, {})),
            8,
            "spread over zone with maxSkew 1; 5 nodes match, when empty with room",
        ),
        (lambda pods: alike(pods, ruled(4, {})), 8, "for at most 8 so spread: c takes at most 2"),
        (lambda pods: alike(pods, ruled(8, {"maxSkew": 2})), 5, ""),
        (
            lambda pods: alike(pods, ruled(1, {"minDomains": 4})),
            3,
            "none of 3 domains has more than maxSkew, as minDomains is 4",
        ),
        (lambda pods: alike(pods, ruled(1, {"minDomains": 4, "maxSkew": 2})), 6, ""),
        (lambda pods: alike(pods, ruled(4, {"topologyKey": "row"})), 8, "on nodes with the label row, which its rules"),
        (lambda pods: alike(pods, ruled(1, {"topologyKey": "none"})), 0, "with room for 0 on those with it"),
        (
            lambda pods: alike(pods, ruled(4, near="zone")),
            4,
            "in one domain of zone, as these pods must be near each other",
        ),
        (
            lambda pods: alike(pods, ruled(8, near="kubernetes.io/hostname")),
            1,
            "=a0, when empty with room for at most 1",
        ),
        (lambda pods: alike(pods, ruled(1, near="none")), 0, "on nodes with the label none"),
    ],
)
def test_what_an_empty_cluster_could_not_keep_never_fits(wanted: Any, has: int, says: str) -> None:
    if has and wanted(1).waiting[0].pod_class.requests:
        assert decided(POOL, wanted(has)).assignments
    gone = [replace(one, unschedulable=one.name in ("a1", "c0")) for one in POOL]
    for nodes, busy in ((POOL, ()), (POOL, BUSY), (gone, ())):
        found = decided(nodes, wanted(has + 1), running=busy)
        reason = told(found)
        if reason.code is Code.NEVER_FITS and has == 5:
            return  # more than there is in the cluster
        assert reason.code is Code.NEVER_FITS, reason
        assert (reason.needs, reason.has, reason.nodes) == ({"members": has + 1}, {"members": has}, {"match": 5})
        assert says in reason.message
        assert not found.evictions
        assert not found.stats.searched


def test_kinds_that_count_for_one_spread_are_looked_at_together() -> None:
    both = [*(member(f"a{at}", ruled(4, {})) for at in range(5)), *(member(f"b{at}", ruled(3, {})) for at in range(4))]
    reason = told(decided(POOL, gang("g", members=labelled(both))))
    assert (reason.code, reason.needs, reason.has) == (Code.NEVER_FITS, {"members": 9}, {"members": 8})
    # Pods that count and need not be even let the others be as many as they like.
    free = [member(f"b{at}", pod_class(gpu=0)) for at in range(4)]
    mixed = gang("g", members=labelled([*(member(f"a{at}", ruled(4, {})) for at in range(9)), *free]))
    assert not any(one.code is Code.NEVER_FITS for told in decided(POOL, mixed).waiting for one in told.reasons)


def test_pods_of_others_that_count_may_make_room() -> None:
    for wanted, where in ((alike(9, ruled(4, {})), "c0"), (alike(5, ruled(4, near="zone")), "b0")):
        others = Neighbours("test", tuple(OWN.items()), ((where, 1),))
        found = plan(replace(view(POOL, [wanted], QUEUES), neighbours=(others,)), POLICY, 0)
        assert Code.NEVER_FITS not in {reason.code for one in found.waiting for reason in one.reasons}


def test_pods_that_want_to_be_near_others_wait_for_these() -> None:
    members = [member(f"g-{at}", ruled(1, near="zone")) for at in range(3)]
    reasons = decided(POOL, gang("g", members=labelled(members, {"app": "b"}))).waiting[0].reasons
    assert Code.NEVER_FITS not in {one.code for one in reasons}


def test_nodes_that_are_away_are_named_where_they_would_make_it_even() -> None:
    gone = [replace(one, unschedulable=one.name == "c0") for one in POOL]
    reason = told(decided(gone, alike(8, ruled(4, {}))))
    assert (reason.code, reason.has, reason.nodes["unschedulable"]) == (Code.INSUFFICIENT_RESOURCES, {"members": 2}, 1)
    assert "1 more is away: c0 (cordoned)" in reason.message


def test_a_domain_that_does_not_count_while_it_is_tainted_makes_nothing_impossible() -> None:
    away = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
    tainted = [replace(one, taints=(away,)) if one.name == "c0" else one for one in POOL]
    wanted = alike(8, ruled(4, {"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}))
    assert decided(tainted, wanted).assignments
    small = [*POOL[:4], node("c0", cpu=64, gpu=0, labels={"zone": "c"}, taints=(away,))]
    assert decided(small, wanted).assignments
    assert told(decided([*small[:4], replace(small[4], taints=())], wanted)).code is Code.NEVER_FITS


def test_a_cordoned_domain_that_does_not_count_makes_nothing_impossible() -> None:
    """Zone c is cordoned and its node takes none of the pods: they fit while it does not count, and only so long."""
    cordoned = {"unschedulable": True, "taints": (Taint("node.kubernetes.io/unschedulable"),)}
    honoured = alike(8, ruled(4, {"nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}))
    small = node("c0", cpu=64, gpu=0, labels={"zone": "c"})
    gone = replace(small, **cordoned)
    assert len(decided([*POOL[:4], gone], honoured).assignments) == 8
    assert told(decided([*POOL[:4], small], honoured)).code is Code.NEVER_FITS
    assert told(decided([*POOL[:4], gone], alike(8, ruled(4, {})))).code is Code.NEVER_FITS


@pytest.mark.parametrize(("pods", "more"), [(10, {}), (3, {"minDomains": 3})], ids=["room", "domains"])
def test_what_fits_once_a_zone_is_uncordoned_is_not_impossible(pods: int, more: Mapping[str, Any]) -> None:
    """The open zones have too little room, or are too few, and zone c makes up for it."""
    wanted = alike(pods, ruled(4, {"nodeTaintsPolicy": "Honor", **more}))
    third = [node(name, cpu=64, gpu=8, labels={"zone": "c"}) for name in ("c0", "c1")]
    cordoned = {"unschedulable": True, "taints": (Taint("node.kubernetes.io/unschedulable"),)}
    waits = decided([*POOL[:4], *(replace(one, **cordoned) for one in third)], wanted)
    assert not waits.assignments
    assert Code.NEVER_FITS not in {one.code for one in waits.waiting[0].reasons}
    assert len(decided([*POOL[:4], *third], wanted).assignments) == pods
