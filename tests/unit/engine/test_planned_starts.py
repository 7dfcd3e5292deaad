"""Planned starts: textbook cases of backfilling on ten nodes of one card."""

import gc
from dataclasses import replace

import pytest
from msgspec import structs

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.policy import Planning
from t9ksched.model.quantity import CARDS
from t9ksched.model.reasons import Code
from tests.ahead import HOUR, MINUTE, Pool
from tests.builders import GPU, queue

EASY = Planning(mode="EASY")


def blocked(planning: Planning | None = None) -> Pool:
    """Job a has six of ten cards for ten hours; job b needs eight."""
    pool = Pool(planning=planning or Planning())
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.cycle(0)
    return pool


@pytest.mark.parametrize("planning", [Planning(), EASY], ids=["conservative", "EASY"])
@pytest.mark.parametrize(
    ("cards", "hours", "hour", "passes"),
    [
        pytest.param(4, 10, 0, True, id="it ends when the planned job starts"),
        pytest.param(4, 12, 0, False, id="it would still run"),
        pytest.param(2, 100, 0, True, id="enough is left beside it"),
        pytest.param(2, 0, 0, True, id="enough is left for ever"),
        pytest.param(3, 0, 0, False, id="one card too many, for ever"),
        pytest.param(4, 10, 1 / 60, False, id="one minute too late"),
    ],
)
def test_who_may_pass(planning: Planning, cards: int, hours: float, hour: float, passes: bool) -> None:
    pool = blocked(planning)
    assert pool.planned == {"b": 10}
    pool.submit("c", cards, hours)
    found = pool.cycle(hour)
    assert ("c" in pool.started) is passes
    assert pool.planned["b"] == 10
    reasons = {one.gang: one.reasons for one in found.waiting}
    assert reasons["b"][0].code == Code.PLANNED_START
    if not passes:
        code = Code.PLANNED_START if planning.mode == "Conservative" else Code.HELD_FOR_OTHER
        assert reasons["c"][0].code == code


def test_a_job_that_ends_early_moves_the_plan() -> None:
    pool = blocked()
    pool.end("a")
    pool.cycle(3)
    assert pool.started["b"] == 3


def test_with_another_beside_it_the_plan_stays() -> None:
    pool = blocked()
    pool.submit("c", 4, 10)
    pool.cycle(0)
    pool.end("a")
    pool.cycle(3)
    assert pool.planned == {"b": 10}
    pool.end("c")
    pool.cycle(10)
    assert pool.started["b"] == 10


def test_an_end_that_is_late_moves_the_plan_by_little_and_keeps_the_room() -> None:
    pool = blocked()
    pool.submit("c", 4)
    pool.cycle(10)
    assert pool.planned["b"] == pytest.approx(10 + MINUTE / HOUR)
    assert "c" not in pool.started
    pool.end("a")
    pool.cycle(10.005)
    assert pool.started["b"] == 10.005


@pytest.mark.parametrize("hours", [20, 0], ids=["a limit", "for ever"])
def test_an_end_that_is_late_does_not_put_a_gang_behind_one_that_came_later(hours: float) -> None:
    """The plan of the later one begins when the earlier was to end; a minute more must not be in its way."""
    pool = blocked()
    pool.submit("c", 8, hours)
    pool.cycle(1)
    assert pool.planned == {"b": 10, "c": 15}
    pool.cycle(10)
    assert pool.planned["b"] == pytest.approx(10 + 1 / 60)
    assert pool.planned.get("c", 1e9) >= 15
    pool.end("a")
    pool.cycle(10 + 1 / 120)
    assert pool.started == {"a": 0, "b": 10 + 1 / 120}
    assert pool.planned["c"] == pytest.approx(15 + 1 / 120)
    pool.end("b")
    pool.cycle(15)
    assert pool.started["c"] == 15


def test_a_late_start_is_not_held_up_by_a_plan_that_relied_on_it() -> None:
    pool = blocked()
    pool.submit("c", 8, 0)
    pool.cycle(1)
    assert pool.planned == {"b": 10, "c": 15}
    pool.end("a")
    pool.cycle(10.5)
    assert pool.started == {"a": 0, "b": 10.5}
    assert pool.planned["c"] == 15.5


