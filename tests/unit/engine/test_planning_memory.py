"""A planner that remembers decides as a fresh one does, cycle by cycle: `Pool.cycle` compares the two."""

import random
from dataclasses import replace
from unittest.mock import patch

import pytest

from t9ksched.engine.past_plans import Deviation, PastPlans
from t9ksched.engine.policy import Planning, Starvation
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.start_windows import StartWindow
from tests.ahead import Pool
from tests.builders import GPU, divided_node, pod_class, queue

OF = ("q", "q", "small")
ONE_CARD = pod_class(cpu=0, memory=0, gpu=1)


def deviations(seed: int) -> list[Deviation]:
    """A history in which jobs end before their time, and pods of others come and go; how each cycle deviated from what
    was expected in the one before.
    """
    rng, found = random.Random(seed), []
    pool = Pool(nodes=6, cards=4, queues={"q": queue(ordering="Backfill"), "small": queue(quota={GPU: 12})})
    others: list[int] = []
    judge = PastPlans.as_expected

    def noted(*args: object) -> Deviation | None:
        if (deviation := judge(*args)) is not None:  # type: ignore[arg-type]
            found.append(deviation)
        return deviation

    with patch.object(PastPlans, "as_expected", noted):
        for at in range(60):
            hour = at / 4
            for name in sorted(pool.running):
                if hour - pool.started[name] >= (pool.limit(name) or 3):
                    pool.end(name)
            if rng.random() < 0.5:
                pool.submit(
                    f"j{at}", rng.randint(1, 6), rng.choice((1, 2, 5)), cards=rng.choice((1, 2, 4)), of=rng.choice(OF)
                )
            elif rng.random() < 0.3 and pool.running:
                pool.end(rng.choice(sorted(pool.running)))
            elif rng.random() < 0.4:
                node = rng.randrange(6)
                if pool.is_free(node):
                    pool.nodes.charge(node, ONE_CARD)
                    others.append(node)
            for _ in range(rng.choice((1, 1, 2))):
                pool.cycle(hour)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_less_room_and_room_before_its_time(seed: int) -> None:
    assert deviations(seed)


def test_both_are_told_apart_from_all_that_was_expected() -> None:
    """And there are plans that do not stand any more for each."""
    found = [one for seed in range(6) for one in deviations(seed)]
    assert any(one.lost is not None for one in found)
    assert any(one.until for one in found)
    assert any(one.lost is None and not one.until for one in found)


@pytest.mark.parametrize("ignored", [{"lost": None}, {"until": 0}], ids=["lost room", "room before its time"])
def test_what_is_ignored_is_noticed(ignored: dict[str, int | None]) -> None:
    judge = PastPlans.as_expected

    def ignoring(*args: object) -> Deviation | None:
        deviation = judge(*args)  # type: ignore[arg-type]
        return deviation and replace(deviation, **ignored)

    def play() -> None:
        for seed in range(40):
            deviations(seed)

    with patch.object(PastPlans, "as_expected", ignoring), pytest.raises(AssertionError, match="memory"):
        play()


def test_what_a_gang_is_told_that_fails_for_want_of_room_is_told_to_shorter_ones_like_it() -> None:
    """That there is too little room now is so for every gang alike, however long it runs: whether it was found in this
    cycle or in an earlier one, gangs behind it get the same answer.
    """
    pool = Pool(nodes=4, planning=Planning("EASY"))
    pool.submit("runs", 1, 1)
    pool.cycle(0)
    pool.submit("planned", 4, 5)
    pool.submit("long", 4, 9)
    pool.cycle(0)
    assert pool.planned == {"planned": 1}
    pool.cycle(0)
    pool.submit("starts", 1, 1)
    pool.submit("short", 4, 5)
    assert {one.gang for one in pool.cycle(0).assignments} == {"starts"}


