"""Gangs that have waited long collect room: who does, on which nodes, and who may not take it."""

import random
from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.kernel.reference import Reference
from t9ksched.engine.kernel.tables import Run, Tables
from t9ksched.engine.memory import Memory
from t9ksched.engine.order import gang_key
from t9ksched.engine.planner import Plan, Planner, plan
from t9ksched.engine.policy import Planning, Policy, Starvation
from t9ksched.engine.view import View, dump, load
from t9ksched.engine.work import finish
from t9ksched.model.cardchoice import CardChoice
from t9ksched.model.gang import ExpectedEnd, Gang
from t9ksched.model.queue_starvation import QueueStarvation
from t9ksched.model.reasons import Code
from tests.ahead import HOUR, Pool
from tests.builders import gang, member, node, pod_class, queue, running, view
from tests.counting import Lines, pieces
from tests.kernels import running as with_kernel

MINUTE = 60 * 1_000_000_000
POLICY = Policy(starvation=Starvation(1800, 20))
LATE = 31 * MINUTE
RACKS = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}
QUEUES = {
    "q": queue(ordering="Backfill"),
    "other": queue(ordering="BestEffort"),
    "high": queue(ordering="BestEffort", priority=5),
    "plain": queue(ordering="BestEffort"),
}


def waits(name: str, pods: int, cards: int = 1, of: str = "q", since: int = 0) -> Gang:
    shape = pod_class(cpu=0, memory=0, gpu=cards)
    return structs.replace(gang(name, of, pods, of=shape), created=since * MINUTE)


def cluster(nodes: int, cards: int, held: dict[str, int], *gangs: Gang, racks: dict[str, str] | None = None) -> View:
    """Nodes with so many cards each, of which `held` are in use, by node, for no known time; `racks` are of nodes."""
    one = pod_class(cpu=0, memory=0, gpu=1)
    used = [running(f"r-{name}", "plain", [name] * count, of=one) for name, count in held.items()]
    racks = racks or {}
    labels = [{"rack": racks[f"n{at}"]} if racks else {} for at in range(nodes)]
    return view([node(f"n{at}", gpu=cards, labels=labels[at]) for at in range(nodes)], gangs, QUEUES, running=used)


def started(found: Plan) -> set[str]:
    return {one.gang for one in found.assignments}


def codes(found: Plan, name: str) -> list[str]:
    return next([str(reason.code) for reason in one.reasons] for one in found.waiting if one.gang == name)


def test_before_its_time_others_pass_and_after_it_they_leave_it_the_room() -> None:
    seen = cluster(2, 2, {"n0": 2, "n1": 1}, waits("large", 4), waits("small", 1, since=1))
    assert started(plan(seen, POLICY, 29 * MINUTE)) == {"small"}
    found = plan(seen, POLICY, LATE)
    assert started(found) == set()
    assert codes(found, "large") == [Code.INSUFFICIENT_RESOURCES, Code.STARVING]
    assert codes(found, "small")[0] == Code.HELD_FOR_OTHER
    assert started(plan(seen, Policy(starvation=None), LATE)) == {"small"}, "only where the policy says so"


def test_room_is_collected_until_the_gang_starts() -> None:
    """Cards come free one by one; each stays free, and the small jobs that keep coming wait."""
    small = [waits(f"s{at}", 1, since=1) for at in range(3)]
    memory = Memory()
    for held in (4, 3, 2, 1):
        seen = cluster(1, 4, {"n0": held}, waits("large", 4), *small)
        assert started(plan(seen, POLICY, LATE, memory)) == set()
    found = plan(cluster(1, 4, {}, waits("large", 4), *small), POLICY, LATE, memory)
    assert started(found) == {"large"}


@pytest.mark.parametrize(("of", "starts"), [("other", False), ("high", True), ("q", False)])
def test_whose_room_it_is(of: str, starts: bool) -> None:
    """Others of its queue's priority leave it the room, whatever the ordering of their queue; larger ones do not."""
    seen = cluster(1, 4, {"n0": 3}, waits("large", 4), waits("small", 1, of=of, since=1))
    assert ("small" in started(plan(seen, POLICY, LATE))) is starts


