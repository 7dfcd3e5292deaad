"""What REST counts and times of itself, for the metrics page of its process.

Requests are counted by the template of their path (`/apis/v1/queues/{name}`), never by the path, so that no client can
make series; those that no route takes are `UNKNOWN`.
"""

from collections.abc import Iterator
from typing import Final

from t9ksched.serving.exposition import Family
from t9ksched.serving.meters import Meter

UNKNOWN: Final = "(unknown)"
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})

REQUESTS: Final = Family(
    "t9ksched_api_requests_total",
    "counter",
    "Requests by method, template of the path and status; 0 where the connection ended before an answer began.",
    ("method", "route", "code"),
    most=4000,
)
DURATION: Final = Family(
    "t9ksched_api_request_duration_seconds",
    "histogram",
    "How long requests took until the whole answer was sent, by template of the path; streams are left out.",
    ("route",),
    _BUCKETS,
    most=300,
)
REFUSED: Final = Family(
    "t9ksched_api_requests_refused_total",
    "counter",
    "Requests refused because more came than can be answered in time: one caller's excess (`share`), that of all"
    " (`full`), or waited too long (`late`).",
    ("reason",),
)
STREAMS: Final = Family(
    "t9ksched_api_streams", "gauge", "Streams that are open: of events, of logs, and of commands in pods.", ("what",)
)
DATABASE: Final = Family(
    "t9ksched_api_database_duration_seconds",
    "histogram",
    "How long questions to the database and transactions took, waiting for a connection included.",
    ("kind", "outcome"),
    _BUCKETS,
)
FAMILIES: Final = (REQUESTS, DURATION, REFUSED, STREAMS, DATABASE)


class ApiMeters:
    """The meters of one process."""

    def __init__(self) -> None:
        self._requests = Meter(REQUESTS)
        self._duration = Meter(DURATION)
        self._database = Meter(DATABASE)

    def answered(self, method: str, route: str | None, status: int, seconds: float, *, stream: bool) -> None:
        """A request is over."""
        method, route = method if method in METHODS else "(other)", route or UNKNOWN
        self._requests.add(method, route, str(status))
        if not stream:
            self._duration.observe(seconds, route)

    def asked_database(self, kind: str, outcome: str, seconds: float) -> None:
        """The database was asked something, or told."""
        self._database.observe(seconds, kind, outcome)

    def lines(self, refused: dict[str, int], streams: dict[str, int], *, openmetrics: bool) -> Iterator[str]:
        """The lines of `FAMILIES`."""
        for meter in (self._requests, self._duration):
            yield from (*meter.family.head(openmetrics), *meter.lines())
        for family, found in ((REFUSED, refused), (STREAMS, streams)):
            yield from family.head(openmetrics)
            yield from (family.sample((name,), count) for name, count in found.items())
        yield from (*DATABASE.head(openmetrics), *self._database.lines())