def test_an_end_that_gives_back_less_than_before_is_noticed() -> None:
    """As much is free and charged as was to be expected, but a pod of another scheduler has a place that was to come
    free.
    """
    pool = Pool(nodes=2)
    pool.submit("a", 2, 5)
    pool.cycle(0)
    pool.submit("b", 2, 1)
    pool.cycle(0)
    pool.cycle(0)
    assert pool.planned == {"b": 5}
    pool.replace_member("a")
    pool.cycle(0)
    assert not pool.planned


def test_an_end_that_was_overdue_comes_sooner_than_planned() -> None:
    pool = Pool(nodes=2)
    pool.submit("a", 2, 5)
    pool.cycle(0)
    pool.submit("b", 1, 1)
    pool.cycle(5)
    assert pool.planned == {"b": pytest.approx(5 + 1 / 60)}
    pool.cycle(5)
    pool.end("a")
    pool.cycle(5)
    assert pool.started["b"] == 5


def test_a_plan_in_a_reservation_that_is_given_up_does_not_stand() -> None:
    """Nothing earlier is free for it, but it waits for its reservation now."""
    pool = Pool(nodes=2)
    pool.submit("a", 2, 5)
    pool.cycle(0)
    pool.reserve("r", 5, 9, [0, 1], queues=("q",))
    pool.submit("b", 2, 1, reservation="r")
    pool.submit("c", 1, 1)
    pool.cycle(0)
    assert pool.planned["b"] == 5
    del pool.rooms["r"]
    pool.cycle(0)
    assert "b" not in pool.planned


def test_a_gang_is_told_its_start_by_the_resolution_of_now() -> None:
    pool = Pool(nodes=1)
    pool.submit("a", 1, 1.01)
    pool.cycle(0)
    pool.submit("b", 1, 1)
    pool.cycle(0)
    pool.policy = replace(pool.policy, planning=Planning(resolution_seconds=3600))
    (waits,) = pool.cycle(0).waiting
    assert "1970-01-01T02:00:00Z" in waits.reasons[0].message


def test_a_gang_that_need_not_be_on_one_node_any_more_starts_sooner() -> None:
    pool = Pool(nodes=2, cards=2)
    for name, hours in (("a", 3), ("b", 5), ("c", 3), ("d", 5)):
        pool.submit(name, 1, hours)
    pool.cycle(0)
    pool.submit("e", 2, 1)
    pool.change("e", topology="Required")
    for _ in range(3):
        pool.cycle(0)
    assert pool.planned == {"e": 5}
    pool.change("e", topology="None")
    pool.cycle(0)
    assert pool.planned == {"e": 3}


def test_a_plan_that_stood_without_its_pods_is_looked_at_when_they_are_back() -> None:
    """Room came free while they were away."""
    pool = Pool(nodes=2)
    pool.submit("a", 2, 5)
    pool.cycle(0)
    pool.submit("b", 2, 1)
    pool.cycle(0)
    whole = pool.waiting["b"]
    pool.change("b", waiting=whole.waiting[:1])
    pool.end("a")
    pool.cycle(1)
    assert pool.planned == {"b": 5}
    pool.submit("c", 1, 1)
    pool.cycle(1)
    pool.change("b", waiting=whole.waiting)
    pool.cycle(1)
    assert pool.planned == {"b": 2}


def test_a_port_that_is_closed_on_time_lets_a_plan_begin_sooner() -> None:
    """It is not known ahead which ports are open, so the plan is for another node."""
    web = pod_class(cpu=0, memory=0, gpu=1, ports=[80])
    pool = Pool(nodes=2, cards=2)
    pool.submit("a", 1, 2, of_class=web)
    pool.submit("b", 1, 5, cards=2)
    pool.cycle(0)
    pool.submit("d", 1, 1, of_class=web)
    plays_on(pool, until="b")


def test_a_plan_takes_a_divided_card_when_it_is_given_back() -> None:
    pool = Pool(nodes=2)
    pool.nodes.upsert(divided_node("n001", 1))
    pool.submit("b", 1, 5)
    pool.submit("a", 1, 2)
    pool.cycle(0)
    pool.submit("d", 1, 1)
    plays_on(pool, until="a")