def test_a_lost_node_moves_the_plans_in_their_order() -> None:
    pool = Pool(4, 1)
    pool.submit("a", 4, 2)
    pool.cycle(0)
    for name in ("b", "c", "d"):
        pool.submit(name, 2, 3)
    pool.cycle(0)
    assert pool.planned == {"b": 2, "c": 2, "d": 5}
    pool.end("a")
    pool.nodes.remove("n000")
    pool.nodes.remove("n001")
    pool.cycle(1)
    assert pool.started == {"a": 0, "b": 1}
    assert pool.planned == {"c": 4, "d": 7}


def test_a_plan_made_while_a_node_was_away_stands_when_it_is_back() -> None:
    pool = Pool(4, 1)
    pool.submit("a", 3, 2)
    pool.cycle(0)
    pool.submit("b", 4, 3)
    pool.submit("c", 3, 3)
    pool.cycle(0)
    assert pool.planned == {"b": 2, "c": 5}
    away = next(name for name in pool.nodes.names if not pool.on(name))
    pool.nodes.remove(away)
    pool.cycle(1)
    assert pool.planned == {"c": 2}, "b needs the node that is away"
    pool.bring(away, 1)
    pool.cycle(1.1)
    assert pool.planned == {"b": 5, "c": 2}, "what c was told meanwhile holds"
    pool.end("a")
    pool.cycle(2)
    assert pool.started == {"a": 0, "c": 2}


def test_without_an_enforced_end_nothing_is_planned() -> None:
    pool = Pool()
    pool.submit("a", 6)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    found = pool.cycle(0)
    assert pool.planned == {}
    assert Code.PLANNED_START not in [reason.code for reason in found.waiting[0].reasons]


@pytest.mark.parametrize(
    ("planning", "expected"),
    [
        pytest.param(Planning(), {"b": 10, "c": 15, "e": 16}, id="conservative"),
        pytest.param(EASY, {"b": 10}, id="EASY"),
    ],
)
def test_conservative_plans_each_and_easy_the_first(planning: Planning, expected: dict[str, float]) -> None:
    pool = blocked(planning)
    pool.submit("c", 9, 1)
    pool.submit("d", 2, 5)
    pool.submit("e", 4, 11)
    pool.cycle(0.5)
    assert pool.started["d"] == 0.5
    assert pool.planned == expected


@pytest.mark.parametrize(
    ("planning", "expected"),
    [
        pytest.param(EASY, {"b": 10, "o": 10}, id="EASY: the first of each queue"),
        pytest.param(Planning(per_queue=2), {"b": 10, "c": 15, "o": 10}, id="two a queue"),
        pytest.param(Planning(gangs=2), {"b": 10, "c": 15}, id="two in all"),
        pytest.param(Planning(gangs=4), {"b": 10, "c": 15, "e": 10, "o": 10}, id="as many as there are"),
    ],
)
def test_plans_beyond_what_the_policy_allows_now_go_at_once(planning: Planning, expected: dict[str, float]) -> None:
    """Four have plans when the policy changes; those that come first in their queues keep theirs."""
    queues = {name: queue(ordering="Backfill", priority=rank) for name, rank in (("q", 5), ("other", 0))}
    pool = Pool(queues=queues)
    pool.submit("a", 10, 10)
    pool.cycle(0)
    for name, cards, hours, of in (("b", 8, 5, "q"), ("c", 8, 5, "q"), ("e", 1, 8, "q"), ("o", 1, 1, "other")):
        pool.submit(name, cards, hours, of=of)
    pool.cycle(1)
    assert pool.planned == {"b": 10, "c": 15, "e": 10, "o": 10}
    pool.policy = replace(pool.policy, planning=planning)
    for _ in range(2):
        found = pool.cycle(1)
        assert pool.planned == expected
        assert {one.gang for one in found.waiting if one.reasons[0].code == Code.PLANNED_START} == set(expected)


def test_of_the_plans_of_a_queue_that_of_the_first_gang_stays() -> None:
    """The first gang needs all cards, so one that came later is to start before it."""
    pool = Pool()
    pool.submit("a", 8, 10)
    pool.submit("x", 2, 3)
    pool.cycle(0)
    pool.submit("first", 10, 5)
    pool.submit("second", 2, 5)
    pool.cycle(0)
    assert pool.planned == {"first": 10, "second": 3}
    pool.policy = replace(pool.policy, planning=EASY)
    pool.cycle(0)
    assert pool.planned == {"first": 10}
    pool.end("x")
    pool.cycle(3)
    assert pool.started["second"] == 3


