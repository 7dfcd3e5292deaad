"""Queues with their members, stops, and questions about access."""

from typing import Any, Literal

from pydantic import Field

from t9ksched.api.schemas.base import Body, Continue, Quantities, Shape, WarningShape


class StartWindowShape(Shape):
    """When a queue starts jobs: from a time of these days (absent: of every day) to another, by the wall clock.

    `to` is on the next day if it is not later than `from`; both are `HH:MM`, up to `24:00`.
    """

    days: list[Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]] | None = None
    begin: str = Field(alias="from")
    to: str
    timeZone: str = "UTC"


class StarvationShape(Shape):
    """When gangs of a queue collect room; what is absent is as `scheduler.conf` says. `after: "0"` is never."""

    after: str | None = None
    maxHeldShare: str | None = None


class QueueSpecShape(Shape):
    """A queue's policy; absent fields have their defaults."""

    quota: dict[Literal["requests"], Quantities] | None = None
    priority: int = Field(default=0, ge=0, le=100)
    preemptible: bool = True
    closed: bool = False
    maxDuration: str = ""
    maxDurationFrom: Literal["Start", "Creation"] = "Start"
    resourceShapeProfile: str = ""
    nodeSelector: dict[str, Any] | None = None
    namespaceSelector: dict[str, Any] | None = None
    overQuota: Literal["Wait", "Reject"] = "Wait"
    ordering: Literal["BestEffort", "Strict", "Backfill"] = Field(
        default="Backfill", description="Of a new queue; a change that leaves it out keeps what the queue has."
    )
    startWindows: list[StartWindowShape] | None = None
    starvation: StarvationShape | None = None


class MembersBody(Body):
    """Who may use a queue. `maxPriorities` sets another maximum for `everyone`, `user:NAME` or `group:NAME`."""

    everyone: bool = False
    users: list[str] = []
    groups: list[str] = []
    maxPriority: int | None = Field(default=None, ge=0, le=100)
    maxPriorities: dict[str, int] = {}


class QueueBody(Body):
    """A queue as it is created or replaced."""

    name: str
    labels: dict[str, str] = {}
    spec: QueueSpecShape = QueueSpecShape()
    members: MembersBody | None = None


class QueueChange(Body):
    """A JSON merge patch of a queue: what is absent stays, null removes."""

    labels: dict[str, str | None] | None = None
    spec: dict[str, Any] | None = None
    members: MembersBody | None = None


class MembersShape(Shape):
    """Who may use a queue. Users who do not manage it see only themselves named."""

    everyone: bool
    users: list[str]
    groups: list[str]
    maxPriority: int | None


class Queue(Shape):
    """A queue. `status` is null while no scheduler answers; `free` and `excess` in it are measured by the quota.

    In lists of what you may use, `access` says by which rule, and up to which priority. The answer to a creation or
    change has `warnings`.
    """

    name: str
    uid: str
    labels: dict[str, str]
    spec: QueueSpecShape
    status: dict[str, Any] | None
    members: MembersShape
    draining: bool
    revision: int
    createdAt: str
    updatedAt: str
    warnings: list[WarningShape] = []


class StopShape(Shape):
    """Something that the scheduler does not do for now."""

    what: Literal["scheduling", "preemption"]
    until: str | None
    by: str
    at: str
    why: str


class StopBody(Body):
    """How long, such as `1h` or `never` (absent: 24 hours), and why."""

    duration: str | None = None
    why: str = ""


class StopsShape(Shape):
    """The stops in force."""

    items: list[StopShape]


class QueueDeleted(Shape):
    """A queue was deleted; `warnings` say which reservations are for it."""

    warnings: list[WarningShape]


class Queues(Shape):
    """Several queues, and what is stopped at present."""

    items: list[Queue]
    continue_: Continue
    stopped: list[StopShape] = []


class AccessQuestion(Body):
    """May `user` (you, if absent) use `queue` for a workload in `namespace`, with that priority?

    `groups` are the user's; absent, those that the user's tokens name.
    """

    queue: str
    namespace: str | None = None
    user: str | None = None
    groups: list[str] | None = None
    priority: int | None = Field(default=None, ge=0, le=100)


class AccessAnswer(Shape):
    """Whether, and by which rule; a refusal has its code and what to do."""

    allowed: bool
    queue: str
    namespace: str | None
    user: str
    rule: str | None
    maxPriority: int | None
    code: str | None
    message: str | None
    remedy: str | None