def test_of_an_ordering_that_lets_all_pass_no_gang_collects() -> None:
    seen = cluster(1, 4, {"n0": 3}, waits("large", 4, of="other"), waits("small", 1, of="other", since=1))
    assert started(plan(seen, POLICY, LATE)) == {"small"}


def test_room_on_nodes_that_it_does_not_need_is_free_for_others() -> None:
    seen = cluster(3, 2, {"n0": 1, "n1": 2, "n2": 1}, waits("large", 1, cards=2), waits("small", 1, since=1))
    found = plan(seen, POLICY, LATE)
    assert started(found) == {"small"}
    assert {one.node for one in found.assignments} == {"n2"}, "room is collected on n0"


def test_room_is_collected_where_most_of_it_is_free() -> None:
    """Cards decide, whatever else is free there."""
    seen = cluster(3, 2, {"n0": 2, "n1": 1, "n2": 1}, waits("large", 1, cards=2), waits("small", 1, since=1))
    found = plan(seen, POLICY, LATE)
    assert {one.node for one in found.assignments} == {"n2"}, "room is collected on n1"


def test_two_never_hold_halves_of_the_same_room() -> None:
    """Both need both nodes: the older one collects on them, the younger one nowhere."""
    seen = cluster(2, 2, {"n0": 1, "n1": 1}, waits("old", 2, cards=2), waits("young", 2, cards=2, since=1))
    found = plan(seen, POLICY, LATE)
    assert Code.STARVING in codes(found, "old")
    assert Code.STARVING not in codes(found, "young")


def test_others_of_a_queue_collect_up_to_the_share() -> None:
    """Ten nodes of one card: besides the oldest, gangs of two, one and one card have a fifth together."""
    held = {f"n{at}": 1 for at in range(10)}
    gangs = [waits("a", 3), waits("b", 2, since=1), waits("c", 1, since=1)]
    found = plan(cluster(10, 1, held, *gangs), POLICY, 35 * MINUTE)
    assert [Code.STARVING in codes(found, name) for name in ("a", "b", "c")] == [True, True, False]


def test_a_gang_that_can_never_fit_collects_nothing() -> None:
    seen = cluster(1, 4, {"n0": 3}, waits("huge", 5), waits("small", 1, since=1))
    assert started(plan(seen, POLICY, LATE)) == {"small"}


def test_a_gang_with_a_planned_start_collects_nothing() -> None:
    policy = replace(POLICY, planning=Planning())
    seen = cluster(1, 4, {"n0": 3}, structs.replace(waits("large", 4), lasts=MINUTE))
    (one,) = seen.running
    rooms = (("n0", one.pods[0].pod_class, 3),)
    seen = replace(seen, expected_ends=(ExpectedEnd(one.uid, one.queue, 60 * MINUTE, rooms),))
    found = plan(seen, policy, LATE)
    assert codes(found, "large") == [Code.PLANNED_START]
    found = plan(replace(seen, reservations=found.planned), policy, LATE + 1)
    assert codes(found, "large") == [Code.PLANNED_START]


@pytest.mark.parametrize("seed", range(4))
def test_large_gangs_start_although_small_ones_keep_coming(seed: int) -> None:
    """Jobs end at times that nobody knows, and there are always small ones waiting. Two large gangs starve together."""
    drawn = random.Random(seed)
    pool = Pool(4, 2, planning=None)
    pool.policy = POLICY
    ends: dict[str, int] = {}
    names = (f"s{at}" for at in range(10_000))

    def come(name: str, pods: int, cards: int, hour: int) -> None:
        pool.submit(name, pods, 0, cards=cards)
        pool.waiting[name] = structs.replace(pool.waiting[name], created=hour * HOUR)

    for hour in range(60):
        for name in sorted(pool.running):
            if ends[name] <= hour:
                pool.end(name)
        if hour == 3:
            come("first", 4, 2, hour)
            come("second", 3, 2, hour)
        while len(pool.waiting) < 6:
            come(next(names), drawn.choice([1, 1, 2]), 1, hour)
        for _ in range(2):
            pool.cycle(hour)
        for name in pool.running - ends.keys():
            ends[name] = hour + drawn.randint(1, 4)
    assert pool.started["first"] <= 12
    assert pool.started["second"] <= 22


