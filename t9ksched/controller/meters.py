"""What the controllers count and time of themselves, for the metrics page of their process."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from t9ksched.kube.port import NONE_FAILED
from t9ksched.serving.exposition import Family, page
from t9ksched.serving.meters import Meter

DONE, STALE, NAME_TAKEN, NOT_MADE, REFUSED, FAILED = "done", "stale", "name_taken", "not_made", "refused", "failed"
OUTCOMES: Final = (DONE, STALE, NAME_TAKEN, NOT_MADE, REFUSED, FAILED)
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

LEADING: Final = Family(
    "t9ksched_controller_leading", "gauge", "1 where the controllers work, 0 where they wait for the lease."
)
RECONCILES: Final = Family(
    "t9ksched_controller_reconciles_total",
    "counter",
    "Looks at a workload, by its kind and by how they ended: `done`, `stale` (it had changed), `name_taken` and"
    " `not_made` (an object that it needs), `refused` (by the API server), `failed` (by a fault of ours).",
    ("kind", "outcome"),
)
DURATION: Final = Family(
    "t9ksched_controller_reconcile_duration_seconds",
    "histogram",
    "How long a look at a workload took, with what it wrote.",
    ("kind",),
    _BUCKETS,
    most=100,
)
QUEUE_DEPTH: Final = Family("t9ksched_controller_queue_depth", "gauge", "Workloads that wait for a look.")
RETRYING: Final = Family(
    "t9ksched_controller_retrying_workloads", "gauge", "Workloads whose last look did not end well; each is repeated."
)
WORKLOADS: Final = Family("t9ksched_controller_workloads", "gauge", "Workloads that are there, by kind.", ("kind",))
KUBE_REQUESTS: Final = Family(
    "t9ksched_controller_kube_requests_total",
    "counter",
    "Requests of the process to the API server by method and status; 429 where it throttles, `unanswered` without an"
    " answer.",
    ("method", "code"),
)
FAMILIES: Final = (LEADING, RECONCILES, DURATION, QUEUE_DEPTH, RETRYING, WORKLOADS, KUBE_REQUESTS)


class ControllerMeters:
    """The meters of one process."""

    def __init__(self, kinds: Iterable[str]) -> None:
        kinds = tuple(kinds)
        self._reconciles = Meter(RECONCILES).expect((kind, outcome) for kind in kinds for outcome in OUTCOMES)
        self._duration = Meter(DURATION).expect((kind,) for kind in kinds)

    def looked(self, kind: str, outcome: str, seconds: float) -> None:
        """A look at a workload is over."""
        self._reconciles.add(kind, outcome)
        self._duration.observe(seconds, kind)

    def page(
        self,
        waiting: int,
        retrying: int,
        workloads: Mapping[str, int],
        requests: Mapping[tuple[str, str], int],
        *,
        openmetrics: bool,
    ) -> bytes:
        """The page of controllers that work; `requests` are those to the API server, by method and status."""

        def lines() -> Iterator[str]:
            for family, amount in ((LEADING, 1), (QUEUE_DEPTH, waiting), (RETRYING, retrying)):
                yield from (*family.head(openmetrics), family.sample((), amount))
            for meter in (self._reconciles, self._duration):
                yield from (*meter.family.head(openmetrics), *meter.lines())
            yield from WORKLOADS.head(openmetrics)
            yield from (WORKLOADS.sample((kind,), count) for kind, count in workloads.items())
            yield from KUBE_REQUESTS.head(openmetrics)
            yield from (
                KUBE_REQUESTS.sample(key, count) for key, count in sorted((NONE_FAILED | dict(requests)).items())
            )

        return page(lines(), openmetrics)


def standby(openmetrics: bool = False) -> bytes:
    """The page of controllers that wait to lead."""
    return page([*LEADING.head(openmetrics), LEADING.sample((), 0)], openmetrics)
