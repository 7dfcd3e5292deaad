"""A plan that does not come about as it was moves no plan of a gang that came before later."""

from collections import Counter

import pytest
from msgspec import structs

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Planning, Policy
from t9ksched.model.reasons import Code
from t9ksched.model.reservation import Reservation, ReservationKind
from tests.ahead import HOUR, MINUTE, Pool
from tests.builders import gang, node, pod_class, queue, view

CARD = pod_class(cpu=0, memory=0, gpu=1)

SECOND = 1 / 3600
FOR_EVER = 1000


def pool(*, until: float = 4, spare: bool = True) -> Pool:
    """Three nodes of four cards. On n0 x has two cards until `until`, and c two until hour 2; h has n1 until `until`,
    and n2, too, unless that is `spare`.
    """
    found = Pool(planning=Planning(), facts=[node(f"n{at}", gpu=4, cpu=1000, pods=1000) for at in range(3)])
    for shut, jobs in (
        ({"n1", "n2"}, [("x", 1, 2, until), ("c", 1, 2, 2)]),
        ({"n0"}, [("h", 1 if spare else 2, 4, until)]),
    ):
        for name in shut | ({"n2"} if spare else set()):
            found.cordon(name, 4)
        for job, pods, cards, hours in jobs:
            found.submit(job, pods, hours, cards=cards)
        found.cycle(0)
        for name in sorted(found.closed):
            found.cordon(name, 4)
    assert {job: found.job(job)[2][0][0] for job in found.running} == {"x": "n0", "c": "n0", "h": "n1"}
    return found


def waiting(found: Pool, hours: float, old: int = 2) -> None:
    """Job `old`, of so many whole nodes, gets a plan, and then `young`, of two cards for so many hours."""
    found.submit("old", old, 5, cards=4)
    found.cycle(0)
    found.submit("young", 1, hours, cards=2)
    found.cycle(0)


@pytest.mark.parametrize("hours", [5, 10, 0])
def test_an_end_that_is_late_moves_no_plan_of_a_gang_that_came_before(hours: float) -> None:
    found = pool()
    found.limited("x", FOR_EVER)
    waiting(found, hours)
    assert found.planned == {"old": 4, "young": 2}
    found.cycle(2)  # c should have ended
    assert found.planned == {"old": 4, "young": pytest.approx(2 + MINUTE / HOUR)}
    found.end("c")
    found.cycle(2.5)
    assert found.started["young"] == 2.5
    assert found.job("young")[2][0][0] == "n0"
    assert found.planned == {"old": 4}


def test_an_end_that_is_no_longer_known_moves_none_either() -> None:
    found = pool()
    found.limited("x", FOR_EVER)
    waiting(found, 10)
    found.limited("c", 0)
    found.cycle(1)
    assert found.planned == {"old": 4, "young": 9}
    assert "young" not in found.started


def test_a_lost_node_moves_none_either() -> None:
    found = pool()
    found.limited("x", FOR_EVER)
    waiting(found, 10)
    for job in ("x", "c"):
        found.end(job)
    found.nodes.remove("n0")
    found.cycle(1)
    assert found.planned == {"old": 4, "young": 9}


@pytest.mark.parametrize(
    ("late", "starts", "old"),
    [
        pytest.param(0, True, 12, id="in time"),
        pytest.param(10 * SECOND, True, 12 + 10 * SECOND, id="a moment late"),
        pytest.param(60 * SECOND, True, 12 + 60 * SECOND, id="late by the resolution of plans"),
        pytest.param(61 * SECOND, False, 12, id="later"),
    ],
)
def test_a_start_that_is_a_moment_late_delays_one_that_waits_for_its_end_by_no_more(
    late: float, starts: bool, old: float
) -> None:
    found = pool(until=12, spare=False)
    waiting(found, 10, old=3)
    assert found.planned == {"old": 12, "young": 2}
    found.end("c")
    found.cycle(2 + late)
    assert ("young" in found.started) is starts
    assert found.planned["old"] == pytest.approx(old)
    if not starts:
        assert found.planned["young"] == 17


@pytest.mark.parametrize(
    ("later", "young", "old"),
    [
        pytest.param(20 * SECOND, 2 + 20 * SECOND, 12 + 20 * SECOND, id="a moment"),
        pytest.param(60 * SECOND, 2 + 60 * SECOND, 12 + 60 * SECOND, id="the resolution of plans"),
        pytest.param(61 * SECOND, 17, 12, id="more"),
    ],
)
def test_an_end_that_becomes_a_moment_later_puts_no_plan_behind_another(later: float, young: float, old: float) -> None:
    found = pool(until=12, spare=False)
    waiting(found, 10, old=3)
    found.limited("c", 2 + later)
    found.cycle(0.5)
    assert found.planned == {"young": pytest.approx(young), "old": pytest.approx(old)}


@pytest.mark.parametrize("later", [20 * SECOND, 60 * SECOND])
def test_a_plan_that_begins_before_one_that_is_a_moment_late_stays_where_it_is(later: float) -> None:
    found = Pool(1, 4)
    for name, cards, hours in (("x", 1, 17), ("y", 3, 20)):
        found.submit(name, 1, hours, cards=cards)
    found.cycle(0)
    for name, cards, hours in (("old", 3, 5), ("young", 1, 12)):
        found.submit(name, 1, hours, cards=cards)
        found.cycle(0)
    assert found.planned == {"old": 20, "young": 17}
    found.limited("y", 6)
    found.cycle(0.5)
    assert found.planned == {"old": 17, "young": 6}
    found.limited("x", 17 + later)  # until then there is room for one of both beside it
    found.cycle(1)
    assert found.planned == {"old": pytest.approx(17 + later), "young": 6}


