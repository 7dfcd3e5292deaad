"""A sequence in parts: it says the same as a tuple, and costs what changed."""

import random

import pytest

from t9ksched.engine.gang_changes import came_and_went
from t9ksched.engine.parted import Parted, Parts
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Running
from tests.counting import Lines


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_a_tuple_of_all_values_would_be(seed: int) -> None:
    rng = random.Random(seed)
    parts: Parts[object] = Parts()
    there: dict[str, object] = {}
    told = parts.told()
    for at in range(60):
        for nth in range(rng.choice((0, 1, 3, 200))):
            parts[f"{at}-{nth}"] = there[f"{at}-{nth}"] = object()
        for key in rng.sample(sorted(there), min(len(there), rng.choice((0, 1, 2, 250)))):
            if rng.random() < 0.5:
                parts[key] = there[key] = object()
            else:
                parts.discard(key)
                del there[key]
        before, told = told, parts.told()
        expected = tuple(there.values())
        assert told == expected
        came, went = finish(came_and_went(before, told, Meter()))  # type: ignore[type-var]
        assert {*came} == {*told} - {*before}
        assert {*went} == {*before} - {*told}
        assert (tuple(told), len(told), len(parts)) == (expected, len(expected), len(expected))
        assert (told == before) == (told is before)
        assert [told[nth] for nth in range(len(told))] == list(expected)
        first, last = sorted(rng.randrange(-5, len(expected) + 5) for _ in range(2))
        for some in (slice(first, last), slice(None, None, 7), slice(last, None)):
            assert told[some] == expected[some]
        assert len(told.parts) <= 2 + len(expected) / 16, "parts of which much went are joined"


def test_equal_values_in_other_parts_are_equal() -> None:
    one = Parted(((1, 2), (3,)))
    assert one == Parted(((1,), (2, 3))) == (1, 2, 3)
    assert one != Parted(((1,), (2, 4)))
    assert one != (1, 2)
    assert one != 3
    assert (one[-1], one[0]) == (3, 1)
    with pytest.raises(IndexError):
        one[3]


def test_what_went_and_came_again_is_no_change() -> None:
    parts: Parts[str] = Parts()
    for key in "abc":
        parts[key] = key
    told = parts.told()
    parts.discard("c")
    parts["a"] = "other"
    parts["a"] = "a"
    parts["c"] = "c"
    assert parts.told() is told


def test_a_change_costs_the_same_among_few_and_among_many() -> None:
    def lines(count: int) -> int:
        parts: Parts[Running] = Parts()
        for at in range(count):
            parts[f"g{at}"] = Running(f"g{at}", f"ns/g{at}", "q", ())
        before = parts.told()
        meter = Meter()
        with Lines() as counted:
            parts["g7"] = other = Running("g7", "ns/g7", "q", (), priority=1)
            parts.discard("g300")
            after = parts.told()
            came, went = finish(came_and_went(before, after, meter))
        assert len({*map(id, before.parts)} ^ {*map(id, after.parts)}) == 4, "two parts were made anew"
        assert (came, [one.uid for one in went]) == ([other], ["g7", "g300"])
        assert meter.spent < 20_000, "groups that did not change are not compared"
        return counted.count

    # What is left of many is to count the parts.
    assert lines(12_800) < lines(1_280) + 6 * 90
