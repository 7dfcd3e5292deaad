"""Quotas, charges and dominant shares."""

import pytest

from t9ksched.engine.ledger import INFINITE_SHARE, SHARE_UNIT, Ledger, Shortfall
from tests.builders import queue


def ledger(**queues: object) -> Ledger:
    return Ledger(queues, lambda _: {"cpu": 100_000, "memory": 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("quota", "used", "share"),
    [
        ({"cpu": 10, "memory": "20Gi"}, {"cpu": 5, "memory": "3Gi"}, SHARE_UNIT // 2),
        ({"cpu": 6, "memory": 8}, {"cpu": 3, "memory": 5}, SHARE_UNIT * 5 // 8),
        ({"cpu": 8, "memory": 2}, {"cpu": 3, "memory": 1}, SHARE_UNIT // 2),
        ({"cpu": 0}, {"cpu": 1}, INFINITE_SHARE),
        ({"cpu": 0}, {}, 0),
        ({"cpu": 10}, {"memory": "1Gi"}, 0),
        ({}, {"cpu": 25}, SHARE_UNIT // 4),
        ({}, {"memory": 5}, 0),
    ],
    ids=["half", "queue A", "queue B", "zero quota used", "zero quota", "not named", "no quota", "on no node"],
)
def test_dominant_share(quota: dict[str, str | int], used: dict[str, str | int], share: int) -> None:
    assert ledger(q=queue(quota=quota, used=used)).share("q") == share


def test_shortfalls_carry_their_numbers() -> None:
    books = ledger(q=queue(quota={"cpu": 4, "memory": 100, "nvidia.com/gpu": 2}, used={"cpu": 3, "memory": 120}))
    assert books.can_charge("q", {"cpu": 1000, "pods": 3}) == []
    assert books.can_charge("q", {"cpu": 1001, "memory": 1, "nvidia.com/gpu": 3}) == [
        Shortfall("q", "cpu", 1001, 1000, 4000),
        Shortfall("q", "memory", 1, -20, 100),
        Shortfall("q", "nvidia.com/gpu", 3, 2, 2),
    ]


def test_uncharge_gives_back_what_charge_took() -> None:
    books = ledger(q=queue(quota={"cpu": 4}, used={"cpu": 1}))
    books.charge("q", {"cpu": 3000, "pods": 2})
    assert books.can_charge("q", {"cpu": 1})
    books.uncharge("q", {"cpu": 3000, "pods": 2})
    assert books.used("q") == {"cpu": 1000, "pods": 0}


@pytest.mark.parametrize(("request_", "most"), [({"cpu": 1000}, 3), ({"cpu": 1001}, 2), ({"memory": 9}, 7), ({}, 7)])
def test_most(request_: dict[str, int], most: int) -> None:
    assert ledger(q=queue(quota={"cpu": 4}, used={"cpu": 1})).most("q", request_, 7) == most
