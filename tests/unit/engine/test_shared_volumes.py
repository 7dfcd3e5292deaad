"""Pods that share volumes, of which nodes can attach so many: in planned starts, and where victims make room."""

from dataclasses import replace

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Member
from t9ksched.model.podclass import PodClass, SharedVolume
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.volumes import ATTACH_PREFIX
from tests.ahead import Pool
from tests.builders import gang, member, node, pod_class, queue, running, view

DISKS = f"{ATTACH_PREFIX}d.example.com"


def using(name: str, *amounts: int) -> tuple[Member, ...]:
    """Pods with so many cards each that all use one volume."""

    def of(gpu: int) -> PodClass:
        return replace(pod_class(gpu=gpu), volumes=(SharedVolume(DISKS, name),))

    return tuple(member(f"{name}-{at}", of(gpu)) for at, gpu in enumerate(amounts))


@pytest.mark.parametrize(("limit", "beside"), [(2, 4), (1, 9)])
@pytest.mark.parametrize("amounts", [(1, 1), (1, 2)], ids=["alike", "unlike"])
def test_a_volume_that_pods_of_a_plan_share_is_attached_once(
    limit: int, beside: float, amounts: tuple[int, ...]
) -> None:
    pool = Pool(facts=[node("n0", gpu=8, cpu=1000, pods=1000, **{DISKS: limit})])
    pool.submit("x", 1, 4, cards=8)
    pool.cycle(0)
    for name, waiting in (("first", using("v", *amounts)), ("second", using("w", 1))):
        pool.submit(name, len(waiting), 5)
        pool.change(name, waiting=waiting)
        pool.cycle(0)
    for _ in range(2):
        assert pool.planned == {"first": 4, "second": beside}
        pool.cycle(1)


@pytest.mark.parametrize(("limit", "evicted"), [(2, {"r"}), (1, {"r"}), (0, set())])
def test_victims_are_found_for_unlike_pods_that_share_a_volume(limit: int, evicted: set[str]) -> None:
    nodes = [node("n0", gpu=4, **{DISKS: limit})]
    busy = [running("r", "low", ["n0"], cpu=1, gpu=4, cards=[15])]
    queues = {"low": queue(), "q": queue(priority=1)}
    given = view(nodes, [gang("g", members=using("v", 1, 2))], queues, running=busy)
    found = plan(given, Policy(actions=("allocate", "preempt")), 0)
    assert {one.gang for one in found.evictions} == evicted


def test_no_victims_are_looked_for_where_unlike_pods_use_too_many_volumes() -> None:
    nodes = [node("n0", gpu=4, **{DISKS: 1})]
    busy = [running("r", "low", ["n0"], cpu=1, gpu=4, cards=[15])]
    members = [*using("v", 1), *using("w", 2)]
    given = view(nodes, [gang("g", members=members)], {"low": queue(), "q": queue(priority=1)}, running=busy)
    assert not plan(given, Policy(actions=("allocate", "preempt")), 0).evictions


@pytest.mark.parametrize(("limit", "placed"), [(2, 1), (1, 0)])
def test_what_is_promised_beyond_the_limit_of_a_node_is_not_there_for_others(limit: int, placed: int) -> None:
    shared = (SharedVolume(DISKS, "v"), SharedVolume(DISKS, "w"))
    both = replace(pod_class(gpu=1), volumes=shared)
    promised = Reservation("other", "n0", both, ReservationKind.REFILL)
    given = view(
        [node("n0", gpu=4, **{DISKS: limit})],
        [gang("g", members=[member("g-0", both)])],
        {"q": queue()},
        reservations=(promised,),
    )
    assert len(plan(given, Policy(), 0).assignments) == placed
