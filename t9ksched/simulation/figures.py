"""What replays are compared by. Times are seconds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from t9ksched.simulation.job import Run

_P99: Final = 0.99


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one replay, over the jobs that are counted.

    Attributes:
        jobs: how many.
        makespan: from the first submission to the last end.
        mean_wait: of the time from submission to end in which the job did not run.
        mean_completion, p99_completion: from submission to end; 99 of 100 jobs took no longer.
        mean_bounded_slowdown: see `Run.bounded_slowdown`.
        utilisation: the share of all cards that jobs held, of any number, between the first submission and the last
            end of those that are counted.
        preemptions: how often a running job that is counted was stopped for another.
    """

    jobs: int
    makespan: float
    mean_wait: float
    mean_completion: float
    p99_completion: float
    mean_bounded_slowdown: float
    utilisation: float
    preemptions: int = 0


def figures(runs: Sequence[Run], capacity: int, counted: slice = slice(None)) -> Figures:
    """The figures of the runs at these positions in the order of submission; `capacity` is in cards.

    Raises:
        ValueError: no run is counted.
    """
    ours = runs[counted]
    if not ours:
        raise ValueError(f"no job is at these positions: there are {len(runs)}")
    first, last = ours[0].job.submitted, max(run.ended for run in ours)
    completions = sorted(run.completion for run in ours)
    held = sum(run.ran(first, last) * run.job.cards for run in runs)
    return Figures(
        jobs=len(ours),
        makespan=last - first,
        mean_wait=_mean(run.wait for run in ours),
        mean_completion=_mean(completions),
        p99_completion=completions[math.ceil(_P99 * len(completions)) - 1],
        mean_bounded_slowdown=_mean(run.bounded_slowdown for run in ours),
        utilisation=held / (capacity * (last - first)),
        preemptions=sum(len(run.pauses) for run in ours),
    )


def _mean(values: Iterable[float]) -> float:
    all_of = list(values)
    return math.fsum(all_of) / len(all_of)
