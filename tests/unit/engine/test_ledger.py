"""Quotas, charges and dominant shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t9ksched.engine.ledger import INFINITE_SHARE, SHARE_UNIT, Ledger, Level, Shortfall
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


def test_what_is_kept_is_left_to_nobody_and_charged_to_nobody() -> None:
    books = ledger(q=queue(quota={"cpu": 4, "memory": 100}, used={"cpu": 1, "memory": 120}))
    share, version = books.share("q"), books.version
    kept = books.keep("q", {"cpu": 2000, "memory": 9, "nvidia.com/gpu": 1})
    assert list(kept) == [("q", "cpu", 2000)], "of memory nothing is left, and cards have no quota"
    assert books.version > version
    assert books.can_charge("q", {"cpu": 1001}) == [Shortfall("q", "cpu", 1001, 1000, 4000, 2000)]
    assert books.most("q", {"cpu": 500}, 9) == 2
    assert list(books.limits("q")) == [("q", "cpu", 4000, 3000), ("q", "memory", 100, 120)]
    assert list(books.kept("q")) == kept
    assert (books.share("q"), books.used("q")["cpu"]) == (share, 1000)
    assert list(books.keep("q", {"cpu": 9000})) == [("q", "cpu", 1000)]
    books.release(kept)
    assert books.can_charge("q", {"cpu": 2000}) == []
    assert books.can_charge("q", {"cpu": 2001})


@pytest.mark.parametrize(("demand", "pays"), [({"cpu": 4000}, True), ({"cpu": 4001}, False), ({"memory": 9}, True)])
def test_what_a_queue_could_pay_for_if_it_paid_for_nothing_else(demand: dict[str, int], pays: bool) -> None:
    assert ledger(q=queue(quota={"cpu": 4}, used={"cpu": 9})).pays_ever("q", demand) is pays


@pytest.mark.parametrize(("request_", "most"), [({"cpu": 1000}, 3), ({"cpu": 1001}, 2), ({"memory": 9}, 7), ({}, 7)])
def test_most(request_: dict[str, int], most: int) -> None:
    assert ledger(q=queue(quota={"cpu": 4}, used={"cpu": 1})).most("q", request_, 7) == most


def family(**used: int) -> Ledger:
    """Two teams of one department, which own 4 and 2 cpu and lend what they do not use; the department owns 6."""
    queues = {name: queue(quota={"cpu": 10}, used={"cpu": used.get(name, 0)}) for name in ("a", "b")}
    queues["top"] = queue(quota={"cpu": 8})
    tree = {
        "a": Level("top", {"cpu": 4000}),
        "b": Level("top", {"cpu": 2000}),
        "top": Level(None, {"cpu": 6000}),
    }
    return Ledger(queues, lambda _: {}, tree)


def test_a_cap_above_holds_for_all_below() -> None:
    books = family(a=5, b=2)
    assert books.can_charge("b", {"cpu": 1000}) == []
    assert books.can_charge("b", {"cpu": 2000}) == [Shortfall("top", "cpu", 2000, 1000, 8000)]
    assert books.most("a", {"cpu": 500}, 9) == 2
    books.leave("a", (("cpu", 1000),))
    assert books.can_charge("b", {"cpu": 2000}, staying=True) == []
    assert list(books.path("a")) == ["a", "top"]


@pytest.mark.parametrize(
    ("used", "a", "b", "top"),
    [
        ({"a": 4, "b": 2}, 0, 0, 0),
        ({"a": 6}, 2, 0, 0),  # what a borrows is what b owns and does not use: the department borrows nothing
        ({"a": 8}, 4, 0, 0),
        ({"a": 7, "b": 6}, 3, 4, 1),
    ],
)
def test_only_what_exceeds_what_is_owned_goes_up(used: dict[str, int], a: int, b: int, top: int) -> None:
    books = family(**used)
    assert [books.share(name) for name in ("a", "b")] == [a * SHARE_UNIT // 10, b * SHARE_UNIT // 10]
    assert books.shares("a") == (top * SHARE_UNIT // 8, a * SHARE_UNIT // 10)


@given(steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-6, 6)), max_size=12))
def test_charges_and_takings_back_in_any_order_leave_the_same(steps: list[tuple[str, int]]) -> None:
    books, held = family(), {"a": 0, "b": 0}
    for name, amount in steps:
        if held[name] + amount >= 0:
            held[name] += amount
            (books.charge if amount > 0 else books.uncharge)(name, {"cpu": abs(amount) * 1000})
    again = family(**held)
    for name in ("a", "b"):
        assert books.shares(name) == again.shares(name)
        assert books.can_charge(name, {"cpu": 9000}) == again.can_charge(name, {"cpu": 9000})
