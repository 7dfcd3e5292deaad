"""Which set of victims goes, as tables."""

from dataclasses import replace

import pytest

from t9ksched.engine.ledger import INFINITE_SHARE, SHARE_UNIT
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy, Preemption
from t9ksched.engine.victims import every_set
from t9ksched.engine.victims.price import Contender, Victim, bands, price
from t9ksched.model.gang import Running
from tests.builders import gang, node, queue, running, view

NOW = 1_000_000_000_000
PREEMPT = Policy(actions=("allocate", "preempt"))
PERCENT = SHARE_UNIT // 100


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"a": 50, "b": 45, "c": 44}, {"a": 0, "b": 0, "c": 1}),
        ({"a": 50, "b": 44, "c": 40}, {"a": 0, "b": 1, "c": 1}),
        ({"a": 50, "b": 44, "c": 38}, {"a": 0, "b": 1, "c": 2}),
        ({"a": 0, "b": 0}, {"a": 0, "b": 0}),
        ({"a": INFINITE_SHARE // PERCENT, "b": 100}, {"a": 0, "b": 1}),
    ],
    ids=["five points are equal", "from the largest of the rest", "one after the other", "no use", "infinite"],
)
def test_bands_of_shares(shares: dict[str, int], expected: dict[str, int]) -> None:
    assert bands({name: share * PERCENT for name, share in shares.items()}) == expected


def one(
    queue: str = "a", rank: int = 0, pods: int = 1, created: int = 5, guarded: bool = False, uses: int = 0
) -> Victim:
    """A victim; `uses` in percent of its queue's quota."""
    priority = {"own": -1, "next": 1}.get(queue, 0)
    return Victim(queue, priority, guarded, rank, created, pods, (("cpu", uses),), (f"{queue}{rank}{created}", pods))


SETS: dict[str, tuple[list[Victim], list[Victim]]] = {
    "four of priority 0 before one of 90": ([one(created=at) for at in range(4)], [one(rank=90)]),
    "one set is the start of the other": ([one(rank=90)], [one(rank=90), one()]),
    "fewer of the best protected level": ([one(rank=9), one(pods=7)], [one(rank=9, pods=2)]),
    "fewer pods at one level": ([one(pods=2)], [one(created=1), one(created=2), one(created=3)]),
    "a small gang before a large one": ([one(created=1, pods=1)], [one(created=9, pods=3)]),
    "the younger": ([one(created=9)], [one(created=1)]),
    "the oldest of each is compared first": ([one(created=2), one(created=3)], [one(created=1), one(created=9)]),
    "the queue's priority decides first": ([one(rank=9, pods=9)], [one("next")]),
    "surplus of the own queue before others": ([one("own", rank=9, pods=9)], [one()]),
    "no disruption budget is broken for fewer": ([one(pods=4)], [one(guarded=True)]),
    "a budget is broken before a higher queue loses": ([one(guarded=True)], [one("next")]),
    "a budget weighs more than a share": ([one("b", rank=9)], [one(guarded=True)]),
    "the larger share": ([one("a", rank=9, pods=4)], [one("b")]),
    "shares within five points count equal": ([one("c")], [one("a", rank=1)]),
    "the share is what is left by those before": (
        [one("a", uses=20, created=at) for at in (1, 2)] + [one("b", uses=20)],
        [one("a", uses=20, created=at) for at in (1, 2, 3)],
    ),
    "not before the share has fallen so far": (
        [one("a", uses=10, created=at) for at in (1, 2, 3)],
        [one("a", uses=10, created=at) for at in (1, 2)] + [one("b", uses=10)],
    ),
}
"""What goes, and what not. Queues a, b, c of priority 0 use 80, 50 and 76 % of their quotas."""


@pytest.mark.parametrize(("goes", "stays"), SETS.values(), ids=SETS)
def test_of_two_sets_the_cheaper_goes(goes: list[Victim], stays: list[Victim]) -> None:
    used = {"a": 80, "b": 50, "c": 76, "own": 90, "next": 90}
    names = {victim.queue for victim in (*goes, *stays)}
    contenders = {
        name: Contender({"own": -1, "next": 1}.get(name, 0), 9, {"cpu": used[name]}, {"cpu": 100}, True)
        for name in names
    }
    assert price(goes, contenders) < price(stays, contenders)
    assert price(reversed(goes), contenders) == price(goes, contenders)


