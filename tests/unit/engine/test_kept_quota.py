"""What is left of a queue's quota is kept for the gang of it that has waited longest."""

from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine.actions.allocate import Allocate
from t9ksched.engine.memory import Memory
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy, Starvation
from t9ksched.model.reasons import Code
from tests.ahead import Pool
from tests.builders import GPU, gang, node, pod_class, queue, running, view
from tests.unit.engine.test_starvation import LATE, POLICY, codes, started, waits

ONE_CARD = pod_class(cpu=0, memory=0, gpu=1)
LIMITED = {"q": queue(quota={GPU: 4}, ordering="Backfill"), "plain": queue()}


@pytest.mark.parametrize("planning", [None, Planning()])
def test_small_gangs_of_its_queue_do_not_take_the_quota_for_ever(planning: Planning | None) -> None:
    """Each hour one that runs ends, of which nobody knew when, and another comes; there is room for all."""
    pool = Pool(4, 4, planning, LIMITED, starvation=Starvation(1800, 100))
    for at in range(4):
        pool.submit(f"small-{at}", 1)
    pool.cycle(0)
    pool.submit("large", 1, cards=4)
    for hour in range(1, 10):
        pool.end(f"small-{hour - 1}") if f"small-{hour - 1}" in pool.running else None
        pool.submit(f"small-{hour + 3}", 1)
        pool.cycle(hour)
    # What keeps quota where starts are planned is a plan; of one that nobody can plan it is not kept yet.
    assert ("large" in pool.started) is (planning is None)


def test_what_is_kept_of_a_quota_is_told() -> None:
    held = [running("r", "q", ["n0"] * 3, of=ONE_CARD)]
    nodes = [node("n0", gpu=4), node("n1", gpu=8)]
    gangs = [waits("large", 1, 4), waits("alike", 1, 4, since=8), waits("small", 1, since=9)]
    large, *others = plan(view(nodes, gangs, LIMITED, running=held), POLICY, LATE).waiting
    assert [reason.code for reason in large.reasons] == [Code.QUOTA_EXCEEDED, Code.STARVING]
    assert "queue 'q' has 1 of 4 left" in large.reasons[0].message
    assert "kept for" not in large.reasons[0].message
    assert "room that comes free on 1 node, and quota of its queue, are kept for it" in large.reasons[1].message
    for other in others:
        assert [reason.code for reason in other.reasons] == [Code.QUOTA_EXCEEDED]
        assert "queue 'q' has 0 of 4 left, 1 kept for a job that has waited too long" in other.reasons[0].message
        assert other.reasons[0].unblocks[0] == "the job that quota is kept for starts, or is withdrawn"


def test_quota_is_kept_from_a_gang_alike_ahead_and_found_by_the_one_that_it_is_kept_for() -> None:
    ahead = structs.replace(waits("ahead", 1, 4, since=9), priority=9)
    seen = view([node("n0", gpu=4), node("n1", gpu=4)], [waits("large", 1, 4), ahead], LIMITED)
    found = plan(seen, POLICY, LATE)
    assert started(found) == {"large"}
    assert codes(found, "ahead") == [Code.QUOTA_EXCEEDED]


def test_a_gang_that_its_queue_can_never_pay_for_collects_nothing() -> None:
    """Nor is it the oldest of its queue, for which quota is kept."""
    gangs = [waits("never", 1, 5), waits("large", 2, 2, since=1), waits("small", 1, since=9)]
    seen = view([node("n0", gpu=8)], gangs, LIMITED, running=[running("r", "q", ["n0"], of=ONE_CARD)])
    found = plan(seen, POLICY, LATE)
    assert Code.STARVING not in codes(found, "never")
    assert codes(found, "large") == [Code.QUOTA_EXCEEDED, Code.STARVING]
    assert codes(found, "small") == [Code.QUOTA_EXCEEDED]


def test_a_gang_that_lost_members_is_refilled_with_quota_that_is_kept() -> None:
    """Else each of the two would wait for the other."""
    lost = gang("lost", of=ONE_CARD, placed={"": 3}, min_member=4, ran=True, created=0)
    held = [running("lost", "q", ["n0"] * 3, of=ONE_CARD)]
    found = plan(
        view([node("n0", gpu=4), node("n1", gpu=4)], [lost, waits("large", 1, 4)], LIMITED, running=held), POLICY, LATE
    )
    assert started(found) == {"lost"}
    assert codes(found, "large") == [Code.QUOTA_EXCEEDED, Code.STARVING]


@pytest.mark.parametrize("cards", [4, 9], ids=["there would be room", "and no room either"])
def test_those_who_collect_and_whose_queue_cannot_pay_are_told_again_without_a_turn(cards: int) -> None:
    held = [running("r", "q", ["n0"] * 2, of=ONE_CARD), running("p", "plain", ["n1"] * 8, of=ONE_CARD)]
    queues = LIMITED | {"q": queue(quota={GPU: 10}, ordering="Backfill")}
    gangs = [waits(f"g{at}", cards, since=at % 2) for at in range(4)] + [waits("unlike", 2, cards // 2)]
    nodes = [node("n0", gpu=10), node("n1", gpu=8), node("n2", gpu=0)]
    if cards == 4:
        queues["q"] = queue(quota={GPU: 5}, ordering="Backfill")
    memory, policy = Memory(), Policy(starvation=Starvation(60, 100))
    for turns in (None, 0, 0):
        with patch.object(Allocate, "_place", autospec=True, side_effect=Allocate._place) as counted:
            found = plan(view(nodes, gangs, queues, running=held), policy, LATE, memory)
        assert found.to_bytes() == plan(view(nodes, gangs, queues, running=held), policy, LATE).to_bytes()
        assert all(one.reasons[0].code is Code.QUOTA_EXCEEDED for one in found.waiting), found.waiting
        assert sum(one.reasons[-1].code is Code.STARVING for one in found.waiting) >= 2
        assert turns is None or counted.call_count == turns