@pytest.mark.parametrize("seed", range(3))
def test_two_that_need_every_node_start_one_after_the_other(seed: int) -> None:
    """They starve in two queues that share all nodes, where small gangs of a third come without end."""
    drawn = random.Random(seed)
    pool = Pool(3, 2, planning=None, queues={name: queue(ordering="Backfill") for name in ("q", "r", "s")})
    pool.policy = POLICY
    ends: dict[str, int] = {}
    names = (f"s{at}" for at in range(10_000))
    for hour in range(60):
        for name in sorted(pool.running):
            if ends[name] <= hour:
                pool.end(name)
        coming = [(next(names), drawn.choice([1, 1, 2]), 1, "s") for _ in range(6 - len(pool.waiting))]
        for name, pods, cards, of in [*coming, *([("a", 3, 2, "q"), ("b", 6, 1, "r")] if hour == 3 else ())]:
            pool.submit(name, pods, 0, cards=cards, of=of)
            pool.waiting[name] = structs.replace(pool.waiting[name], created=hour * HOUR)
        for _ in range(2):
            pool.cycle(hour)
        for name in pool.running - ends.keys():
            ends[name] = hour + drawn.randint(1, 4)
    assert max(pool.started["a"], pool.started["b"]) <= 20


@pytest.mark.parametrize("seed", range(10))
def test_without_plans_and_before_any_gang_starves_backfill_is_best_effort(seed: int) -> None:
    drawn = random.Random(seed)
    held = {f"n{at}": drawn.randint(0, 4) for at in range(4)}
    gangs = [waits(f"g{at}", drawn.randint(1, 8), drawn.randint(1, 3), since=at) for at in range(8)]
    seen = cluster(4, 4, held, *gangs)
    other = replace(seen, queues=seen.queues | {"q": queue(ordering="BestEffort")})
    for policy, now in ((Policy(), 29 * MINUTE), (Policy(starvation=None), 100 * MINUTE)):
        made = structs.replace(plan(seen, policy, now), again=None)  # it also says when a gang will collect
        assert made.to_bytes() == plan(other, policy, now).to_bytes()
    assert started(plan(seen, Policy(starvation=None), 0)), "or nothing is compared"


def test_what_is_remembered_changes_nothing() -> None:
    memory = Memory()
    small = [waits(f"s{at}", 1, since=1) for at in range(4)]
    for minute, held in ((29, 4), (29, 3), (31, 3), (32, 2), (33, 2), (34, 0), (35, 4), (36, 3)):
        gangs = [*small] if minute == 35 else [waits("large", 4), *small]
        seen = cluster(2, 4, {"n0": held, "n1": 4}, *gangs)
        kept, fresh = plan(seen, POLICY, minute * MINUTE, memory), plan(seen, POLICY, minute * MINUTE)
        assert structs.replace(kept, stats=fresh.stats).to_bytes() == fresh.to_bytes()


def test_what_is_remembered_changes_nothing_whatever_is_kept() -> None:
    """Gangs of two priorities collect, others come and go, and nodes fill and empty."""
    spared = sum(_remembered(random.Random(seed)) for seed in range(6))
    assert spared > 30, "or nothing is compared"