def test_a_queue_without_victims_left_does_not_count_for_the_largest_share() -> None:
    both = {
        "a": Contender(0, 1, {"cpu": 90}, {"cpu": 100}, True),
        "b": Contender(0, 2, {"cpu": 40}, {"cpu": 100}, True),
    }
    levels, _, _ = price([one("a", uses=1), one("b", uses=1)], both)
    assert levels == (((0, False, 0, 0), 2),)


# --- the same from the plan's side


def gone(found: Plan) -> list[str]:
    return sorted({one.gang for one in found.evictions})


def on(name: str, of: str, at: str, **more: int) -> Running:
    """A gang of one pod on a node."""
    cpu = more.pop("cpu")
    return running(name, of, [at], cpu=cpu, **more)  # type: ignore[arg-type]


LOW_TOP = {"low": queue(), "other": queue(), "mid": queue(priority=1), "top": queue(priority=9)}


def test_four_of_a_lower_priority_go_and_one_of_a_higher_stays() -> None:
    nodes = [node("n0", cpu=8), node("n1", cpu=8)]
    small = [on(f"s{at}", "low", "n0", cpu=2, created=at) for at in range(4)]
    large = on("large", "low", "n1", cpu=8, priority=90)
    found = plan(view(nodes, [gang("p", "top", cpu=8)], LOW_TOP, running=[*small, large]), PREEMPT, NOW)
    assert gone(found) == ["s0", "s1", "s2", "s3"]


def test_the_queue_with_the_larger_share_gives_although_it_costs_more_pods() -> None:
    """`low` uses 12 of 16 cpu, `other` 8 of 20: after three of them it has 37.5 % and `other` 40."""
    queues = {**LOW_TOP, "low": queue(quota={"cpu": 16}), "other": queue(quota={"cpu": 20})}
    nodes = [node("n0", cpu=8), node("n1", cpu=8), node("n2", cpu=4)]
    small = [on(f"s{at}", "low", "n0", cpu=2) for at in range(4)]
    rest = [on("r", "low", "n2", cpu=4), on("large", "other", "n1", cpu=8)]
    found = plan(view(nodes, [gang("p", "top", cpu=8)], queues, running=[*small, *rest]), PREEMPT, NOW)
    assert gone(found) == ["s0", "s1", "s2", "s3"]


def test_queues_of_one_priority_give_in_turn_as_their_shares_fall() -> None:
    """`low` has 90 % and `other` 70 %: two of `low` go, then one of each."""
    queues = {**LOW_TOP, "low": queue(quota={"cpu": 10}), "other": queue(quota={"cpu": 10})}
    many = [on(f"l{at}", "low", "n0", cpu=1, created=at) for at in range(9)]
    others = [on(f"o{at}", "other", "n0", cpu=1, created=at + 20) for at in range(7)]
    given = view([node("n0", cpu=16)], [gang("p", "top", cpu=4)], queues, running=[*many, *others])
    found = plan(given, PREEMPT, NOW)
    assert [sum(name.startswith(of) for name in gone(found)) for of in "lo"] == [3, 1]


def test_victims_of_another_gang_in_the_same_cycle_count_no_more() -> None:
    """Shares are 40 and 30 % of 100 cpu; after the first preemptor took 20 of `low`, the second takes from `other`."""
    queues = {**LOW_TOP, "low": queue(quota={"cpu": 100}), "other": queue(quota={"cpu": 100})}
    groups = [on("l0", "low", "n0", cpu=20, created=1), on("l1", "low", "n1", cpu=20, created=9)]
    groups += [on("o0", "other", "n2", cpu=30, created=1)]
    wants = [gang("p", "top", cpu=20, created=1), gang("q", "top", cpu=20, created=2)]
    nodes = [node("n0", cpu=20), node("n1", cpu=20), node("n2", cpu=30)]
    found = plan(view(nodes, wants, queues, running=groups), PREEMPT, NOW)
    assert {one.by: one.gang for one in found.evictions} == {"p": "l1", "q": "o0"}


