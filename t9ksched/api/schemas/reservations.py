"""Reservations by administrators."""

from typing import Any, Literal

from pydantic import Field

from t9ksched.api.schemas.base import Body, Continue, Shape, WarningShape


class ReservedNodesShape(Shape):
    """Nodes by `names`, or `count` of those that `selector` matches."""

    names: list[str] | None = None
    selector: dict[str, Any] | None = None
    count: int | None = None


class ReservedCardsShape(Shape):
    """So many cards of each node, with CPU and memory in proportion."""

    resource: str
    count: int


class ReservedForShape(Shape):
    """Whose jobs may use it."""

    queues: list[str] = []
    users: list[str] = []
    groups: list[str] = []


class ReservationBody(Body):
    """A reservation as it is created. Times are RFC 3339."""

    name: str
    from_: str = Field(alias="from")
    to: str
    nodes: ReservedNodesShape
    for_: ReservedForShape | Literal["maintenance"] = Field(alias="for")
    every: Literal["", "daily", "weekly"] = ""
    until: str | None = None
    timeZone: str = "UTC"
    cards: ReservedCardsShape | None = None
    onConflict: Literal["Refuse", "Wait", "Preempt"] = "Refuse"
    force: bool = False
    drainAhead: str = "24h"
    releaseUnusedAfter: str = "30m"
    note: str = ""


class ReservationChange(Body):
    """A JSON merge patch of a reservation: what is absent stays, null brings the default back."""

    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    nodes: ReservedNodesShape | None = None
    for_: ReservedForShape | Literal["maintenance"] | None = Field(default=None, alias="for")
    every: str | None = None
    until: str | None = None
    timeZone: str | None = None
    cards: ReservedCardsShape | None = None
    onConflict: str | None = None
    force: bool | None = None
    drainAhead: str | None = None
    releaseUnusedAfter: str | None = None
    note: str | None = None


class OccurrenceOutcome(Shape):
    """What became of an occurrence, which was `from` … `to`: `Over` if it ended in time, `Released` if no job used it,
    `Missed` if others held its room until its end. `at` is when it was released, else its end.
    """

    to: str
    outcome: Literal["Over", "Released", "Missed"]
    at: str


class ReservationStatus(Shape):
    """What is true of it now: `from` and `to` are those of the present occurrence, else of the next one, else of the
    last one; `nodes` those that are reserved. Of one that has no more occurrence, `phase` says what became of the last.
    `last` is the latest occurrence that is over, null if it is not known.
    """

    phase: Literal["Scheduled", "Active", "Released", "Missed", "Over"]
    nodes: list[str]
    last: OccurrenceOutcome | None = None


class ReservationShape(Shape):
    """A reservation, as it was written with every field, and its status. The answer to a change has `warnings`."""

    name: str
    uid: str
    status: ReservationStatus
    revision: int
    createdBy: str | None
    createdAt: str
    updatedAt: str
    warnings: list[WarningShape] = []


class Reservations(Shape):
    """Several reservations."""

    items: list[ReservationShape]
    continue_: Continue


class ReservationTrial(Shape):
    """What a reservation would do: its nodes, what is in its way, the jobs that run there beyond its beginning (with
    how many pods of each are evicted then), and the planned starts that would move.
    """

    reservation: dict[str, Any]
    nodes: list[str]
    conflicts: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    plans: list[dict[str, Any]]
    warnings: list[WarningShape] = []
