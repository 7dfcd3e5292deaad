"""History, the record of administrative changes, and usage."""

from typing import Any, Literal

from t9ksched.api.schemas.base import Continue, Shape


class HistoryEvent(Shape):
    """One thing that happened; `id` is the cursor for the next page."""

    id: int
    at: str
    event: str
    kind: str | None
    namespace: str | None
    name: str | None
    uid: str | None
    queue: str | None
    actor: str | None
    detail: dict[str, Any]


class StreamedEvent(Shape):
    """What happened, as `data` of one server-sent event; its `id` is what `after` takes. Of what is not the caller's
    own, `actor` is null and `detail` says little.
    """

    id: int
    type: str
    about: Literal["job", "queue", "node", "reservation", "token", "service"]
    kind: str | None
    namespace: str | None
    name: str | None
    uid: str | None
    queue: str | None
    actor: str | None
    at: str
    detail: dict[str, Any]


class HistoryPage(Shape):
    """Events, oldest first."""

    items: list[HistoryEvent]
    continue_: Continue


class AuditPage(Shape):
    """Administrative changes, newest first; `next` is the cursor of the page behind, null at the end."""

    items: list[HistoryEvent]
    next: int | None
    continue_: Continue


class ForecastFigures(Shape):
    """How the forecasts of jobs that started turned out. The forecast is `latest`; errors are distances of the start
    from it, widths those between `earliest` and `latest`. Figures are null where there are no such jobs.
    """

    jobs: int
    startedByLatest: int
    startedInInterval: int
    medianWidthSeconds: float | None
    medianErrorSeconds: float | None
    p90ErrorSeconds: float | None


class ForecastAccuracy(ForecastFigures):
    """The same of all such jobs. `unknown` of the `jobs` had a forecast without a moment: no other figure counts
    them. `byBasis` has the figures of those with basis `plan` or `learned`.
    """

    unknown: int
    byBasis: dict[str, ForecastFigures]


class SnapshotShape(Shape):
    """The live cluster at one moment. `snapshot` is the version of its form, `expected` has the seconds that jobs which
    wait are expected to run, by UID; what is in `present` is for `t9ksched simulate replay` alone.
    """

    snapshot: int
    expected: dict[str, float]
    present: dict[str, Any]


class UsageRow(Shape):
    """GPU-hours of one combination of what was asked for in `by`.

    `heldHours` of the `gpuHours` passed while the cards were held before the job ran, `idleHours` of them unused before
    a workload was suspended for that; `freeHours` followed until it had cards again.
    """

    gpuHours: float
    heldHours: float
    jobs: int
    idleHours: float
    freeHours: float


class UsageReport(Shape):
    """GPU-hours between `since` and `until`, largest first, and their sum."""

    since: str | None
    until: str
    by: list[str]
    items: list[UsageRow]
    total: dict[str, float]
