"""The JSON shapes of requests and answers, as `/docs` and clients generated from OpenAPI see them.

They describe, they do not convert: answers are written as they are, and bodies are read by the model's own parsers,
which tell every faulty field.
"""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

Quantities = dict[str, str]
PHASES: Final = ("Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Unknown", "Terminating")
"""In which a job can be."""


class Shape(BaseModel):
    """A JSON object that may grow fields later."""

    model_config = ConfigDict(extra="allow")


class FieldFault(Shape):
    """One faulty field."""

    path: str
    message: str


class ProblemShape(Shape):
    """Any answer but success (RFC 9457); `code` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldFault] = []
    remedy: str = ""


class Members(Shape):
    """Pods of a job. `min` run together or not at all."""

    min: int
    total: int
    bound: int
    running: int
    succeeded: int
    failed: int


class ReasonShape(Shape):
    """Why a job waits, or why it failed, briefly."""

    code: str
    message: str


class TimeLimitShape(Shape):
    """How long a job may run, in seconds from when its minimum ran (null: no limit), where that comes from, and whether
    it is ended then.
    """

    seconds: int | None
    source: Literal["job", "queue", "none"]
    enforced: bool


class Job(Shape):
    """A job of any kind, also a plain pod or a PodGroup made by hand.

    `root` is the object above it that a user made, `Kind/name`, where there is one: the Deployment of a ReplicaSet.
    What managers decide about the job is decided about that.
    """

    apiVersion: str
    namespace: str
    kind: str
    name: str
    uid: str
    group: str | None
    queue: str | None
    priority: int
    submitter: str | None
    phase: str = Field(description=f"{', '.join(PHASES)}; the last once it was deleted")
    members: Members
    gpus: int
    submittedAt: str | None
    startedAt: str | None
    finishedAt: str | None
    position: int | None
    reason: ReasonShape | None
    expectedStart: dict[str, Any] | None
    timeLimit: TimeLimitShape
    root: str | None = None
    rootUid: str | None = None


class Jobs(Shape):
    """Several jobs, and what is stopped at present."""

    items: list[Job]
    stopped: list[dict[str, Any]] = []


class WarningShape(Shape):
    """Something accepted that is probably a mistake; `nearest` is the known name that is most alike, if one is."""

    path: str
    message: str
    nearest: str | None = None


class Cancelled(Job):
    """A job that was cancelled; `warnings` name the pods that stay, each with why and whom to ask."""

    warnings: list[WarningShape] = []


class Submitted(Shape):
    """The jobs of a submission, in the order of its documents but PodGroups first, and what is odd about them."""

    items: list[Job]
    warnings: list[WarningShape]


class ExplanationReason(Shape):
    """One thing that stands in the way, with its numbers, or why the job failed."""

    code: str
    message: str
    needs: Any = None
    has: Any = None
    nodes: Any = None


class Explanation(Shape):
    """Why a job is where it is, and what would change that."""

    job: Any
    verdict: Literal["Waiting", "Placed", "Refused", "Finished"]
    reasons: list[ExplanationReason]
    holders: list[dict[str, Any]]
    unblocks: list[Any]
    position: int | None
    warnings: list[WarningShape] = []
    stopped: list[dict[str, Any]] = []


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
    ordering: Literal["BestEffort", "Strict", "Backfill"] = "BestEffort"


class MembersBody(BaseModel):
    """Who may use a queue. `maxPriorities` sets another maximum for `everyone`, `user:NAME` or `group:NAME`."""

    everyone: bool = False
    users: list[str] = []
    groups: list[str] = []
    maxPriority: int | None = Field(default=None, ge=0, le=100)
    maxPriorities: dict[str, int] = {}


class QueueBody(BaseModel):
    """A queue as it is created or replaced."""

    name: str
    labels: dict[str, str] = {}
    spec: QueueSpecShape = QueueSpecShape()
    members: MembersBody | None = None


class QueueChange(BaseModel):
    """A JSON merge patch of a queue: what is absent stays, null removes."""

    labels: dict[str, str | None] | None = None
    spec: dict[str, Any] | None = None
    members: MembersBody | None = None


class MembersShape(Shape):
    """Who may use a queue. To whoever does not manage it, only he himself is named."""

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


class StopBody(BaseModel):
    """How long, such as `1h` or `never` (absent: 24 hours), and why."""

    duration: str | None = None
    why: str = ""


class StopsShape(Shape):
    """The stops in force."""

    items: list[StopShape]


class Queues(Shape):
    """Several queues, and what is stopped at present."""

    items: list[Queue]
    stopped: list[StopShape] = []


class AccessQuestion(BaseModel):
    """May `user` (you, if absent) use `queue` for a workload in `namespace`, with that priority?

    `groups` are his; absent, those that his tokens name.
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


