"""How soon a cycle follows the one before."""

import pytest

from t9ksched.scheduler.decide.pace import GATHER_SECONDS, LONGEST_REST_SECONDS, Pace


def test_the_first_change_waits_only_for_what_comes_with_it() -> None:
    assert Pace().pause(0.0) == GATHER_SECONDS


@pytest.mark.parametrize(
    ("took", "later", "pause"),
    [
        (0.005, 0.000, 0.040),
        (0.005, 0.020, 0.020),
        (0.005, 0.038, GATHER_SECONDS),
        (0.005, 5.000, GATHER_SECONDS),
        (0.0005, 0.000, GATHER_SECONDS),
        (0.400, 0.000, LONGEST_REST_SECONDS),
    ],
)
def test_a_cycle_is_followed_by_a_rest(took: float, later: float, pause: float) -> None:
    pace = Pace()
    pace.cycle(1.0, 1.0 + took)
    assert pace.pause(1.0 + took + later) == pytest.approx(pause)


@pytest.mark.parametrize("took", [0.002, 0.005, 0.0075])
def test_changes_that_never_end_take_a_ninth_of_a_core(took: float) -> None:
    pace, now, busy = Pace(), 0.0, 0.0
    while now < 10.0:
        now += pace.pause(now)
        pace.cycle(now, now + took)
        now, busy = now + took, busy + took
    assert busy / now <= 0.112
