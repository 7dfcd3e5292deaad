"""Who has how much of which card, before and after restarts: random histories (`parts.py`), of each system."""

import pytest

from tests.property.part_systems import GpuShareHistory, HamiHistory, KoordinatorHistory
from tests.property.parts import History

HISTORIES, STEPS = 24, 40


@pytest.mark.parametrize("kind", [History, HamiHistory, GpuShareHistory, KoordinatorHistory])
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_parts_are_charged_as_they_are_held_and_known_after_restarts(kind: type[History], seed: int) -> None:
    history = kind(seed)
    steps = {
        history.submit: 8,
        history.decide: 6,
        history.end: 3,
        history.foreign: 1,
        history.forge: 1,
        history.restart: 1,
        history.upgrade: 0.5,
        history.renumber: 1,
    }
    for _ in range(STEPS):
        (step,) = history.rng.choices(list(steps), list(steps.values()))
        step()
        history.check()
    for step in (history.restart, history.upgrade, history.restart):
        step()
        history.check()