def test_plans_that_are_a_moment_late_keep_their_places() -> None:
    found = pool(until=12, spare=False)
    found.limited("x", FOR_EVER)
    for name, hours in (("a", 5), ("b", 3), ("c1", 2), ("d", 1), ("e", 4)):
        found.submit(name, 1, hours, cards=4)
        found.cycle(0)
    before = {one.owner: one.node for one in found.plans}
    assert found.planned == {"a": 12, "b": 12, "c1": 15, "d": 17, "e": 17}
    found.limited("h", 12 + 20 * SECOND)
    found.cycle(0.5)
    assert {name: round((at - 20 * SECOND) * 3600) for name, at in found.planned.items()} == {
        name: hour * 3600 for name, hour in {"a": 12, "b": 12, "c1": 15, "d": 17, "e": 17}.items()
    }
    assert {one.owner: one.node for one in found.plans} == before


def test_of_several_that_do_not_come_about_the_first_comer_is_planned_first() -> None:
    found = pool(until=6, spare=False)
    found.limited("x", FOR_EVER)
    waiting(found, 20, old=1)
    assert found.planned == {"old": 6, "young": 2}
    for job in ("x", "c", "h"):
        found.end(job)
    found.nodes.remove("n0")
    lost = next(one.node for one in found.plans if one.owner == "old")
    found.nodes.remove(lost)
    found.cycle(1)
    assert found.started["old"] == 1
    assert found.planned == {"young": 6}


def test_a_gang_that_starts_late_moves_younger_plans_as_before() -> None:
    found = pool()
    found.limited("x", FOR_EVER)
    waiting(found, 5)
    found.submit("younger", 1, 100, cards=2)
    found.cycle(0)
    assert found.planned == {"old": 4, "young": 2, "younger": 7}
    found.end("c")
    given = found.cycle(2.25)
    assert found.started["young"] == 2.25
    assert found.planned == {"old": 4, "younger": 7.25}
    assert {reason.code for one in given.waiting for reason in one.reasons} == {Code.PLANNED_START}


def test_who_came_first_is_told_by_age_alone() -> None:
    """The priority of a gang decides who gets a plan, and moves none."""
    found = pool()
    found.limited("x", FOR_EVER)
    found.submit("old", 2, 5, cards=4)
    found.cycle(0)
    found.submit("young", 1, 10, cards=2, priority=9)
    found.cycle(0)
    assert found.planned == {"old": 4, "young": 2}
    found.cycle(2)
    assert found.planned["old"] == 4


def planned(owner: str, at: float, hours: float, **cards: int) -> list[Reservation]:
    """The room of a plan: pods of one card, so many by node."""
    since, until = round(at * HOUR), round((at + hours) * HOUR)
    return [
        Reservation(owner, where, CARD, ReservationKind.PLANNED, since=since, until=until, firm=True, queue="q")
        for where, pods in cards.items()
        for _ in range(pods)
    ]


@pytest.mark.parametrize("topology", ["None", "Preferred"])
@pytest.mark.parametrize("late", [0, 1, 30], ids="{} s late".format)
def test_a_gang_whose_moment_has_come_takes_the_room_that_was_planned_for_it(late: int, topology: str) -> None:
    """On other cards of its nodes it would take what was planned for `mid`, and `young` would give way to that."""
    nodes = [node(f"n{at}", gpu=2, cpu=1000, pods=1000) for at in range(4)]
    jobs = (("old", 3, 8), ("mid", 3, 5), ("young", 5, 1))
    gangs = [
        structs.replace(
            gang(name, "q", pods, of=CARD, created=age),
            lasts=hours * HOUR,
            topology=topology if name == "old" else "None",
            levels=("kubernetes.io/hostname",),
        )
        for age, (name, pods, hours) in enumerate(jobs)
    ]
    plans = (
        *planned("old", 11, 8, n1=1, n2=2),
        *planned("young", 11, 1, n0=2, n1=1, n3=2),
        *planned("mid", 12, 5, n1=1, n3=2),
    )
    before = view(nodes, gangs, {"q": queue(ordering="Backfill")}, plans)
    found = plan(before, Policy(planning=Planning(), starvation=None), 11 * HOUR + late * HOUR // 3600)
    assert Counter((one.gang, one.node) for one in found.assignments) == {
        ("old", "n1"): 1,
        ("old", "n2"): 2,
        ("young", "n0"): 2,
        ("young", "n1"): 1,
        ("young", "n3"): 2,
    }


def test_of_several_whose_nodes_are_closed_the_first_comer_is_planned_first() -> None:
    found = Pool(5, 2)
    for job, pods, hours in (("x", 3, 8), ("run", 2, 5)):
        found.submit(job, pods, hours, cards=2)
    found.cycle(0)
    for job, pods, hours in (("old", 3, 5), ("young", 1, 8)):
        found.submit(job, pods, hours, cards=2)
        found.cycle(0)
    assert found.planned == {"old": 8, "young": 5}
    taken = {one.owner: one.node for one in found.plans}
    for name in taken.values():
        found.cordon(name, 2)
    found.cycle(1)
    assert found.planned == {"old": 8, "young": 13}