def plays_on(pool: Pool, until: str) -> None:
    """Job a ends after two hours, as it was to; job d was planned to start when the one named `until` ends."""
    for _ in range(3):
        pool.cycle(0)
    assert pool.planned == {"d": pool.limit(until)}
    pool.end("a")
    pool.cycle(2)
    assert pool.started["d"] == 2


def test_when_plans_are_alike_that_were_not_one_makes_way() -> None:
    """Two plans, one after the other on different nodes, leave no node free for long. They could be on the same node,
    but no plan moves as long as one of other pods is there too. That one starts when it was to.
    """
    windows = {f"at {hour}": (StartWindow(begin=hour * 60, end=hour * 60 + 60),) for hour in (3, 5)}
    queues = {name: queue(ordering="Backfill", start_windows=those) for name, those in {"q": (), **windows}.items()}
    pool, unlike = Pool(nodes=2, queues=queues), pod_class(cpu=600, memory=0)
    pool.submit("a", 1, 5)
    pool.submit("b", 1, 3)
    pool.submit("c", 2, 2, of_class=unlike)
    pool.cycle(0)
    pool.submit("d", 2, 9, of_class=unlike)
    pool.submit("e", 1, 2, of="at 3")
    pool.submit("f", 1, 3, of="at 5")
    pool.submit("g", 1, 5)
    pool.cycle(0)
    pool.end("a")
    pool.cycle(1)
    pool.cycle(1)
    assert pool.planned == {"d": 2, "e": 3, "f": 5, "g": 5}
    pool.end("c")
    pool.cycle(2)
    assert pool.started["g"] == 2


def apart_from(app: str) -> PodClass:
    """The class of a pod that shares no zone with pods of the app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return replace(pod_class(cpu=0, memory=0, gpu=1), rules=parse_rules(rules, None, "test", {}))


def test_a_job_ends_early_whose_rules_nothing_speaks_of_any_more() -> None:
    """Only rules of pods that are in the view are known."""
    pool = Pool(nodes=3)
    pool.submit("a", 1, 5, of_class=apart_from("a"))
    pool.submit("b", 2, 9)
    pool.cycle(0)
    pool.submit("never", 9, 1, of_class=apart_from("b"))
    pool.submit("c", 2, 1)
    for _ in range(2):
        pool.cycle(1)
    assert pool.planned == {"c": 9}
    pool.end("a")
    pool.cycle(2)
    assert pool.planned == {"c": 9}


def test_room_that_was_collected_for_a_gang_comes_free_when_it_has_a_plan() -> None:
    """Nothing else changed, but what was kept from a plan is free."""
    pool = Pool(nodes=3, queues={name: queue(ordering="Backfill") for name in "abc"})
    pool.policy = replace(pool.policy, starvation=Starvation(after_seconds=3600))
    pool.submit("runs", 1, of="c")
    pool.cycle(0)
    pool.submit("starving", 3, 8, of="b")
    pool.cycle(2)
    pool.limited("runs", 9)
    pool.submit("kept from", 1, 5, of="a")
    pool.cycle(2)
    assert pool.planned == {"kept from": 9, "starving": 14}
    pool.cycle(2)
    assert pool.started["kept from"] == 2


def test_a_plan_beyond_the_horizon_is_moved_to_an_earlier_start_beyond_it() -> None:
    """Else it would be only when time has gone by: that is nothing that happens to it."""
    pool = Pool(nodes=2)
    pool.submit("a", 1, 5)
    pool.submit("b", 1, 9)
    pool.cycle(0)
    pool.submit("both", 2, 1)
    pool.cycle(0)
    assert pool.planned == {"both": 9}
    pool.policy = replace(pool.policy, planning=Planning(horizon_seconds=3600))
    pool.limited("b", 6)
    for hour in (0, 0, 5.5):
        pool.cycle(hour)
        assert pool.planned == {"both": 6}