def _remembered(drawn: random.Random) -> int:
    """How many attempts an answer of an earlier cycle spared."""
    memory = Memory()
    high = replace(QUEUES["q"], spec=replace(QUEUES["q"].spec, priority=5))
    held = {f"n{at}": drawn.randint(2, 4) for at in range(5)}
    gangs = [waits(f"g{at}", drawn.randint(1, 9), drawn.randint(1, 4), since=drawn.randint(0, 60)) for at in range(16)]
    gangs = [structs.replace(one, queue=drawn.choice(["q", "r", "other", "high"])) for one in gangs]
    levels = ("kubernetes.io/hostname", "rack")
    gangs = [structs.replace(one, topology="Required", levels=levels) if drawn.random() < 0.3 else one for one in gangs]
    seen = cluster(5, 4, held, racks=RACKS | {"n4": "r1"})
    for minute in range(40, 70):
        if drawn.random() < 0.3:
            held[drawn.choice(sorted(held))] = drawn.randint(1, 4)
            seen = cluster(5, 4, held, racks=RACKS | {"n4": "r1"})
        if drawn.random() < 0.2:
            gangs[drawn.randrange(len(gangs))] = waits(f"h{minute}", drawn.randint(1, 9), drawn.randint(1, 4))
        seen = replace(seen, gangs=tuple(gangs), queues=seen.queues | {"r": high})
        kept, fresh = plan(seen, POLICY, minute * MINUTE, memory), plan(seen, POLICY, minute * MINUTE)
        assert structs.replace(kept, stats=fresh.stats).to_bytes() == fresh.to_bytes()
    return memory.failures.spared


def test_what_was_refused_for_kept_room_is_tried_when_it_is_kept_no_longer() -> None:
    """The nodes are as they were: only the gang that collected is gone."""
    memory, small = Memory(), waits("small", 1, since=1)
    seen = cluster(2, 2, {"n0": 2, "n1": 1}, waits("large", 4), small)
    assert started(plan(seen, POLICY, LATE, memory)) == set()
    assert started(plan(replace(seen, gangs=(small,)), POLICY, LATE, memory)) == {"small"}


def test_a_cycle_in_which_nothing_changed_tries_nobody() -> None:
    """Room that is kept is no change of the nodes: neither those who collect it are tried anew nor others."""
    memory = Memory()
    small = [waits(f"s{at}", 1, 2 + at % 2, since=32) for at in range(6)]
    seen = cluster(2, 4, {"n0": 3, "n1": 3}, waits("large", 8), *small)
    plan(seen, POLICY, LATE, memory)
    tried = memory.failures.tried
    found = plan(seen, POLICY, LATE, memory)
    assert started(found) == set()
    assert memory.failures.tried == tried


def test_those_who_collect_where_nothing_is_free_are_told_again_too() -> None:
    one, memory = pod_class(cpu=0, memory=0, gpu=1), Memory()
    full = [running(f"r-{name}", "plain", [name] * 4, of=one) for name in ("n0", "n1")]
    nodes = [node(name, gpu=4, pods=4) for name in ("n0", "n1")]
    seen = view(nodes, [waits("large", 8), waits("small", 1, since=32)], QUEUES, running=full)
    first = plan(seen, POLICY, LATE, memory)
    tried = memory.failures.tried
    assert plan(seen, POLICY, LATE, memory).waiting == first.waiting
    assert memory.failures.tried == tried


@pytest.mark.parametrize(
    ("own", "policy", "minute", "collects"),
    [
        (None, POLICY.starvation, 31, True),
        (QueueStarvation(after_seconds=600), POLICY.starvation, 11, True),
        (QueueStarvation(after_seconds=600), POLICY.starvation, 9, False),
        (QueueStarvation(after_seconds=7200), POLICY.starvation, 31, False),
        (QueueStarvation(after_seconds=0), POLICY.starvation, 500, False),
        (QueueStarvation(most_held_percent=5), POLICY.starvation, 31, True),
        (QueueStarvation(most_held_percent=5), None, 500, False),
        (QueueStarvation(after_seconds=600), None, 11, True),
    ],
)
def test_a_queue_has_rules_of_its_own(
    own: QueueStarvation | None, policy: Starvation | None, minute: int, collects: bool
) -> None:
    seen = cluster(1, 4, {"n0": 3}, waits("large", 4), waits("small", 1, since=1))
    spec = replace(QUEUES["q"].spec, starvation=own)
    seen = load(dump(replace(seen, queues=seen.queues | {"q": replace(QUEUES["q"], spec=spec)})))
    found = plan(seen, Policy(starvation=policy), minute * MINUTE)
    assert started(found) == (set() if collects else {"small"})


