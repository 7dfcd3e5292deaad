"""The order of gangs is kept between cycles, and brought up to date in slices."""

import random
from collections.abc import Iterable
from unittest.mock import patch

import pytest
from msgspec import structs

from t9ksched.engine import past_lines, sorting
from t9ksched.engine.order import gang_key
from t9ksched.engine.past_lines import PastLines
from t9ksched.engine.work import Meter, finish
from t9ksched.model.gang import Gang
from tests.builders import gang


def by_queue(gangs: Iterable[Gang]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in sorted(gangs, key=gang_key):
        found.setdefault(one.queue, []).append(one.uid)
    return found


def uids(lines: PastLines, gangs: tuple[Gang, ...]) -> dict[str, list[str]]:
    found = finish(lines.follow(gangs, Meter()))
    return {name: [one.uid for one in line] for name, line in found.items()}


@pytest.mark.parametrize("seed", range(30))
def test_the_order_follows_what_comes_goes_and_changes(seed: int) -> None:
    rng = random.Random(seed)
    lines, there, came = PastLines(), list[Gang](), 0
    with (
        patch.multiple(past_lines, _SOME=4, _FEW=3),
        patch.multiple(sorting, _SLICE=4, _SAMPLES=2),
    ):
        for _ in range(30):
            for _ in range(rng.choice([0, 0, 1, 2, 9])):
                came += 1
                new = gang(f"g{came}", queue=rng.choice("ab"), priority=rng.randint(0, 2), created=rng.randint(0, 9))
                there.insert(rng.randint(0, len(there)), new)
            for _ in range(rng.choice([0, 0, 1, 2, 7])):
                if there:
                    del there[rng.randrange(len(there))]
            if there and rng.random() < 0.3:
                at = rng.randrange(len(there))
                there[at] = structs.replace(there[at], priority=rng.randint(0, 3), queue=rng.choice("ab"))
            assert uids(lines, tuple(there)) == by_queue(there)


def test_a_queue_of_which_nothing_changed_has_the_same_line() -> None:
    lines = PastLines()
    there = tuple(gang(f"g{at}", queue="ab"[at % 2]) for at in range(10))
    first = dict(finish(lines.follow(there, Meter())))
    copies = tuple(structs.replace(one) for one in there)
    again = finish(lines.follow((*copies, gang("new", queue="b")), Meter()))
    assert again["a"] is first["a"]
    assert again["b"] is not first["b"], "a list that was handed out is not written to"
    assert len(first["b"]) == 5


@pytest.mark.parametrize("rhythm", [False, True])
def test_a_step_looks_at_a_bounded_number_of_gangs(rhythm: bool) -> None:
    """Sorting a hundred thousand gangs must not hold up the loop: no step asks for more keys than a few."""
    asked = 0

    def key(one: Gang) -> tuple[bool, int, int, str, str]:
        nonlocal asked
        asked += 1
        return gang_key(one)

    rng = random.Random(1)
    if rhythm:
        there = tuple(gang(f"{at % 8}-{at}", created=0) for at in range(2000))
    else:
        there = tuple(gang(f"g{at}", created=rng.randint(0, 1000)) for at in range(1000))
    with patch.object(sorting, "_SLICE", 64), patch.multiple(past_lines, _SOME=64, gang_key=key):
        most, before = 0, 0
        for _ in PastLines().follow(there, Meter()):
            most, before = max(most, asked - before), asked
    assert asked >= len(there)
    assert most <= 3 * 64 + len(there) // (64 // 16), "some keys are looked at first, and parts are not all of a size"
