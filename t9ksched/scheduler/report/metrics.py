"""The metrics page: the families of `families`, filled from the state, and the meters of `state.meters`.

What a page says of nodes is kept between pages (`node_page.py`). The page is written in slices: a large cluster must
not hold the event loop. Lines are written by hand, because label objects of a library for each node cost ten times as
much.
"""

import asyncio
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, Final

import msgspec

from t9ksched import version
from t9ksched.engine.kernel.native import chosen
from t9ksched.kube.port import NONE_FAILED
from t9ksched.model.forecast import BASES, UNKNOWN
from t9ksched.scheduler.report import families
from t9ksched.scheduler.report.families import Family
from t9ksched.scheduler.report.node_page import NodePage, amounts
from t9ksched.scheduler.report.queuestatus import allocated
from t9ksched.scheduler.state.counts import PHASES
from t9ksched.scheduler.state.notified import OUTCOMES
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.serving.exposition import Sample, page
from t9ksched.serving.meters import cut_by
from t9ksched.store.job_overrides import STOPPABLE

_NODES_A_SLICE: Final = 100
_LINES_A_SLICE: Final = 500
_NOTHING: Final[Mapping[Any, int]] = {}
_SECOND: Final = 1_000_000_000
_Held = Callable[[str], Mapping[str, int]]
"""What a queue holds, by resource, as of one page."""


class Sources(msgspec.Struct, frozen=True):
    """What the page reads beside the state. Each gives the figure of the moment: how many requests to the API server
    were answered, by method and status; the rows that wait for the database; the bindings under way and how many may
    be; the time in nanoseconds since the epoch; when certificates end, in seconds since then.
    """

    requests: Callable[[], Mapping[tuple[str, str], int]] = lambda: _NOTHING
    backlog: Callable[[], int] = lambda: 0
    bindings: Callable[[], tuple[int, int]] = lambda: (0, 0)
    clock: Callable[[], int] = lambda: 0
    expiries: Callable[[], Mapping[str, int]] = lambda: _NOTHING


@dataclass
class MetricsPage:
    """Makes the pages of one scheduler; `cut` counts by family the samples that were left out."""

    state: ClusterState
    sources: Sources = field(default_factory=Sources)

    def __post_init__(self) -> None:
        self.nodes = NodePage(self.state)
        self.cut: Counter[str] = Counter()

    async def exposition(
        self,
        configuration_refused: bool,
        plugin_failures: Mapping[str, int] = _NOTHING,
        plugin_slow: Mapping[str, int] = _NOTHING,
        *,
        openmetrics: bool = False,
    ) -> bytes:
        """The whole page, in the text format of Prometheus or as OpenMetrics."""
        lines = [*_beginning(1, openmetrics), *families.NODE_REQUESTS.head(openmetrics)]
        self.nodes.drop_gone()
        for count, name in enumerate(sorted(self.state.node_objects), start=1):
            if name in self.state.node_objects and (told := self.nodes.refresh(name)):
                lines.append(told)
            self.state.card_audit.of(name)  # node by node, so that their number below has few left to look at
            if count % _NODES_A_SLICE == 0:
                await asyncio.sleep(0)
        samples = self._samples(configuration_refused, plugin_failures, plugin_slow)
        for family, found in samples.items():
            lines += family.head(openmetrics)
            await _take(family.page(found, self.cut), lines)
        self.state.meters.expect_queues(sorted(self.state.queues))
        for meter in self.state.meters.all:
            lines += meter.family.head(openmetrics)
            await _take(meter.lines(), lines)
        lines += families.CUT.head(openmetrics)
        cut = self.cut + cut_by(self.state.meters.all)
        lines += families.CUT.page((((name,), count) for name, count in sorted(cut.items())), self.cut)
        return page(lines, openmetrics)

    def _samples(
        self, refused: bool, plugin_failures: Mapping[str, int], plugin_slow: Mapping[str, int]
    ) -> dict[Family, Iterator[Sample]]:
        state, sources = self.state, self.sources
        stopped = {stop.what for stop in state.stops}
        active, scheduled = state.advance.phases()
        in_flight, most = sources.bindings()
        waiting, partial = len(state.pending), state.partial

        @cache
        def held(queue: str) -> Mapping[str, int]:
            return allocated(state, queue)

        return {
            families.NODES: self.nodes.states(),
            families.CARDS_BY_STATE: self.nodes.cards(),
            families.CARDS_UNUSABLE: self.nodes.unusable(),
            families.QUEUE_QUOTA: _quotas(state),
            families.QUEUE_ALLOCATED: _held(state, held),
            families.QUEUE_SHARE: _shares(state, held),
            families.QUEUE_GANGS: (((name,), state.counts.groups[name]) for name in sorted(state.queues)),
            families.QUEUE_PODS: (
                ((name, phase), state.counts.pods[name][phase]) for name in sorted(state.queues) for phase in PHASES
            ),
            families.QUEUE_WAITING: ((key, count) for key, count in sorted(state.waiting_gangs.counts.items())),
            families.GANGS_WAITING: iter([((), waiting)]),
            families.GANGS_PARTIAL: iter([((), len(partial))]),
            families.GANGS_PARTIAL_AGE: iter(
                [((), _oldest((one.fell or one.first_bound for one in partial), sources))]
            ),
            families.PLANNED_STARTS: iter([((), len(state.reservations.told))]),
            families.PLANS_MOVED: (((direction,), count) for direction, count in state.reservations.moved.items()),
            families.RESERVATIONS: iter([(("Active",), active), (("Scheduled",), scheduled)]),
            families.RESERVATIONS_ENDED: (((why,), count) for why, count in state.advance.counts.items()),
            **_forecasts(state),
            families.STOPPED: (((what,), int(what in stopped)) for what in STOPPABLE),
            families.DATABASE_AWAY: iter([((), int(state.outage.away))]),
            families.JOURNAL: iter([((), sources.backlog())]),
            families.CARD_DRIFT: iter([((), len(state.cards.drifting))]),
            families.CARDS_MISHELD: iter([((), len(state.card_audit))]),
            families.CLOCK_JUMPS: iter([((), state.clock_jumps)]),
            families.CONFIGURATION_REFUSED: iter([((), int(refused))]),
            families.PLUGIN_FAILURES: (((name,), count) for name, count in sorted(plugin_failures.items())),
            families.PLUGIN_SLOW: (((name,), count) for name, count in sorted(plugin_slow.items())),
            families.NOTIFICATIONS: (((outcome,), state.notified.told[outcome]) for outcome in OUTCOMES),
            families.NOTIFICATIONS_WAITING: iter([((), state.notified.waiting)]),
            families.BINDINGS_IN_FLIGHT: iter([((), in_flight)]),
            families.BINDINGS_LIMIT: iter([((), most)]),
            families.CERTIFICATES: (((what,), ends) for what, ends in sorted(sources.expiries().items())),
            families.KUBE_REQUESTS: iter(sorted((NONE_FAILED | dict(sources.requests())).items())),
        }


