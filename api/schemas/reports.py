"""History, the record of administrative changes, and usage."""

from typing import Any

from api.schemas.base import Shape


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


class HistoryPage(Shape):
    """Events, oldest first."""

    items: list[HistoryEvent]


class AuditPage(Shape):
    """Administrative changes, newest first; `next` is the cursor of the page behind, null at the end."""

    items: list[HistoryEvent]
    next: int | None


class UsageRow(Shape):
    """GPU-hours of one combination of what was asked for in `by`.

    `heldHours` of the `gpuHours` passed while the cards were held before the job ran.
    """

    gpuHours: float
    heldHours: float
    jobs: int


class UsageReport(Shape):
    """GPU-hours between `since` and `until`, largest first, and their sum."""

    since: str | None
    until: str
    by: list[str]
    items: list[UsageRow]
    total: dict[str, float]