def test_nothing_is_evicted_for_a_quota_that_leaving_pods_give_back_whatever_is_remembered() -> None:
    """`low` uses its 4 cards, 2 of them leave: the first search of a cycle, too, knows that they come back."""
    rules = replace(PREEMPT, preemption=Preemption(inside_queue=True))
    queues = {"low": queue(quota={"nvidia.com/gpu": 4}), "top": queue(priority=9, quota={"nvidia.com/gpu": 2})}
    here = running("r", "low", ["n0", "n0"], gpu=2, cards=[3, 12], leaving=[1], min_member=1)
    wants = [gang("w", "low", gpu=2, priority=1), gang("x", "top", pods=4, gpu=1, cpu=40)]
    given = view([node("n0", cpu=96, gpu=4)], wants, queues, running=[here])
    memory = Memory()
    first, second = (plan(given, rules, NOW, memory) for _ in range(2))
    assert (gone(first), gone(second)) == ([], [])
    assert first.to_bytes() == second.to_bytes()


# --- inside the preemptor's own queue

INSIDE = Preemption(inside_queue=True)


@pytest.mark.parametrize("every", [10, -1], ids=["every set", "by search"])
@pytest.mark.parametrize(
    ("rules", "spare", "low", "expected"),
    [
        (INSIDE, 0, True, ["l-0"]),
        (INSIDE, 0, False, ["own-0", "own-1"]),
        (INSIDE, 1, True, ["own-1"]),
        (INSIDE, 1, False, ["own-1"]),
        (replace(INSIDE, surplus_yields=False), 1, True, ["l-0"]),
        (replace(INSIDE, surplus_yields=False), 1, False, ["own-1"]),
    ],
    ids=[
        "a lower queue before a gang of its own",
        "a gang of its own where no lower queue has any",
        "surplus of its own before a lower queue",
        "surplus of its own alone",
        "surplus that does not yield is no better than its gang",
        "surplus that does not yield where no lower queue has any",
    ],
)
def test_whole_gangs_of_the_own_queue_go_last(
    monkeypatch: pytest.MonkeyPatch, every: int, rules: Preemption, spare: int, low: bool, expected: list[str]
) -> None:
    monkeypatch.setattr(every_set, "_ALL_SETS", every)
    nodes = [node("n0", cpu=4), node("n1", cpu=4), node("n2", cpu=4)]
    own = running("own", "mid", ["n0", "n1"], cpu=4, min_member=2 - spare, priority=1)
    groups = [own, *([running("l", "low", ["n2"], cpu=4, priority=90)] if low else [])]
    given = view(nodes if low else nodes[:2], [gang("p", "mid", cpu=4, priority=2)], LOW_TOP, running=groups)
    found = plan(given, replace(PREEMPT, preemption=rules), NOW)
    assert sorted(one.pod for one in found.evictions) == expected


@pytest.mark.parametrize(("spare", "expected"), [(0, ["own-0", "own-1"]), (1, ["rest-1"])])
def test_a_short_quota_takes_surplus_of_the_queue_before_whole_gangs(spare: int, expected: list[str]) -> None:
    """Only its own queue can cure a quota: surplus of any gang first, then the gang of the smallest priority."""
    nodes = [node("n0", cpu=20)]
    own = running("own", "mid", ["n0"] * 2, cpu=4, min_member=2, priority=1)
    rest = running("rest", "mid", ["n0"] * 2, cpu=4, min_member=2 - spare, priority=5)
    queues = {**LOW_TOP, "mid": queue(priority=1, quota={"cpu": 16})}
    given = view(nodes, [gang("p", "mid", cpu=4, priority=9)], queues, running=[own, rest])
    found = plan(given, replace(PREEMPT, preemption=INSIDE), NOW)
    assert sorted(one.pod for one in found.evictions) == expected


def test_each_victim_is_told_why_it_goes() -> None:
    nodes = [node(f"n{at}", cpu=4) for at in range(4)]
    groups = [
        running("own", "mid", ["n0"], cpu=4, priority=1),
        running("more", "mid", ["n1", "n2"], cpu=4, min_member=1, priority=7),
        running("l", "low", ["n3"], cpu=4),
    ]
    given = view(nodes, [gang("p", "mid", 3, cpu=4, priority=2)], LOW_TOP, running=groups)
    found = plan(given, replace(PREEMPT, preemption=INSIDE), NOW)
    assert {one.pod: one.why for one in found.evictions} == {
        "more-1": "members above a gang's minimum yield to a waiting job of their queue 'mid', "
        "which needs 3 pods with 4 cpu and 1Gi memory each",
        "l-0": "evicted for a job of queue 'mid' (priority 1, queue 'low' has 0), "
        "which needs 3 pods with 4 cpu and 1Gi memory each",
        "own-0": "evicted for a job of its queue 'mid' with the larger priority (2, this has 1), "
        "which needs 3 pods with 4 cpu and 1Gi memory each",
    }