def test_a_plan_is_not_moved_by_a_larger_priority_of_its_queue() -> None:
    pool = blocked()
    pool.submit("c", 8, 5, priority=5)
    pool.cycle(1)
    assert pool.planned == {"b": 10, "c": 15}


@pytest.mark.parametrize("of", ["q", "r"])
@pytest.mark.parametrize(("pods", "cards", "expected"), [(8, 1, 15), (4, 2, None), (3, 1, 10), (5, 1, 10)])
def test_a_job_that_asks_for_something_else_by_now_moves_no_other_plan(
    of: str, pods: int, cards: int, expected: float | None
) -> None:
    pool = Pool(queues={"q": queue(), "r": queue()})
    pool.submit("a", 10, 10)
    pool.cycle(0)
    pool.submit("b", 5, 5)
    pool.cycle(0)
    pool.submit("c", 5, 5, of=of)
    pool.cycle(0)
    assert pool.planned == {"b": 10, "c": 10}
    pool.ask_anew("b", pods, cards=cards)
    pool.cycle(1)
    pool.cycle(1)
    assert pool.planned == ({"b": expected} if expected is not None else {}) | {"c": 10}


def test_a_queue_of_larger_priority_goes_before() -> None:
    pool = Pool(queues={"q": queue(ordering="Backfill"), "high": queue(ordering="Backfill", priority=10)})
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.cycle(0)
    pool.submit("h", 4, 12, of="high")
    pool.cycle(1)
    assert pool.started["h"] == 1
    assert pool.planned == {"b": 13}
    pool.submit("i", 10, 1, of="high")
    pool.cycle(2)
    assert pool.planned == {"i": 13, "b": 14}


@pytest.mark.parametrize("of", ["q", "other"], ids=["one queue", "queues of one priority"])
def test_plans_that_a_larger_queue_moves_keep_their_order(of: str) -> None:
    """The priority of a PodGroup, and the share of a queue, order who gets a plan, not whose plan gives way."""
    queues = {name: queue(ordering="Backfill", priority=10 * (name == "high")) for name in ("q", "other", "high")}
    pool = Pool(queues=queues)
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5, priority=1)
    pool.cycle(0)
    pool.submit("f", 8, 5, priority=50, of=of)
    pool.cycle(0)
    assert pool.planned == {"b": 10, "f": 15}
    pool.submit("h", 10, 2, of="high")
    pool.cycle(1)
    assert pool.planned == {"h": 10, "b": 12, "f": 17}


def test_a_gang_without_a_plan_takes_no_room_that_a_lost_plan_needs() -> None:
    queues = {"q": queue(ordering="Backfill"), "high": queue(ordering="Backfill", priority=10)}
    pool = Pool(queues=queues)
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.cycle(0)
    pool.submit("h", 10, 2, of="high")
    pool.submit("p", 8, 1, priority=50)
    pool.cycle(1)
    assert pool.planned == {"h": 10, "b": 12, "p": 17}


@pytest.mark.parametrize("resource", [GPU, CARDS])
def test_quota_is_planned_like_nodes(resource: str) -> None:
    pool = Pool(queues={"q": queue(ordering="Backfill", quota={resource: 5}), "free": queue(ordering="Backfill")})
    pool.submit("a", 4, 10)
    pool.cycle(0)
    pool.submit("b", 4, 5)
    pool.submit("c", 1, 11)
    found = pool.cycle(0)
    assert pool.planned == {"b": 10}
    assert [reason.code for reason in found.waiting[0].reasons] == [Code.PLANNED_START, Code.QUOTA_EXCEEDED]
    assert pool.started["c"] == 0
    pool.submit("d", 1, 3)
    pool.cycle(0)
    assert pool.planned == {"b": 10, "d": 11}
    pool.submit("e", 2, 20, of="free")
    pool.cycle(0)
    assert pool.started["e"] == 0