@pytest.mark.parametrize(("share", "collects"), [(0, [True, False]), (19, [True, False]), (20, [True, True])])
def test_the_share_of_a_queue_is_its_own(share: int, collects: list[bool]) -> None:
    held = {f"n{at}": 1 for at in range(10)}
    seen = cluster(10, 1, held, waits("a", 3), waits("b", 2, since=1))
    spec = replace(QUEUES["q"].spec, starvation=QueueStarvation(most_held_percent=share))
    found = plan(replace(seen, queues=seen.queues | {"q": replace(QUEUES["q"], spec=spec)}), POLICY, 35 * MINUTE)
    assert [Code.STARVING in codes(found, name) for name in ("a", "b")] == collects


# --- gangs that must be in one domain


def racks(cards: int, held: dict[str, int], *gangs: Gang) -> View:
    """Two racks of two nodes with so many cards each, of which some are in use."""
    return cluster(4, cards, held, *gangs, racks=RACKS)


def together(name: str, pods: int, cards: int = 1, since: int = 0, levels: tuple[str, ...] = ("rack",)) -> Gang:
    return structs.replace(waits(name, pods, cards, since=since), topology="Required", levels=levels)


def test_since_when_it_has_waited_is_told_to_the_second() -> None:
    large = structs.replace(waits("large", 4), created=24 * 10**9)
    seen = cluster(2, 2, {"n0": 2, "n1": 1}, large)
    for later in (15, 100_000):
        found = plan(seen, Policy(starvation=Starvation(15, 100)), (24 + later) * 10**9)
        assert "it has waited since 1970-01-01T00:00:24Z: room" in starving(found, "large")


def starving(found: Plan, name: str) -> str:
    """What a gang is told of the room that is collected for it; empty where none is."""
    (reasons,) = (one.reasons for one in found.waiting if one.gang == name)
    return next((one.message for one in reasons if one.code is Code.STARVING), "")


@pytest.mark.parametrize(
    ("held", "keeps", "free"),
    [
        ({"n0": 2, "n1": 1, "n2": 1, "n3": 2}, "2 nodes of rack r0", "n2"),
        ({"n0": 2, "n1": 1, "n2": 0, "n3": 2}, "2 nodes of rack r1", "n1"),
        ({"n0": 1, "n1": 1, "n2": 0, "n3": 2}, "2 nodes of rack r0", "n2"),
    ],
    ids=["of equals the first", "where more is free", "where more is free in all"],
)
def test_a_gang_that_must_be_in_one_rack_collects_there_and_not_elsewhere(
    held: dict[str, int], keeps: str, free: str
) -> None:
    seen = racks(2, held, together("large", 2, 2), waits("small", 1, since=1), waits("more", 1, since=2))
    found = plan(seen, POLICY, LATE)
    assert keeps in starving(found, "large")
    assert {one.node for one in found.assignments} == {free}


def test_what_comes_free_in_its_rack_is_kept_until_it_starts() -> None:
    small = [waits(f"s{at}", 1, since=1) for at in range(9)]
    memory = Memory()
    for n0, n1 in ((2, 1), (1, 1), (1, 0)):
        held = {"n0": n0, "n1": n1, "n2": 2, "n3": 2}
        seen = racks(2, held, together("large", 4), *small)
        assert started(plan(seen, POLICY, LATE, memory)) == set()
    found = plan(racks(2, {"n2": 2, "n3": 2}, together("large", 4), *small), POLICY, LATE, memory)
    assert started(found) == {"large"}


