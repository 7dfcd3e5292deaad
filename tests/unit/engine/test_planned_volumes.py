"""Planned starts of pods that share volumes, of which nodes can attach so many: each counts once on a node."""

from dataclasses import replace

import pytest

from t9ksched.model.gang import Member
from t9ksched.model.podclass import PodClass, SharedVolume
from t9ksched.model.volumes import ATTACH_PREFIX
from tests.ahead import Pool
from tests.builders import member, node, pod_class

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
