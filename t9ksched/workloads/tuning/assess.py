"""Which trials are not worth going on, by their intermediate results.

Medianstop (Golovin et al., "Google Vizier", 2017, 3.1): a trial is stopped at a step if its best result so far is worse
than the median of what the trials that ended well had on average until that step.

Curvefitting (after Domhan et al., "Speeding up automatic hyperparameter optimization …", 2015): curves that rise or
fall to a limit are fitted to the results of the trial; it is stopped if they agree and foretell a result that is worse
than the given part of the best one.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from t9ksched.workloads.tuning.settings import MEDIAN, Assessor
from t9ksched.workloads.tuning.trials import Results

_SHAPES: Final[tuple[Callable[[float], float], ...]] = (
    *(lambda x, power=power: x**-power for power in (0.25, 0.5, 1.0, 2.0)),
    *(lambda x, rate=rate: math.exp(-rate * x) for rate in (0.05, 0.2, 0.8)),
    lambda x: 1 / math.log(x + math.e),
)
"""What goes to 0: a curve is `limit + scale * shape`."""
_KEPT: Final = 3
"""Curves that are asked: those that fit best."""


def stopped(assessor: Assessor, mine: Results, ended: Sequence[Results], best: float | None) -> str:
    """Why a trial with these results is stopped, empty if it goes on. `ended` are the results of the trials that ended
    well, `best` is the best of them.
    """
    if not mine.steps or mine.final is not None:
        return ""
    if assessor.name == MEDIAN:
        return _by_median(assessor, mine, ended)
    return _by_curve(assessor, mine, best)


def _by_median(assessor: Assessor, mine: Results, ended: Sequence[Results]) -> str:
    step = mine.steps[-1][0]
    if step < assessor.start:
        return ""
    until = [[value for at, value in one.steps if at <= step] for one in ended]
    averages = [statistics.fmean(values) for values in until if values]
    if not averages:
        return ""
    values = [value for _, value in mine.steps]
    best, median = (max if assessor.maximize else min)(values), statistics.median(averages)
    if not (best < median if assessor.maximize else best > median):
        return ""
    return f"at step {step} its best result {best:g} is worse than the median {median:g} of the trials that ended"


def _by_curve(assessor: Assessor, mine: Results, best: float | None) -> str:
    count = len(mine.steps)
    if best is None or count < max(assessor.start, 4) or (count - assessor.start) % assessor.gap:
        return ""
    foretold = _foretold([value for _, value in mine.steps], max(assessor.epochs, count))
    if foretold is None:
        return ""
    needed = best - (1 - assessor.threshold) * abs(best) * (1 if assessor.maximize else -1)
    if foretold >= needed if assessor.maximize else foretold <= needed:
        return ""
    return f"after {count} results {foretold:g} is foretold, and the best trial has {best:g}"


def _foretold(values: list[float], at: int) -> float | None:
    """The value at that place of the sequence; None if the curves that fit best do not agree on it."""
    fits = sorted((fit for shape in _SHAPES if (fit := _fit(values, shape, at)) is not None), key=lambda fit: fit[0])
    ends = [end for _, end in fits[:_KEPT]]
    spread = max(values) - min(values)
    if not ends or max(ends) - min(ends) > max(spread, 1e-12):
        return None
    return statistics.fmean(ends)


def _fit(values: list[float], shape: Callable[[float], float], at: int) -> tuple[float, float] | None:
    """Squared error and value at that place of the curve of this shape that fits best."""
    points = [shape(float(place)) for place in range(1, len(values) + 1)]
    try:
        slope, limit = statistics.linear_regression(points, values)
    except statistics.StatisticsError:
        return None
    error = sum((limit + slope * point - value) ** 2 for point, value in zip(points, values, strict=True))
    return error, limit + slope * shape(float(at))