@pytest.mark.parametrize(
    ("pods", "cards", "levels", "keeps"),
    [
        (3, 2, ("rack",), ""),
        (3, 1, ("kubernetes.io/hostname",), ""),
        (2, 1, ("kubernetes.io/hostname",), "1 node of kubernetes.io/hostname n1"),
        (3, 1, ("kubernetes.io/hostname", "rack"), "2 nodes of rack r0"),
        (2, 1, ("kubernetes.io/hostname", "rack"), "1 node of kubernetes.io/hostname n1"),
        (2, 1, ("zone",), ""),
    ],
    ids=[
        "no rack is so large",
        "no node is so large",
        "a node",
        "the wider level",
        "the narrow level",
        "no such label",
    ],
)
def test_the_domain_in_which_it_collects(pods: int, cards: int, levels: tuple[str, ...], keeps: str) -> None:
    held = {"n0": 2, "n1": 1, "n2": 2, "n3": 2}
    seen = racks(2, held, together("large", pods, cards, levels=levels), waits("small", 1, since=1))
    found = plan(seen, POLICY, LATE)
    assert (keeps in starving(found, "large")) if keeps else not starving(found, "large")
    assert started(found) == (set() if keeps else {"small"})


@pytest.mark.parametrize(
    ("share", "racks_of", "collect"),
    [
        (50, RACKS, ["2 nodes of rack r0", "2 nodes of rack r1"]),
        (49, RACKS, ["2 nodes of rack r0", ""]),
        (50, RACKS | {"n3": "r2"}, ["2 nodes of rack r0", ""]),
    ],
    ids=["each in a rack", "the share is too small", "one rack is large enough"],
)
def test_two_that_must_be_in_one_rack_never_hold_halves(
    share: int, racks_of: dict[str, str], collect: list[str]
) -> None:
    held = {"n0": 1, "n1": 1, "n2": 1, "n3": 2}
    seen = cluster(4, 2, held, together("old", 2, 2), together("young", 2, 2, since=1), racks=racks_of)
    found = plan(seen, Policy(starvation=Starvation(1800, share)), 35 * MINUTE)
    for name, keeps in zip(("old", "young"), collect, strict=True):
        assert (keeps in starving(found, name)) if keeps else not starving(found, name)


def test_a_gang_of_unlike_pods_collects_for_all_of_them_in_one_rack() -> None:
    kinds = [pod_class(cpu=0, memory=0, gpu=2), pod_class(cpu=8, memory=0)]
    members = [member(f"m{at}", kinds[at > 0]) for at in range(3)]
    made = gang("large", "q", members=members, created=0)
    large = structs.replace(made, topology="Required", levels=("rack",))
    found = plan(racks(2, {"n0": 2, "n1": 1, "n2": 2, "n3": 2}, large), POLICY, LATE)
    assert "of rack r0" in starving(found, "large")


@pytest.mark.parametrize("seed", range(3))
def test_two_that_must_be_in_a_rack_start_although_small_ones_keep_coming(seed: int) -> None:
    """Three racks of two nodes, and jobs that end at times that nobody knows. Two gangs need a rack of their own."""
    drawn = random.Random(seed)
    pool = Pool(0, 2, planning=None, queues={name: queue(ordering="Backfill") for name in ("q", "s")})
    for at in range(6):
        pool.nodes.upsert(node(f"n{at}", gpu=2, cpu=1000, pods=1000, labels={"rack": f"r{at // 2}"}))
    pool.policy = POLICY
    ends: dict[str, int] = {}
    names = (f"s{at}" for at in range(10_000))
    for hour in range(80):
        for name in sorted(pool.running):
            if ends[name] <= hour:
                pool.end(name)
        coming = [(next(names), drawn.choice([1, 1, 2]), 1, "s") for _ in range(9 - len(pool.waiting))]
        for name, pods, cards, of in [*coming, *([("a", 2, 2, "q"), ("b", 4, 1, "q")] if hour == 3 else ())]:
            pool.submit(name, pods, 0, cards=cards, of=of)
            more = {"topology": "Required", "levels": ("rack",)} if of == "q" else {}
            pool.waiting[name] = structs.replace(pool.waiting[name], created=hour * HOUR, **more)
        for _ in range(2):
            pool.cycle(hour)
        for name in pool.running - ends.keys():
            ends[name] = hour + drawn.randint(1, 4)
    assert max(pool.started["a"], pool.started["b"]) <= 20


