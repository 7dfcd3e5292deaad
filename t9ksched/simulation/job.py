"""A job of a trace, and what became of it in a replay. Times are seconds since the trace began."""

import math
from dataclasses import dataclass
from typing import Final

import msgspec

BOUND_SECONDS: Final = 10.0
"""Runs that are shorter count as this long in the bounded slowdown."""
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was recorded.

    Attributes:
        name: what the trace calls it.
        submitted: when it came.
        runs: how long it runs once all its pods have a place, more than 0.
        cards: how many cards it needs together, more than 0.
        user: who submitted it, empty where the trace does not say.
        priority: larger goes first, for policies that ask for it.
        limit: the run time that its user asked for; None without one.
        pods: how many alike pods it has, of which its cards are a multiple; 0 for as few as the nodes allow.
    """

    name: str
    submitted: float
    runs: float
    cards: int
    user: str = ""
    priority: int = 0
    limit: float | None = None
    pods: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A job that was started, and when.

    Attributes:
        started: when it ran first.
        pauses: from when to when it was preempted; what it had done was kept.
        planned: the first start that was planned for it; None where none was.
    """

    job: Job
    started: float
    pauses: tuple[tuple[float, float], ...] = ()
    planned: float | None = None

    @property
    def ended(self) -> float:
        """When it ended."""
        return self.started + self.job.runs + self._paused

    @property
    def wait(self) -> float:
        """Seconds between its submission and its end in which it did not run."""
        return self.started - self.job.submitted + self._paused

    @property
    def _paused(self) -> float:
        return math.fsum(resumed - stopped for stopped, resumed in self.pauses)

    def ran(self, first: float, last: float) -> float:
        """For how many seconds of this interval it ran."""
        spans = ((self.started, self.ended, 1), *((stopped, resumed, -1) for stopped, resumed in self.pauses))
        return math.fsum(sign * max(0.0, min(end, last) - max(begin, first)) for begin, end, sign in spans)

    @property
    def completion(self) -> float:
        """Seconds from its submission to its end."""
        return self.ended - self.job.submitted

    @property
    def bounded_slowdown(self) -> float:
        """How many times longer it took than it ran, at least 1; short runs count as ten seconds (Feitelson 1997)."""
        return max(1.0, self.completion / max(self.job.runs, BOUND_SECONDS))


class Replay(msgspec.Struct, frozen=True):
    """What became of the jobs.

    Attributes:
        runs: one a job that was started, in the order of submission.
        too_large: jobs that need more cards than the cluster has; they are left out.
        plans: how often the planner was asked.
    """

    runs: tuple[Run, ...]
    too_large: int = 0
    plans: int = 0


def nanoseconds(seconds: float) -> int:
    """Seconds in the unit of the engine."""
    return round(seconds * _SECOND)


def seconds(moment: int) -> float:
    """The inverse of `nanoseconds`."""
    return moment / _SECOND
