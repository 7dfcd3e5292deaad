"""How long jobs run, by what jobs like them ran before: 80 % intervals, which nothing enforces.

Jobs are alike if they have the same submitter, queue, kind and shape. Where too few of those ran, the shape is left out
of account, then the kind, then the queue.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from math import ceil
from typing import Final, NamedTuple

FEWEST: Final = 5
"""Runs that an interval is made of at least."""
_LOW: Final = 0.1
_HIGH: Final = 0.9
_MOST_KEPT: Final = 10_000


class Likeness(NamedTuple):
    """What the run time of a job is judged by. `shape` is its number of members and of cards."""

    submitter: str
    queue: str
    kind: str
    shape: tuple[int, int]


class RunTimes:
    """The run times of jobs that have ended: seconds, each with what the job was like."""

    def __init__(self, runs: Iterable[tuple[Likeness, float]] = ()) -> None:
        found: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
        for likeness, seconds in runs:
            for key in _levels(likeness):
                found[key].append(seconds)
        self._runs = {key: sorted(several) for key, several in found.items()}
        self._kept: dict[Likeness, tuple[float, float] | None] = {}
        """Intervals of jobs that wait, which lists ask for job by job."""

    def interval(self, likeness: Likeness, age: float = 0) -> tuple[float, float] | None:
        """Between how many seconds four fifths of the jobs like it ran, of those that ran longer than its age; None
        where there are fewer than five at every level.
        """
        if not self._runs:
            return None
        if age:
            return self._interval(likeness, age)
        if likeness not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[likeness] = self._interval(likeness, 0)
        return self._kept[likeness]

    def _interval(self, likeness: Likeness, age: float) -> tuple[float, float] | None:
        for key in _levels(likeness):
            runs = self._runs.get(key, [])
            first = bisect_right(runs, age) if age else 0
            if (count := len(runs) - first) >= FEWEST:
                return runs[first + ceil(_LOW * count) - 1], runs[first + ceil(_HIGH * count) - 1]
        return None


def _levels(likeness: Likeness) -> list[tuple[object, ...]]:
    return [tuple(likeness[:count]) for count in range(len(likeness), 0, -1)]