@pytest.mark.parametrize("resource", [GPU, CARDS])
def test_quota_that_a_plan_needs_later_is_not_given_now(resource: str) -> None:
    pool = Pool(queues={"q": queue(ordering="Backfill", quota={resource: 6})})
    pool.submit("a", 4, 10)
    pool.cycle(0)
    pool.submit("b", 6, 5)
    pool.submit("c", 2, 11)
    pool.submit("d", 2, 10)
    pool.cycle(0)
    assert pool.planned == {"b": 10, "c": 15}
    assert pool.started["d"] == 0


@pytest.mark.parametrize("resource", [GPU, CARDS])
@pytest.mark.parametrize(
    ("quota", "expected"),
    [(8, {"b": 10, "c": 10}), (7, {"b": 10, "c": 15}), (4, {"b": 10, "c": 15}), (3, {})],
)
def test_a_smaller_quota_moves_the_plans_that_it_cannot_pay(
    quota: int, expected: dict[str, float], resource: str
) -> None:
    pool = Pool(queues={"q": queue(ordering="Backfill", quota={resource: 10})})
    pool.submit("a", 10, 10)
    pool.cycle(0)
    pool.submit("b", 4, 5)
    pool.submit("c", 4, 5)
    pool.cycle(0)
    assert pool.planned == {"b": 10, "c": 10}
    pool.cycle(0)
    pool.change_queue("q", queue(ordering="Backfill", quota={resource: quota}))
    pool.cycle(1)
    assert pool.planned == expected


def test_a_plan_goes_with_its_job() -> None:
    pool = blocked()
    pool.submit("c", 4, 12)
    pool.cycle(0)
    pool.cancel("b")
    pool.cycle(1)
    assert pool.planned == {}
    assert pool.started["c"] == 1


def test_a_plan_does_not_stand_when_its_job_asks_for_a_reservation_that_does_not_exist() -> None:
    pool = blocked()
    pool.cycle(1)  # nothing to improve: from here on plans stand without another look
    assert pool.planned == {"b": 10}
    pool._waiting["b"] = structs.replace(pool._waiting["b"], reservation="none")
    found = pool.cycle(1)
    assert pool.planned == {}
    assert [reason.code for one in found.waiting for reason in one.reasons] == [Code.NOT_PERMITTED]
    pool._waiting["b"] = structs.replace(pool._waiting["b"], reservation="")
    pool.cycle(1)
    assert pool.planned == {"b": 10}


def test_before_any_node_is_known_nothing_is_planned_beside_what_runs() -> None:
    pool = blocked()
    pool.nodes = NodeTable()
    pool.cycle(1)
    assert pool.planned == {}


@pytest.mark.parametrize(("gangs", "expected"), [(9, {"b", "d", "f", "g"}), (3, {"b", "f", "g"})])
def test_limits_of_planning(gangs: int, expected: set[str]) -> None:
    pool = Pool(
        planning=Planning(gangs=gangs, per_queue=2, per_user=1), queues={"q": queue(), "r": queue(), "s": queue()}
    )
    pool.submit("a", 10, 10)
    pool.cycle(0)
    for at, (name, where, who) in enumerate(
        [("b", "q", "u"), ("c", "q", "u"), ("d", "q", "v"), ("e", "q", "w"), ("f", "r", ""), ("g", "s", "")]
    ):
        pool.submit(name, 1 + at % 2, 1, of=where, user=who)
    pool.cycle(0)
    assert set(pool.planned) == expected  # queue q goes last: it has the largest share


def test_nothing_is_planned_beyond_the_horizon() -> None:
    pool = Pool(planning=Planning(horizon_seconds=9 * 3600))
    pool.submit("a", 6, 10)
    pool.cycle(0)
    pool.submit("b", 8, 5)
    pool.cycle(0)
    assert pool.planned == {}
    pool.cycle(1)
    assert pool.planned == {"b": 10}


def test_what_is_remembered_keeps_no_trial_alive() -> None:
    """A trial has copies of the columns of all nodes; plans and ends are remembered for days."""

    def trials() -> int:
        gc.collect()
        return sum(isinstance(one, Trial) for one in gc.get_objects())

    before = trials()
    pool = blocked()
    pool.submit("c", 2, 3)
    pool.cycle(1)
    assert pool.planned == {"b": 10}
    assert trials() == before
