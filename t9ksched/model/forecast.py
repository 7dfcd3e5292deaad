"""Forecasts of when waiting jobs start, and how good they were. Times are nanoseconds since the epoch."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, Final, Literal, NamedTuple

import msgspec

Basis = Literal["plan", "learned", "unknown"]
PLAN: Final = "plan"
LEARNED: Final = "learned"
UNKNOWN: Final = "unknown"
BASES: Final[tuple[Basis, ...]] = (PLAN, LEARNED, UNKNOWN)

_SECOND: Final = 1_000_000_000
Room = tuple[tuple[str, int, int], ...]
"""Where a group is to start: nodes, each with how many pods and how many cards the group has there."""


class Forecast(msgspec.Struct, frozen=True):
    """When a job is expected to start: not before `earliest`, not after `latest`, which is the forecast proper. Both
    are 0 where the basis is `unknown`. `at` is when this was said.
    """

    at: int
    earliest: int = 0
    latest: int = 0
    basis: Basis = UNKNOWN

    def says_as(self, other: "Forecast") -> bool:
        """Whether both name the same moment on the same basis, whenever they were made."""
        return (self.latest, self.basis) == (other.latest, other.basis)


class Tentative(NamedTuple):
    """A start that relies on ends that nothing enforces. `room` is empty for one so far ahead that it is not known."""

    at: int
    room: Room

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(node for node, _, _ in self.room)


class Outcome(NamedTuple):
    """A forecast, and when the job started."""

    forecast: Forecast
    started: int

    @property
    def error(self) -> int:
        """How far the start was from `latest`, in nanoseconds; never negative."""
        return abs(self.started - self.forecast.latest)

    @property
    def by_latest(self) -> bool:
        """Whether the job had started by then."""
        return self.started <= self.forecast.latest

    @property
    def in_interval(self) -> bool:
        """Whether the job started within the interval."""
        return self.forecast.earliest <= self.started <= self.forecast.latest


def accuracy(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The report on forecasts of jobs that started. `jobs` counts all of them, `unknown` those without a moment, which
    no other figure counts. Widths and errors are in seconds, null where there are none; percentiles are by nearest
    rank.
    """
    known: defaultdict[str, list[Outcome]] = defaultdict(list)
    unknown = 0
    for one in outcomes:
        if one.forecast.basis == UNKNOWN:
            unknown += 1
        else:
            known[one.forecast.basis].append(one)
    together = [one for several in known.values() for one in several]
    return {
        "jobs": unknown + len(together),
        "unknown": unknown,
        **_figures(together),
        "byBasis": {basis: {"jobs": len(known[basis]), **_figures(known[basis])} for basis in BASES if basis in known},
    }


def _figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    errors = sorted(one.error for one in outcomes)
    widths = sorted(one.forecast.latest - one.forecast.earliest for one in outcomes)
    return {
        "startedByLatest": sum(one.by_latest for one in outcomes),
        "startedInInterval": sum(one.in_interval for one in outcomes),
        "medianWidthSeconds": _percentile(widths, 0.5),
        "medianErrorSeconds": _percentile(errors, 0.5),
        "p90ErrorSeconds": _percentile(errors, 0.9),
    }


def _percentile(values: Sequence[int], share: float) -> float | None:
    """The smallest of these sorted values that so large a share of them does not exceed, in seconds."""
    if not values:
        return None
    return round(values[ceil(share * len(values)) - 1] / _SECOND, 3)