class PriorityBody(BaseModel):
    """The new priority of a waiting job within its queue."""

    priority: int = Field(ge=0, le=100)


class UpdateBody(BaseModel):
    """What of a job is to be changed: its time limit, such as `2h`; `0` for none."""

    timeLimit: str


class ControlShape(Shape):
    """What was decided about a job."""

    uid: str
    held: bool
    priority: int | None
    timeLimitSeconds: int | None
    by: str
    at: str


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


class CountedCards(Shape):
    """Cards, or parts of cards, of a node that are counted by number: they have no indices."""

    resource: str
    model: str | None
    has: int
    held: int
    cordoned: int


class Node(Shape):
    """A node with its cards and whose they are.

    `mode` is how it hands out its accelerators, null without any. `gpus` are whole cards by index; what is shared,
    sliced, or more than 64 of one resource is counted by number and stands in `counted`.

    `cardDrift` counts its pods whose annotations name other cards than the scheduler's record, `cardsUnknown` those of
    them of which no card is on record: until they are gone, a node that honours indices gives no more cards.
    """

    name: str
    ready: bool
    schedulable: bool
    labels: dict[str, str]
    allocatable: Quantities
    allocated: Quantities
    cardMode: Literal["honours-index", "plugin-chooses"]
    mode: (
        Literal[
            "Whole",
            "TimeSliced",
            "MPS",
            "MIGSingle",
            "MIGMixed",
            "HAMi",
            "MGPU",
            "GPUShare",
            "Koordinator",
            "NotReady",
        ]
        | None
    )
    cardDrift: int
    cardsUnknown: int
    gpus: list[dict[str, Any]]
    counted: list[CountedCards]


class Nodes(Shape):
    """Several nodes."""

    items: list[Node]


class TokenBody(BaseModel):
    """A token to be made: its name, whom it speaks for (default: the name) with which groups, what it may do.

    `queues` are those a manager rules; for users and viewers the only ones it is good for. `duration`, such as `30d`,
    is how long it lasts, `never` until it is revoked; absent: 90 days.
    """

    name: str
    user: str | None = None
    role: Literal["admin", "manager", "user", "viewer"] = "user"
    groups: list[str] = []
    queues: list[str] = []
    duration: str | None = None


class Token(Shape):
    """A token without its secret. `queues` are those a manager rules, or the only ones it is good for."""

    name: str
    user: str
    role: str
    groups: list[str]
    queues: list[str]
    createdAt: str
    expiresAt: str | None
    lastUsedAt: str | None


class NewToken(Token):
    """A token with its secret, shown this once."""

    token: str


class Tokens(Shape):
    """Several tokens."""

    items: list[Token]


class WhoAmI(Shape):
    """Whom a token speaks for, and what it is good for.

    `queues` are those a manager rules; of users and viewers the only ones the token is good for, all if empty.
    `expiresAt` is null for a token that lasts until it is revoked.
    """

    user: str
    role: Literal["admin", "manager", "user", "viewer"]
    groups: list[str]
    queues: list[str]
    token: str
    expiresAt: str | None


class Release(Shape):
    """The release that answers."""

    version: str


class Health(Shape):
    """A sign of life."""

    status: Literal["ok"]


class Readiness(Shape):
    """Each part the service needs, and that it works; `warnings` names what the scheduler may not watch."""

    status: Literal["ready"]
    parts: dict[str, str]
    warnings: list[WarningShape]
