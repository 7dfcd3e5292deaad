"""`simulate … --plot`: how long jobs took and how many cards they held, or how much was filled, as an image.

Matplotlib draws it; it comes with the extra `t9ksched[plots]` and is read only here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.simulation.job import Run

_HOUR = 3600.0
_DIGITS = 6
"""Moments of events are equal that differ by less than a microsecond: the sums of their parts are rounded."""


def check(path: Path) -> None:
    """Whether an image can be drawn and written there, before hours are spent on what it shows.

    Raises:
        Failure: matplotlib is not installed, the name ends otherwise, or there is no such folder.
    """
    if path.suffix.lower() != ".png":
        raise Failure(f"--plot writes a PNG image: {path} must end in .png", code=BAD_USAGE)
    if not path.absolute().parent.is_dir():
        raise Failure(f"{path} cannot be written: there is no folder {path.absolute().parent}", code=BAD_USAGE)
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise Failure(
            "--plot needs matplotlib, which is not installed", remedy="pip install 't9ksched[plots]'", code=BAD_USAGE
        ) from error


def plot(path: Path, found: Mapping[str, Sequence[Run]], capacity: int) -> None:
    """Draw the runs of each policy; `capacity` is in cards.

    Raises:
        Failure: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    took, held = figure.subplots(2, 1)
    for name, runs in found.items():
        completions = np.sort([run.completion for run in runs]) / _HOUR
        took.step(completions, np.arange(1, len(runs) + 1) / len(runs), where="post", label=name)
        at, cards = in_use(runs)
        held.step(at / _HOUR, cards / capacity, where="post", label=name, linewidth=0.8)
    took.set(xscale="log", xlabel="completion (hours)", ylabel="share of jobs", ylim=(0, 1))
    held.set(xlabel="time since the first submission (hours)", ylabel="share of cards in use", ylim=(0, 1.02))
    took.legend()
    took.grid(alpha=0.3)
    held.grid(alpha=0.3)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}") from error


def plot_filled(path: Path, found: Mapping[str, Sequence[Mapping[int, float]]]) -> None:
    """Draw what is allocated over what has arrived, both in percent of the cards: for each policy the mean of its runs.

    Raises:
        Failure: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    allocated = figure.subplots()
    for name, runs in found.items():
        marks = sorted(runs[0])
        allocated.plot(marks, [fmean(run[mark] for run in runs) for mark in marks], marker=".", label=name)
    allocated.set(xlabel="demand that has arrived (% of the cards)", ylabel="allocated (% of the cards)")
    allocated.legend()
    allocated.grid(alpha=0.3)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}") from error


def in_use(runs: Sequence[Run]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Moments, sorted, and how many cards are held from each of them on."""
    changes: dict[float, int] = {}
    for run in runs:
        stops = [moment for pause in run.pauses for moment in pause]
        for nth, exact in enumerate((run.started, *stops, run.ended)):
            moment = round(exact, _DIGITS)
            changes[moment] = changes.get(moment, 0) + (run.job.cards if nth % 2 == 0 else -run.job.cards)
    moments = np.array(sorted(changes))
    return moments, np.cumsum([changes[moment] for moment in moments.tolist()])