def test_a_cluster_without_nodes_has_no_room_to_collect() -> None:
    assert codes(plan(cluster(0, 0, {}, waits("large", 4)), POLICY, LATE), "large") == [Code.NO_NODE_MATCHES]


def test_of_a_long_backlog_only_the_gangs_that_collect_room_need_turns() -> None:
    counts: list[int] = []

    class Counting(Reference):
        def run(self, tables: Tables) -> Run:
            found = super().run(tables)
            counts.append(len(found.queues))
            return found

    seen = cluster(8, 8, {}, *(waits(f"g{at:02}", 1) for at in range(60)))
    with with_kernel(Counting(), after=4):
        found = plan(seen, POLICY, LATE)
    with with_kernel(None):
        assert plan(seen, POLICY, LATE).to_bytes() == found.to_bytes()
    assert len(started(found)) == 60
    assert sum(counts) > 40


@pytest.mark.parametrize("since", [0, 40], ids=["long", "not long"])
def test_those_that_collect_are_chosen_without_a_look_at_all_that_wait(since: int) -> None:
    """Counted in lines of Python, with few gangs in the queue and with many."""

    def lines(count: int) -> int:
        gangs = [waits(f"g{at:05}", 1, since=since) for at in range(count)]
        gangs += [structs.replace(waits(f"p{at:05}", 1, since=since), priority=at % 3) for at in range(count)]
        planner = Planner(cluster(1, 2, {"n0": 2}, *gangs), POLICY, LATE, Memory())
        while not planner._begun:
            next(planner._work)
        starving, line = planner._cycle.starving, sorted(gangs, key=gang_key)
        assert starving is not None
        with Lines() as counted:
            finish(starving.begin({"q": line}))
        assert [starving.has(gang) for gang in gangs[:1]] == [since == 0]
        return counted.count

    assert lines(600) < lines(120) + 60


def test_nodes_are_chosen_for_one_gang_after_the_other_by_pieces() -> None:
    """Counted in lines of Python: no piece is longer for more gangs, on as many nodes as are much work."""

    def longest(count: int) -> int:
        gangs = [waits(f"g{at:05}", 1, since=at % 2) for at in range(count)]
        policy = Policy(starvation=Starvation(60, 100))
        planner = Planner(cluster(800, 2, {"n0": 2}, *gangs), policy, LATE, Memory())
        while not planner._begun:
            next(planner._work)
        starving = planner._cycle.starving
        assert starving is not None
        found, _ = pieces(starving.begin({"q": sorted(gangs, key=gang_key)}))
        assert starving.has(gangs[count - 1])
        return max(found)

    assert longest(20) < longest(4) + 50


def test_a_gang_that_takes_cards_of_any_kind_starts_on_the_room_that_it_collected() -> None:
    """Two nodes with whole cards, which would do, are busy for ever; the slices of two others come free."""
    shape = replace(pod_class(cpu=0, memory=0, gpu=2), choice=CardChoice(mode="any"))
    large = structs.replace(gang("large", "q", 2, of=shape), created=0)
    one = pod_class(cpu=0, memory=0, gpu=1)
    nodes = [replace(node(f"n{at}", gpu=2), mode="" if at < 2 else "MIGSingle") for at in range(4)]
    for busy, starts in ((["n2", "n3"], False), (["n3"], False), ([], True)):
        held = [running(f"r-{name}", "plain", [name] * 2, of=one) for name in ("n0", "n1", *busy)]
        found = plan(view(nodes, [large], QUEUES, running=held), Policy(starvation=Starvation(1800, 100)), LATE)
        assert started(found) == ({"large"} if starts else set()), found.waiting
