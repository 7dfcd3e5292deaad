from typing import Any

import pytest

from t9ksched.cli.commands.wait import Goal, _seconds, reached
from t9ksched.cli.failure import BAD_USAGE, Failure


@pytest.mark.parametrize(
    ("goal", "phase", "answer"),
    [
        ("running", "Pending", False),
        ("running", "Running", True),
        ("running", "Succeeded", True),
        ("running", "Failed", None),
        ("succeeded", "Running", False),
        ("succeeded", "Succeeded", True),
        ("succeeded", "Failed", None),
        ("failed", "Succeeded", None),
        ("failed", "Failed", True),
        ("finished", "Running", False),
        ("finished", "Failed", True),
        ("finished", "Succeeded", True),
        ("deleted", "Failed", False),
        ("deleted", "Terminating", False),
        ("running", "Terminating", None),
        ("finished", "Terminating", None),
    ],
)
def test_goals(goal: str, phase: str, answer: bool | None) -> None:
    job: dict[str, Any] = {"kind": "MPIJob", "name": "walk", "phase": phase}
    if answer is None:
        with pytest.raises(Failure, match="is being deleted" if phase == "Terminating" else f"ended as {phase}"):
            reached(Goal(goal), job)
    else:
        assert reached(Goal(goal), job) is answer


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("0", 0.0)])
def test_timeouts(text: str, seconds: float) -> None:
    assert _seconds(text) == seconds


def test_a_timeout_that_is_none() -> None:
    with pytest.raises(Failure) as failure:
        _seconds("soon")
    assert failure.value.code == BAD_USAGE
