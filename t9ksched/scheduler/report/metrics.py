"""The metrics page: the families of `families`, filled from the state.

The page is written by hand, node by node with a pause between slices: a client library's label objects would cost ten
times as much, and a large cluster must not hold the event loop.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from t9ksched.model.forecast import BASES, UNKNOWN
from t9ksched.model.resources import PODS
from t9ksched.model.volumes import counts_volumes
from t9ksched.scheduler.report import families
from t9ksched.scheduler.report.families import Family
from t9ksched.scheduler.report.queuestatus import allocated
from t9ksched.scheduler.state.notified import OUTCOMES
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import STOPPABLE

_NODES_A_SLICE: Final = 200
_Sample = tuple[tuple[str, ...], int | str]


async def exposition(
    state: ClusterState,
    configuration_refused: bool,
    plugin_failures: Mapping[str, int] | None = None,
    plugin_slow: Mapping[str, int] | None = None,
    *,
    openmetrics: bool = False,
) -> bytes:
    """The whole page, in the text format of Prometheus or as OpenMetrics."""
    lines = [*families.LEADING.head(openmetrics), families.LEADING.sample((), 1)]
    lines += families.NODE_REQUESTS.head(openmetrics)
    for count, name in enumerate(sorted(state.node_objects), start=1):
        lines.extend(families.NODE_REQUESTS.sample(*sample) for sample in _node_requests(state, name))
        if count % _NODES_A_SLICE == 0:
            await asyncio.sleep(0)
    stopped = {stop.what for stop in state.stops}
    active, scheduled = state.advance.phases()
    samples: dict[Family, Iterator[_Sample]] = {
        families.QUEUE_QUOTA: _quotas(state),
        families.QUEUE_ALLOCATED: _held(state),
        families.GANGS_WAITING: iter([((), len(state.pending))]),
        families.PLANNED_STARTS: iter([((), len(state.reservations.told))]),
        families.PLANS_MOVED: (((direction,), count) for direction, count in state.reservations.moved.items()),
        families.RESERVATIONS: iter([(("Active",), active), (("Scheduled",), scheduled)]),
        families.RESERVATIONS_ENDED: (((why,), count) for why, count in state.advance.counts.items()),
        **_forecasts(state),
        families.STOPPED: (((what,), int(what in stopped)) for what in STOPPABLE),
        families.DATABASE_AWAY: iter([((), int(state.outage.away))]),
        families.CARD_DRIFT: iter([((), len(state.cards.drifting))]),
        families.CARDS_MISHELD: iter([((), len(state.card_audit))]),
        families.CLOCK_JUMPS: iter([((), state.clock_jumps)]),
        families.CONFIGURATION_REFUSED: iter([((), int(configuration_refused))]),
        families.PLUGIN_FAILURES: (((name,), count) for name, count in sorted((plugin_failures or {}).items())),
        families.PLUGIN_SLOW: (((name,), count) for name, count in sorted((plugin_slow or {}).items())),
        families.NOTIFICATIONS: (((outcome,), state.notified.told[outcome]) for outcome in OUTCOMES),
        families.NOTIFICATIONS_WAITING: iter([((), state.notified.waiting)]),
    }
    for family, found in samples.items():
        lines += family.head(openmetrics)
        lines.extend(family.sample(*sample) for sample in found)
    return _page(lines, openmetrics)


def standby(openmetrics: bool = False) -> bytes:
    """The page of a scheduler that waits to lead and knows nothing."""
    return _page([*families.LEADING.head(openmetrics), families.LEADING.sample((), 0)], openmetrics)


def _page(lines: list[str], openmetrics: bool) -> bytes:
    return "\n".join([*lines, "# EOF", ""] if openmetrics else [*lines, ""]).encode()


def _node_requests(state: ClusterState, node: str) -> Iterator[_Sample]:
    used: defaultdict[str, int] = defaultdict(int)
    for charge in state.charges.on_node(node):
        for resource, amount in charge.pod_class.requests:
            used[resource] += amount
    return _amounts(node, {name: amount for name, amount in used.items() if name != PODS and not counts_volumes(name)})


def _forecasts(state: ClusterState) -> dict[Family, Iterator[_Sample]]:
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


def _quotas(state: ClusterState) -> Iterator[_Sample]:
    for name, queue in sorted(state.queues.items()):
        yield from _amounts(name, queue.spec.quota)


def _held(state: ClusterState) -> Iterator[_Sample]:
    for name in sorted(state.queues):
        yield from _amounts(name, allocated(state, name))


def _amounts(of: str, amounts: Mapping[str, int]) -> Iterator[_Sample]:
    for resource, amount in sorted(amounts.items()):
        yield (of, resource, families.unit_of(resource)), families.in_base_units(resource, amount)