def standby(openmetrics: bool = False) -> bytes:
    """The page of a scheduler that waits to lead and knows nothing."""
    return page(list(_beginning(0, openmetrics)), openmetrics)


def _beginning(leads: int, openmetrics: bool) -> Iterator[str]:
    yield from families.BUILD.head(openmetrics)
    yield families.BUILD.sample(_build(), 1)
    yield from families.LEADING.head(openmetrics)
    yield families.LEADING.sample((), leads)


@cache
def _build() -> tuple[str, str, str]:
    return version(), platform.python_version(), "numpy" if chosen().missing else "native"


async def _take(found: Iterable[str], lines: list[str]) -> None:
    """Append all of them, a slice at a time."""
    rest = iter(found)
    while piece := list(islice(rest, _LINES_A_SLICE)):
        lines += piece
        if len(piece) == _LINES_A_SLICE:
            await asyncio.sleep(0)


def _oldest(since: Iterable[int], sources: Sources) -> str:
    """Seconds since the earliest of these moments that are known."""
    first = min((moment for moment in since if moment), default=0)
    return f"{max(0, sources.clock() - first) / _SECOND:.3f}" if first else "0"


def _forecasts(state: ClusterState) -> dict[Family, Iterator[Sample]]:
    book = state.forecasts
    known = tuple(basis for basis in BASES if basis != UNKNOWN)
    errors = {basis: f"{seconds:.3f}" for basis, seconds in book.error_seconds.items()}
    return {
        families.FORECAST_WAITING: (((basis,), book.waiting[basis]) for basis in BASES),
        families.FORECAST_JOBS: (((basis,), book.started[basis]) for basis in BASES),
        families.FORECAST_BY_LATEST: (((basis,), book.by_latest[basis]) for basis in known),
        families.FORECAST_IN_INTERVAL: (((basis,), book.in_interval[basis]) for basis in known),
        families.FORECAST_ERROR: (((basis,), errors[basis]) for basis in known),
    }


def _quotas(state: ClusterState) -> Iterator[Sample]:
    for name, queue in sorted(state.queues.items()):
        yield from amounts(name, dict(queue.spec.quota))


def _held(state: ClusterState, held: _Held) -> Iterator[Sample]:
    for name in sorted(state.queues):
        yield from amounts(name, held(name))


def _shares(state: ClusterState, held: _Held) -> Iterator[Sample]:
    """Of queues with a quota; what is held of a quota of nothing counts as all of it."""
    for name, queue in sorted(state.queues.items()):
        if quota := queue.spec.quota:
            has = held(name)
            parts = (has.get(one, 0) / most if most else float(has.get(one, 0) > 0) for one, most in quota.items())
            yield (name,), f"{max(parts):.6f}"
