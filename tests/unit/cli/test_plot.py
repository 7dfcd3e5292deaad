"""Images of replays."""

import sys
from pathlib import Path

import pytest

from t9ksched.cli import plot
from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.simulation.job import Job, Run


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Failure, match="--plot needs matplotlib") as raised:
        plot.check(tmp_path / "plot.png")
    assert (raised.value.code, raised.value.remedy) == (BAD_USAGE, "pip install 't9ksched[plots]'")


def test_cards_in_use() -> None:
    """Job `a` is preempted while `b` has its card."""
    runs = [Run(Job("a", 0, 10, 2), 0, pauses=((4, 9),)), Run(Job("b", 4, 5, 1), 4)]
    moments, cards = plot.in_use(runs)
    assert dict(zip(moments.tolist(), cards.tolist(), strict=True)) == {0: 2, 4: 1, 9: 2, 15: 0}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "plot.png").mkdir()
    with pytest.raises(Failure, match="cannot be written"):
        plot.plot(tmp_path / "plot.png", {"fcfs": [Run(Job("a", 0, 10, 2), 0)]}, 2)
