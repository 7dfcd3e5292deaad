"""The scheduling policy as tables: a cluster, queues and gangs are given, the plan is expected."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from t9ksched.engine.planner import Planner
from t9ksched.engine.policy import Policy
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang
from t9ksched.model.node import NodeFacts
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.taints import Taint
from tests.builders import GPU, gang, member, node, pod_class, queue, table, view
from tests.unit.engine.deciding import A100, FOUR, NOW, POOL, codes, decide, starts, where

# --- order


def test_the_queue_with_the_smaller_dominant_share_goes_first() -> None:
    """The fairness example: shares 3/6 and 5/8 against 3/8 and 1/2."""
    queues = {
        "a": queue(quota={"cpu": 6, "memory": 8}, used={"cpu": 3, "memory": 5}),
        "b": queue(quota={"cpu": 8, "memory": 2}, used={"cpu": 3, "memory": 1}),
    }
    gangs = [gang("in-a", queue="a", cpu=1, memory=1), gang("in-b", queue="b", cpu=1, memory=1)]
    one_slot = [node("n0", cpu=1, memory="1Gi")]
    assert starts(decide(view(one_slot, gangs, queues))) == ["in-b"]
    by_priority = {**queues, "a": queue(quota={"cpu": 6, "memory": 8}, used={"cpu": 3, "memory": 5}, priority=1)}
    assert starts(decide(view(one_slot, gangs, by_priority))) == ["in-a"]
    assert starts(decide(view(one_slot, gangs, queues), Policy(queue_order=("basic",)))) == ["in-a"]


def test_shares_are_asked_again_after_each_commitment() -> None:
    queues = {name: queue(quota={"cpu": 10}) for name in ("a", "b")}
    gangs = [gang(f"{name}{at}", queue=name, cpu=2, created=at) for name in ("a", "b") for at in range(3)]
    assert starts(decide(view(FOUR, gangs, queues))) == ["a0", "b0", "a1", "b1", "a2", "b2"]


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ({"a": {"priority": 1}, "b": {"priority": 2}}, "b"),
        ({"a": {"created": 2}, "b": {"created": 1}}, "b"),
        ({"b": {"created": 1}, "a": {"created": 1}}, "a"),
        ({"a": {"priority": 9}, "b": {"refilling": True}}, "b"),
        ({"a": {"priority": 9}, "b": {"placed": {"": 1}}}, "b"),
        ({"a": {"priority": 9}, "b": {"ran": True}}, "a"),
    ],
    ids=["priority", "age", "uid", "refill before new", "holding places before new", "evicted whole as any other"],
)
def test_order_of_gangs_in_a_queue(case: dict[str, dict[str, object]], first: str) -> None:
    gangs = [gang(name, cpu=1, **{"created": 5, **more}) for name, more in case.items()]  # type: ignore[arg-type]
    assert starts(decide(view([node("n0", cpu=1)], gangs))) == [first]


@pytest.mark.parametrize(
    ("ordering", "started", "stays"),
    [
        ("BestEffort", ["small", "cpu"], {"big": ["InsufficientResources"]}),
        ("Backfill", ["small", "cpu"], {"big": ["InsufficientResources"]}),
        ("Strict", ["cpu"], {"big": ["InsufficientResources"], "small": ["Behind"]}),
    ],
)
def test_which_gangs_may_pass_a_blocked_one(ordering: str, started: list[str], stays: dict[str, list[str]]) -> None:
    nodes = [node("cards", gpu=8, labels={"kind": "gpu"}), node("plain", labels={"kind": "cpu"})]
    live = table(nodes)
    live.charge(live.row("cards"), pod_class(gpu=4), CardGrant.packed({GPU: 0b1111}))
    gangs = [
        gang("big", gpu=8),
        gang("small", gpu=1),
        gang("cpu", of=pod_class(selector={"kind": "cpu"})),
    ]
    found = decide(view(live, gangs, {"q": queue(ordering=ordering)}))  # type: ignore[arg-type]
    assert (starts(found), codes(found)) == (started, stays)


def test_a_strict_queue_blocked_by_quota_lets_pass_what_does_not_use_it() -> None:
    queues = {"q": queue(ordering="Strict", quota={GPU: 4}, used={GPU: 4})}
    gangs = [gang("first", gpu=1), gang("second", gpu=1), gang("cpu")]
    found = decide(view(FOUR, gangs, queues))
    assert starts(found) == ["cpu"]
    assert codes(found) == {"first": ["QuotaExceeded"], "second": ["Behind"]}


def test_in_a_strict_queue_no_gang_grows_into_what_a_blocked_one_waits_for() -> None:
    nodes = [node("n0", cpu=8), node("n1", cpu=2, labels={"kind": "small"})]
    elastic = gang("elastic", pods=3, min_member=1, cpu=2)
    blocked = gang("blocked", pods=2, cpu=8)
    for ordering, placed in (("BestEffort", 3), ("Strict", 1)):
        found = decide(view(nodes, [elastic, blocked], {"q": queue(ordering=ordering)}))  # type: ignore[arg-type]
        assert len(found.assignments) == placed
    assert [str(reason.code) for reason in found.surplus[0].reasons] == ["Behind"]
    assert codes(found) == {"blocked": ["NeverFits"]}, "strict order asks not whether it can ever start"
    elsewhere = gang("elastic", pods=2, min_member=1, of=pod_class(cpu=1, selector={"kind": "small"}))
    found = decide(view(nodes, [elsewhere, blocked], {"q": queue(ordering="Strict")}))
    assert where(found) == {"elastic-0": "n1", "elastic-1": "n1"}


# --- quota


@pytest.mark.parametrize(
    ("quota", "used", "request_", "fits"),
    [
        ({"cpu": 40}, {"cpu": 38}, {"cpu": 2}, True),
        ({"cpu": 40}, {"cpu": 38}, {"cpu": "2001m"}, False),
        ({"cpu": 40}, {"cpu": 50}, {"cpu": 0, "memory": "1Gi"}, True),
        ({GPU: 0}, {}, {"gpu": 1}, False),
        ({GPU: 0}, {}, {"cpu": 1}, True),
        ({}, {"cpu": 10_000}, {"cpu": 1}, True),
    ],
    ids=["equality is allowed", "one more is not", "not asked for", "zero forbids", "zero of another", "no quota"],
)
def test_quota(quota: dict[str, int], used: dict[str, int], request_: dict[str, int | str], fits: bool) -> None:
    found = decide(view(FOUR, [gang("g", **request_)], {"q": queue(quota=quota, used=used)}))  # type: ignore[arg-type]
    assert bool(found.assignments) is fits
    assert codes(found) == ({} if fits else {"g": ["QuotaExceeded"]})


def test_quota_is_charged_while_the_cycle_goes_on() -> None:
    gangs = [gang(f"g{at}", pods=2, gpu=1, created=at) for at in range(3)]
    found = decide(view(FOUR, gangs, {"q": queue(quota={GPU: 5})}))
    assert starts(found) == ["g0", "g1"]
    (reason,) = found.waiting[0].reasons
    assert (reason.code, reason.needs, reason.has) == (Code.QUOTA_EXCEEDED, {GPU: 2}, {GPU: 1})


# --- gangs


@pytest.mark.parametrize(
    ("asked", "bound", "waits"),
    [
        (gang("g", pods=4, gpu=8), 4, []),
        (gang("g", pods=5, gpu=8), 0, ["NeverFits"]),
        (gang("g", pods=6, min_member=2, gpu=8), 4, []),
        (gang("g", pods=2, min_member=3, gpu=1), 0, ["GangIncomplete"]),
        (gang("g", pods=2, min_member=3, placed={"": 1}, gpu=1), 2, []),
        (gang("g", pods=3, min_member=3, roles={"master": 1}, gpu=1), 0, ["GangIncomplete"]),
        (gang("g", pods=3, min_member=2, total=1, gpu=1), 0, ["GangIncomplete"]),
    ],
    ids=["whole", "too large", "surplus as room allows", "too few", "refill", "role missing", "failed not counted"],
)
def test_all_or_nothing(asked: Gang, bound: int, waits: list[str]) -> None:
    found = decide(view(FOUR, [asked]))
    assert len(found.assignments) == bound
    assert codes(found) == ({"g": waits} if waits else {})


def test_roles_are_placed_before_others_when_the_minimum_is_small() -> None:
    worker, master = pod_class(gpu=8), pod_class(gpu=8)
    members = [*(member(f"w{at}", worker, "worker") for at in range(4)), member("m", master, "master")]
    found = decide(view(FOUR[:2], [gang("g", members=members, min_member=2, roles={"master": 1, "worker": 1})]))
    assert set(where(found)) == {"w0", "m"}
    assert [entry.gang for entry in found.surplus] == ["g"]


def test_surplus_comes_after_all_minima() -> None:
    gangs = [gang("elastic", pods=4, min_member=1, gpu=8, priority=9), gang("later", pods=2, gpu=8)]
    found = decide(view(FOUR, gangs))
    assert starts(found) == ["elastic", "later"]
    assert [one.pod for one in found.assignments] == ["elastic-0", "later-0", "later-1", "elastic-1"]
    assert found.surplus[0].reasons[0].code is Code.INSUFFICIENT_RESOURCES


def test_surplus_keeps_the_quota() -> None:
    found = decide(view(FOUR, [gang("g", pods=6, min_member=1, gpu=1)], {"q": queue(quota={GPU: 4})}))
    assert len(found.assignments) == 4
    assert [reason.code for reason in found.surplus[0].reasons] == [Code.QUOTA_EXCEEDED]


def test_a_launcher_and_its_workers_share_the_nodes() -> None:
    """The launcher must not take the cpu the workers need, whichever comes first in the gang."""
    launcher, worker = pod_class(cpu=8), pod_class(cpu=96, gpu=8)
    nodes = [node("n0", cpu=96, gpu=8), node("n1", cpu=96, gpu=8), node("n2", cpu=8)]
    members = [member("l", launcher, "launcher"), member("w0", worker), member("w1", worker)]
    found = decide(view(nodes, [gang("g", members=members)]))
    assert where(found) == {"l": "n2", "w0": "n0", "w1": "n1"}


def test_another_order_of_kinds_is_tried_when_the_first_fails() -> None:
    """The larger pod alone would go to `n1`, where it leaves one cpu that no pod can use."""
    large, small = pod_class(cpu=5, memory=0), pod_class(cpu=3, memory=0)
    nodes = [node("n0", cpu=8), node("n1", cpu=6)]
    members = [member("l", large), *(member(f"s{at}", small) for at in range(3))]
    assert where(decide(view(nodes, [gang("g", members=members[:1])]))) == {"l": "n1"}
    found = decide(view(nodes, [gang("g", members=members)]))
    assert where(found) == {"l": "n0", "s0": "n1", "s1": "n1", "s2": "n0"}
    assert len(found.assignments) == 4


def test_blocked_members_explain_a_gang_that_lacks_them() -> None:
    gated = Reason(Code.SCHEDULING_GATED, "pod x is gated")
    found = decide(view(FOUR, [gang("g", pods=1, min_member=2, total=2, blocked=[gated])]))
    assert found.waiting[0].reasons == (gated,)
    enough = decide(view(FOUR, [gang("g", pods=2, min_member=2, total=3, blocked=[gated])]))
    assert len(enough.assignments) == 2
    master = {"total": 3, "total_roles": {"": 2, "master": 1}, "roles": {"master": 1}}
    without = decide(view(FOUR, [gang("g", pods=2, min_member=2, blocked=[gated], **master)]))  # type: ignore[arg-type]
    assert (without.assignments, without.waiting[0].reasons) == ((), (gated,))


# --- queues


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"queue": "closed"}, "QueueClosed"),
        ({"queue": "closed", "accepted": True}, None),
        ({"queue": "closed", "ran": True}, None),
        ({"queue": "gone"}, "QueueNotFound"),
    ],
)
def test_closed_and_unknown_queues(more: dict[str, object], code: str | None) -> None:
    found = decide(view(FOUR, [gang("g", gpu=1, **more)], {"closed": queue(closed=True)}))  # type: ignore[arg-type]
    assert codes(found) == ({"g": [code]} if code else {})


def test_positions_count_the_waiting_gangs_of_a_queue() -> None:
    gangs = [
        gang("a", gpu=9, priority=1),
        gang("b", gpu=1, priority=9),
        gang("c", gpu=9, priority=5),
        gang("d", queue="gone"),
    ]
    found = decide(view(FOUR, gangs, {"q": queue()}))
    assert [(entry.gang, entry.position) for entry in found.waiting] == [("d", 0), ("c", 1), ("a", 2)]


# --- holds


@pytest.mark.parametrize(
    ("hold", "started"),
    [
        ({"owner": "mine"}, ["mine"]),
        ({"owner": "else"}, []),
        ({"owner": "else", "until": NOW}, ["mine"]),
        ({"owner": "else", "until": NOW + 1}, []),
        ({"owner": "else", "since": NOW + 1}, ["mine"]),
        ({"owner": "else", "node": "lost"}, ["mine"]),
    ],
    ids=["its own", "another's", "over", "not over", "not yet", "node lost"],
)
def test_held_room_is_its_owners(hold: dict[str, object], started: list[str]) -> None:
    held = Reservation(**{"node": "n", "pod_class": pod_class(gpu=8), "kind": ReservationKind.REFILL, **hold})  # type: ignore[arg-type]
    found = decide(view([node("n", gpu=8)], [gang("mine", gpu=4)], reservations=[held]))
    assert starts(found) == started
    if not started:
        assert codes(found) == {"mine": ["HeldForOther", "InsufficientResources"]}
        assert found.waiting[0].reasons[0].message == "it would fit, but room is held for 1 other job (refill)"


def test_strict_order_does_not_stop_a_gang_with_its_own_room() -> None:
    held = Reservation("promised", "n", pod_class(gpu=4), kind=ReservationKind.VICTIMS)
    gangs = [gang("ahead", gpu=8, priority=9), gang("promised", gpu=4), gang("behind", gpu=4)]
    found = decide(view([node("n", gpu=8)], gangs, {"q": queue(ordering="Strict")}, [held]))
    assert starts(found) == ["promised"]
    assert codes(found) == {"ahead": ["HeldForOther", "InsufficientResources"], "behind": ["Behind"]}


@pytest.mark.parametrize("topology", ["None", "Preferred", "Required"])
@pytest.mark.parametrize(
    ("taken", "nodes", "started"),
    [
        ({}, ["n0", "n0", "n1"], ["promised"]),
        ({"n1": 8}, [], []),  # n0 has room for all three, but a gang ahead waits for a part of that
        ({"n0": 8}, [], []),  # and so have n0 and n1
    ],
    ids=["whole", "lost one", "lost another"],
)
def test_in_a_strict_queue_promised_room_is_all_that_is_not_behind(
    topology: str, taken: dict[str, int], nodes: list[str], started: list[str]
) -> None:
    live = table([node(name, gpu=gpu, labels={"zone": "z"}) for name, gpu in (("n0", 12), ("n1", 8), ("n2", 4))])
    for name, cards in taken.items():
        live.charge(["n0", "n1", "n2"].index(name), pod_class(gpu=cards), CardGrant.packed({GPU: (1 << cards) - 1}))
    holds = [
        Reservation("promised", name, pod_class(gpu=4), kind=ReservationKind.VICTIMS) for name in ("n0", "n0", "n1")
    ]
    ahead, promised = gang("ahead", pods=4, gpu=4, priority=9), gang("promised", pods=3, gpu=4)
    gangs = [ahead, promised if topology == "None" else replace(promised, topology=topology, levels=("zone",))]
    found = decide(view(live, gangs, {"q": queue(ordering="Strict")}, holds))
    assert starts(found) == started
    assert sorted(one.node for one in found.assignments) == nodes
    if not started:
        assert codes(found)["promised"][-1] == "Behind"
    free = decide(view(live, gangs, {"q": queue(ordering="BestEffort")}, holds))
    assert starts(free) == ["promised"]


def test_room_left_of_a_used_hold_is_free_again() -> None:
    """`early` fails while the room is held; `owner` uses a part of it, so `late`, which asks alike, fits."""
    held = Reservation("owner", "n", pod_class(gpu=8), ReservationKind.BINDING)
    gangs = [gang("early", gpu=4, priority=9), gang("owner", gpu=4, priority=5), gang("late", gpu=4)]
    found = decide(view([node("n", gpu=8)], gangs, reservations=[held]))
    assert starts(found) == ["owner", "late"]


# --- reasons


def reason_of(nodes: Sequence[NodeFacts], asked: Gang, **more: object) -> Reason:
    found = decide(view(nodes, [asked], **more))  # type: ignore[arg-type]
    return found.waiting[0].reasons[0]


def test_insufficient_on_one_node_says_what_the_best_has() -> None:
    live = table([node("n0", gpu=8), node("n1", gpu=8)])
    live.charge(0, pod_class(gpu=2), CardGrant.packed({GPU: 0b11}))
    live.charge(1, pod_class(gpu=3), CardGrant.packed({GPU: 0b111}))
    (entry,) = decide(view(live, [gang("g", gpu=8)])).waiting
    (reason,) = entry.reasons
    assert reason.message == "needs 8 × nvidia.com/gpu on one node; 2 nodes match, best has 6 free"
    assert (reason.needs, reason.has, reason.nodes) == ({GPU: 8}, {GPU: 6}, {"match": 2, "fit": 0})
    assert reason.unblocks == ("2 × nvidia.com/gpu more is given back on one node",)


def test_insufficient_when_no_node_has_all_at_once() -> None:
    live = table([node("n0", cpu=8, gpu=8), node("n1", cpu=8, gpu=8)])
    live.charge(0, pod_class(cpu=7))
    live.charge(1, pod_class(gpu=7))
    (entry,) = decide(view(live, [gang("g", cpu=4, gpu=4)])).waiting
    assert entry.reasons[0].message == "needs 4 cpu on one node; 2 nodes match, the closest has 1 free"


def test_never_fits_names_the_largest_node() -> None:
    reason = reason_of([node("n0", gpu=8), node("n1", gpu=4)], gang("g", gpu=16))
    assert reason.code is Code.NEVER_FITS
    assert reason.message == "needs 16 × nvidia.com/gpu on one node, the largest has 8; 2 nodes match"


def test_no_node_matches_counts_by_constraint() -> None:
    reason = reason_of(POOL, gang("g", of=pod_class(selector={"rank": "3"})), queues={"q": queue(selector=A100)})
    assert reason.code is Code.NO_NODE_MATCHES
    assert reason.nodes == {"total": 6, "match": 0, "queue": 1, "selector": 5}
    cordoned = reason_of(POOL[1:5], gang("g"))
    assert cordoned.nodes == {"total": 4, "match": 0, "taints": 1, "unschedulable": 1, "not ready": 2}
    taint = Taint("node.kubernetes.io/unreachable", "", "NoSchedule")
    lost = reason_of([node("n0", gpu=1, ready=False, taints=(taint,))], gang("g"))
    assert lost.nodes == {"total": 1, "match": 0, "not ready": 1}


def test_quota_and_what_can_never_be_are_told_together() -> None:
    queues = {"q": queue(quota={GPU: 4})}
    found = decide(view(FOUR, [gang("g", gpu=16)], queues))
    assert codes(found) == {"g": ["QuotaExceeded", "NeverFits"]}


@pytest.mark.parametrize(
    "asked",
    [
        gang("g", of=pod_class(cpu=0, memory=0)),
        gang("g", cpu="1e30"),
        gang("g", memory="16Ei", pods=3),
        gang("g", **{"no.such/resource": 1}),
        gang("g", pods=0, min_member=1),
        gang("g", pods=2, min_member=7, roles={"a": 5, "b": 5}),
        gang("g", pods=100_000, gpu=1),
    ],
    ids=["asks for nothing", "1e30", "16Ei", "unknown resource", "no pods", "roles above members", "huge"],
)
@pytest.mark.parametrize("nodes", [[], FOUR], ids=["no nodes", "four nodes"])
def test_odd_gangs_get_a_reason_and_stop_no_other_gang(asked: Gang, nodes: list[NodeFacts]) -> None:
    found = decide(view(nodes, [asked, gang("fine", queue="other", gpu=1)]))
    assert ("fine" in starts(found)) == bool(nodes)
    assert all(entry.reasons for entry in found.waiting)


# --- work


def test_gangs_that_ask_alike_cost_one_attempt() -> None:
    gangs = [gang(f"g{at}", gpu=9) for at in range(50)] + [gang(f"h{at}", pods=2, gpu=9) for at in range(50)]
    found = decide(view(FOUR, gangs))
    assert (found.stats.judged, found.stats.tried, found.stats.alike) == (100, 2, 98)


def test_slices_give_the_same_plan() -> None:
    given = view(FOUR, [gang(f"g{at}", pods=1 + at % 3, gpu=1 + at % 4) for at in range(12)])
    planner = Planner(given, Policy(), NOW)
    steps = 1
    while not planner.step(1):
        steps += 1
    assert steps >= 12
    assert planner.result().to_bytes() == decide(given).to_bytes()


def test_thousands_of_unlike_classes_do_not_change_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of classes are given back when there are many; a held class that lost its own must still be undone."""
    gangs = [gang(f"g{at}", pods=2, of=pod_class(cpu=f"{1000 + at}m", gpu=1 + at % 3)) for at in range(30)]
    held = [
        Reservation("g29", "n3", pod_class(cpu=9, gpu=2), ReservationKind.BINDING),
        Reservation("x", "n2", pod_class(gpu=1), ReservationKind.BINDING),
    ]
    given = view(FOUR, gangs, reservations=held)
    before = decide(given).to_bytes()
    monkeypatch.setattr("t9ksched.engine.placement.trial._MOST_COLUMNS", 1)
    assert decide(given).to_bytes() == before
