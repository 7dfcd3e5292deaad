"""What can never fit, with the numbers; what could if nodes were not away; and when either is taken back."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from t9ksched.engine.explain.excluded import TRIED_AGAIN
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang, Member
from t9ksched.model.names import PLUGIN_CHOOSES
from t9ksched.model.node import NodeFacts
from t9ksched.model.podrules import parse_rules
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.taints import Taint
from t9ksched.model.volumes import ATTACH_PREFIX
from tests.builders import GPU, gang, member, node, pod_class, queue, running, table, view

POLICY = Policy(actions=("allocate", "preempt"))
QUEUES = {"low": queue(), "q": queue(priority=1)}
POOL = [node(f"n{at}", cpu=16, gpu=8, labels={"zone": f"z{at % 3}"}) for at in range(6)]
BUSY = [running(f"r{at}", "low", [f"n{at}"], cpu=1, gpu=8, cards=[255]) for at in range(6)]


def apart(key: str, pods: int, gpu: int = 0) -> Gang:
    """Pods no two of which may share a domain."""
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": key}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = gang("g", pods=pods, of=replace(pod_class(gpu=gpu), rules=parse_rules(required, None, "test", {"app": "a"})))
    return structs.replace(made, waiting=tuple(structs.replace(one, labels=(("app", "a"),)) for one in made.waiting))


def roles(chiefs: int, workers: int) -> Gang:
    """Chiefs with 8 cards and workers with 5: no two of them share a node."""
    members = [member(f"c{at}", pod_class(gpu=8), "chief") for at in range(chiefs)]
    return gang("g", members=members + [member(f"w{at}", pod_class(gpu=5), "worker") for at in range(workers)])


def decided(nodes: list[NodeFacts], wanted: Gang, **more: Any) -> Plan:
    """The plan for one gang on these nodes, full of what could be evicted unless said otherwise."""
    return plan(view(nodes, [wanted], QUEUES, **{"running": BUSY, **more}), POLICY, 0)


def told(found: Plan) -> Reason:
    """The only reason of the only gang."""
    ((reason,),) = (one.reasons for one in found.waiting)
    return reason


def test_volumes_are_told_with_their_driver() -> None:
    disks = f"{ATTACH_PREFIX}ebs.example.com"
    nodes = [node("n0", **{disks: 4})]
    reason = told(decided(nodes, gang("g", of=pod_class(**{disks: 5})), running=[]))
    assert reason.code is Code.NEVER_FITS
    assert reason.message == "needs 5 volumes of ebs.example.com on one node, the largest has 4; 1 node matches"


@pytest.mark.parametrize(
    ("wanted", "needs", "has", "says"),
    [
        (roles(3, 4), {"members": 7}, {"members": 6}, "needs room for 7 pods together (3 with 8 × nvidia.com/gpu and"),
        (apart("kubernetes.io/hostname", 7), {"members": 7}, {"members": 6}, "as no two of these pods may be in one"),
        (apart("zone", 4), {"members": 4}, {"members": 3}, "needs 4 domains of zone"),
        (gang("g", pods=200, gpu=1), {"members": 200}, {"members": 48}, "when empty with room for 48"),
        (
            gang("g", members=[*gang("a", pods=3, gpu=5).waiting, *gang("b", pods=36, gpu=1).waiting]),
            {GPU: 51},
            {GPU: 48},
            "its pods need 51 × nvidia.com/gpu together; 6 nodes match, when empty with 48",
        ),
        (
            gang("g", members=[*gang("a", pods=6, gpu=6).waiting, *gang("b", pods=3, gpu=4).waiting]),
            {"members": 9},
            {},
            "its 9 pods (6 with 6 × nvidia.com/gpu and 3 with 4 × nvidia.com/gpu each) fit together in no arrangement;",
        ),
        (
            gang("g", pods=7, of=pod_class(gpu=1, ports=[80, 443])),
            {"members": 7},
            {"members": 6},
            "needs room for 7 pods with 1 × nvidia.com/gpu and host ports 80, 443 each;",
        ),
    ],
    ids=["roles", "hosts", "zones", "cluster", "cards", "arrangement", "ports"],
)
def test_it_is_told_with_the_numbers_and_no_victims_are_searched(
    wanted: Gang, needs: dict[str, int], has: dict[str, int], says: str
) -> None:
    found = decided(POOL, wanted)
    reason = told(found)
    assert reason.code is Code.NEVER_FITS
    assert (reason.needs, reason.has, reason.nodes) == (needs, has, {"match": 6})
    assert says in reason.message
    assert reason.unblocks
    assert found.stats.searched == 0
    assert not found.evictions


@pytest.mark.parametrize(
    "wanted",
    [roles(3, 3), apart("kubernetes.io/hostname", 6), apart("zone", 3), gang("g", pods=48, gpu=1)],
    ids=["roles", "hosts", "zones", "cluster"],
)
def test_one_pod_fewer_fits_when_others_go(wanted: Gang) -> None:
    found = decided(POOL, wanted)
    assert found.evictions or found.assignments


AWAY: dict[str, tuple[dict[str, Any], str]] = {
    "not ready": ({"ready": False}, "1 more is away: n5 (not ready)"),
    "unschedulable": ({"unschedulable": True}, "1 more is away: n5 (cordoned)"),
    "taints": ({"taints": (Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)}, "1 more is away: n5 (tainted)"),
    "card holders": (
        {"unsure": True},
        "1 more is away: n5 (gives no cards now: which ones its pods hold is not certain)",
    ),
}


@pytest.mark.parametrize("state", AWAY)
def test_nodes_that_are_away_are_named_where_without_them_there_is_too_little(state: str) -> None:
    """But not those that would take no pod of it if they were there."""
    how, says = AWAY[state]
    nodes = [*POOL[:5], replace(POOL[5], **how), node("bare", labels=dict(POOL[5].labels), unschedulable=True)]
    reason = told(decided(nodes, gang("g", pods=6, gpu=8), running=BUSY[:5]))
    assert reason.code is Code.INSUFFICIENT_RESOURCES
    assert reason.nodes[state] == 1
    assert says in reason.message
    assert reason.message.count("(") == says.count("(")
    assert len(reason.unblocks) == 1
    # They are not what is missing where the others would do.
    reason = told(plan(view(nodes, [gang("g", pods=5, gpu=8)], QUEUES, running=BUSY[:5]), Policy(), 0))
    assert state not in reason.nodes
    # Even with them.
    assert told(decided(nodes, gang("g", pods=7, gpu=8), running=BUSY[:5])).code is Code.NEVER_FITS


FIRST = (("zone", "z0"),)


def there(wanted: Gang) -> Gang:
    """The gang with pods for the nodes of the first zone alone, of which there are two."""
    members = [structs.replace(one, pod_class=replace(one.pod_class, node_selector=FIRST)) for one in wanted.waiting]
    return structs.replace(wanted, waiting=tuple(members))


@pytest.mark.parametrize("state", AWAY)
@pytest.mark.parametrize(
    ("least", "most"),
    [
        (gang("g", pods=2, gpu=8), gang("g", pods=3, gpu=8)),
        (gang("g", gpu=8), gang("g", gpu=9)),
        (gang("g", cpu=16, gpu=1), gang("g", cpu=17, gpu=1)),
        (roles(1, 1), roles(2, 1)),
        (apart("kubernetes.io/hostname", 2, gpu=1), apart("kubernetes.io/hostname", 3, gpu=1)),
    ],
    ids=["pods", "cards", "cpu", "roles", "apart"],
)
def test_nodes_that_are_all_away_are_named_where_they_would_do(least: Gang, most: Gang, state: str) -> None:
    how, words = AWAY[state]
    gone = [replace(one, **how) if at % 3 == 0 else one for at, one in enumerate(POOL)]
    reason = told(decided(gone, there(least), running=()))
    assert reason.code is Code.NO_NODE_MATCHES
    assert reason.nodes[state] == 2
    assert f"2 are away: n0, n3 ({words.partition('(')[2]}" in reason.message
    assert len(reason.unblocks) == 2
    found = decided(gone, there(most), running=())
    assert (told(found).code, told(found).nodes["match"]) == (Code.NEVER_FITS, 2)
    assert told(decided(POOL, there(most), running=())) == told(found)


CHIEFS = [member(f"c{at}", pod_class(cpu=9), "chief") for at in range(3)]


def unrecorded(pods: int, gpu: int) -> list[Member]:
    """Workers whose cards cannot be written down, because the database is away."""
    return [member(f"w{at}", replace(pod_class(cpu=4, gpu=gpu), unrecorded=True), "worker") for at in range(pods)]


@pytest.mark.parametrize(
    ("members", "by_number", "code", "needs"),
    [
        (unrecorded(6, 8), 0, Code.DATABASE_AWAY, {}),
        (unrecorded(6, 8), 1, Code.DATABASE_AWAY, {}),
        (unrecorded(7, 8), 0, Code.NEVER_FITS, {"members": 7}),
        (unrecorded(7, 8), 1, Code.NEVER_FITS, {"members": 7}),
        (unrecorded(1, 9), 0, Code.NEVER_FITS, {GPU: 9}),
        ([*CHIEFS, *unrecorded(6, 8)], 0, Code.DATABASE_AWAY, {}),
        ([*CHIEFS, *unrecorded(7, 8)], 0, Code.NEVER_FITS, {"members": 7}),
        ([*CHIEFS, *unrecorded(18, 2)], 0, Code.NEVER_FITS, {"cpu": 99_000}),
        ([*CHIEFS, *unrecorded(18, 2)], 1, Code.NEVER_FITS, {"cpu": 99_000}),
    ],
)
def test_the_database_is_not_awaited_for_what_would_not_fit_once_it_answers(
    members: list[Member], by_number: int, code: Code, needs: dict[str, int]
) -> None:
    nodes = [replace(one, card_mode=PLUGIN_CHOOSES) if at < by_number else one for at, one in enumerate(POOL)]
    reason = told(decided(nodes, gang("g", members=members), running=()))
    assert (reason.code, reason.needs) == (code, needs)


def test_nodes_that_a_job_avoids_are_away_for_it() -> None:
    avoided = replace(pod_class(gpu=8), avoided=("gone", "n5"))
    reason = told(decided(POOL, gang("g", pods=6, of=avoided), running=BUSY[:5]))
    assert reason.code is Code.INSUFFICIENT_RESOURCES
    assert (reason.nodes["avoided"], reason.nodes["match"]) == (1, 5)
    assert "1 more is away: n5 (avoided: it rejected a pod of the job)" in reason.message
    assert reason.unblocks == (TRIED_AGAIN,)
    assert told(decided(POOL, gang("g", pods=7, of=avoided), running=BUSY[:5])).code is Code.NEVER_FITS
    found = decided(POOL, gang("g", pods=5, of=avoided), running=BUSY[:5])
    assert found.evictions
    assert {one.node for one in found.reservations} == {f"n{at}" for at in range(5)}


def test_cards_of_nodes_whose_accelerators_are_not_ready_may_be_others_by_then() -> None:
    changing = replace(POOL[5], mode="NotReady", labels={**POOL[5].labels, "nvidia.com/gpu.product": ""})
    reason = told(decided([*POOL[:5], changing], gang("g", pods=6, gpu=8), running=BUSY[:5]))
    assert reason.code is Code.INSUFFICIENT_RESOURCES
    assert reason.nodes["accelerators not ready"] == 1


@pytest.mark.parametrize("wanted", [roles(3, 4), apart("kubernetes.io/hostname", 7), gang("g", pods=49, gpu=1)])
def test_it_is_taken_back_when_a_node_or_the_queue_changes(wanted: Gang) -> None:
    live, memory = table(POOL), Memory()
    few = {"q": queue(priority=1, selector={"zone": "z0"})}
    latest: list[Reason] = []

    def code(queues: dict[str, Any]) -> str | None:
        found = plan(view(live, [wanted], queues), POLICY, 0, memory)
        latest.extend(reason for one in found.waiting for reason in one.reasons)
        return str(found.waiting[0].reasons[0].code) if found.waiting else None

    assert code(few) == code(few) == "NeverFits"
    assert code({"q": queue(priority=1)}) == "NeverFits"
    live.upsert(node("n6", cpu=16, gpu=8, unschedulable=True))
    assert code({"q": queue(priority=1)}) == "InsufficientResources"
    assert latest[-1].nodes["unschedulable"] == 1
    assert "1 more is away: n6 (cordoned)" in latest[-1].message
    live.upsert(node("n6", cpu=16, gpu=8))
    assert code({"q": queue(priority=1)}) is None
    assert code(few) == "NeverFits"
