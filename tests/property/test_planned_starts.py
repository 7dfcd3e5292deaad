"""Planned starts through random histories (`planned_histories.py`), and faults that are built in on purpose."""

from collections.abc import Iterable
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from t9ksched.engine import planned_starts, planner
from t9ksched.engine.arrays import Int64s
from t9ksched.engine.blocks import NEVER_ENDS
from t9ksched.engine.ends import Ends
from t9ksched.engine.future_charges import FutureCharges
from t9ksched.engine.order import Firm
from t9ksched.engine.past_plans import Deviation
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.reserved_rooms import ReservedRooms
from t9ksched.engine.windows import Windows
from tests.ahead import HOUR
from tests.property.planned_histories import Crowded, Histories

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
Histories.TestCase.settings = settings(SETTINGS, max_examples=80, stateful_step_count=30)
TestHistories = Histories.TestCase


@pytest.mark.soak
def test_long_histories() -> None:
    run_state_machine_as_test(Crowded, settings=settings(SETTINGS, max_examples=3000, stateful_step_count=60))


def _nothing_is_taken(self: PlannedStarts, gang: object, *, lends: bool = False) -> None:
    return None


def _ends_come_early(self: Ends, moment: int, then: int) -> Int64s:
    found = AT_LEAST(self, moment, then)
    return np.where(found > moment + HOUR, found - HOUR, found)


AT_LEAST = Ends.at_least
FAULTS = {
    "who starts now leaves no room to plans": lambda: patch.multiple(
        PlannedStarts, taken=_nothing_is_taken, places=lambda *_: None
    ),
    "ends are expected too early": lambda: patch.object(Ends, "at_least", _ends_come_early),
    "quota is not planned": lambda: patch.multiple(
        FutureCharges, payable=lambda *_: [], pays_until=lambda *_: NEVER_ENDS
    ),
    "plans of equal queues are not seen": lambda: patch.object(
        PlannedStarts, "focus", lambda self, rank: self.lift(self.blocks())
    ),
    "plans keep no order": lambda: patch.object(planner, "Firm", lambda lines, specs, _: Firm(lines, specs, {})),
    "plans heed no windows": lambda: patch.object(Windows, "_steps", lambda self, gang, until: None),
    "all is always as expected": lambda: patch.object(
        planned_starts.PastPlans, "as_expected", lambda *_: Deviation(None, 0)
    ),
}


Step = int | tuple[str, int, int] | tuple[str, int, int, int]
"""Hours that go by; or a job that comes: queue, pods of one card, hours it may run, and how much earlier it ends."""
BLOCKED: tuple[Step, ...] = (("q", 7, 5), 0, ("q", 8, 1), 0)
SHOWN: dict[str, tuple[Step, ...]] = {
    "who starts now leaves no room to plans": (*BLOCKED, ("q", 1, 8), 0),
    "ends are expected too early": (*BLOCKED, 5),
    "quota is not planned": (("small", 5, 5), ("small", 3, 5), ("small", 3, 5), 0),
    "plans of equal queues are not seen": (*BLOCKED, ("q", 1, 8), 0),
    "plans keep no order": (("q", 5, 5), 0, ("q", 7, 2), 0, ("free", 7, 2), 0, ("high", 8, 1), 0),
    "plans heed no windows": (*BLOCKED, ("night", 8, 1), 0),
    "all is always as expected": (("q", 8, 5, 3), 0, ("q", 8, 5), 3),
}


def play(steps: Iterable[Step]) -> None:
    """A history that is written down, on four nodes of two cards."""
    machine = Histories()
    machine.begin(nodes=4, mode="Conservative", alike=True)
    for step in steps:
        if isinstance(step, int):
            machine.go_on(step, late=False)
        else:
            of, pods, hours, *early = step
            machine.submit(of, pods, 1, hours, *(early or [0]), 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str) -> None:
    play(SHOWN[fault])
    with FAULTS[fault](), pytest.raises(AssertionError):
        play(SHOWN[fault])


def reserved_history(*, part: bool) -> None:
    """Jobs that come before and while room of two of four nodes is reserved for another queue."""
    machine = Histories()
    machine.begin(nodes=4, mode="Conservative")
    machine.reserve(at=0, nodes=2, ahead=3, hours=4, of="free", part=part, drain=1)
    for hours in (3, 5, 0, 2):
        machine.submit("q", 3, 1, hours, 0, 0)
        machine.submit("free", 1, 1, hours, 0, 0, inside=True)
        machine.go_on(2, late=False)


@pytest.mark.parametrize("part", [False, True], ids=["whole nodes", "a card of each"])
def test_a_reservation_that_is_not_heeded_is_noticed(part: bool) -> None:
    reserved_history(part=part)
    with patch.object(ReservedRooms, "heeded", lambda *_, **__: None), pytest.raises(AssertionError):
        reserved_history(part=part)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    dice = settings(SETTINGS, max_examples=1500, stateful_step_count=30, database=None, phases=[Phase.generate])
    with FAULTS[fault](), pytest.raises(AssertionError):
        run_state_machine_as_test(Crowded, settings=dice)
