"""The JSON shapes of requests and answers, as `/docs` and clients generated from OpenAPI see them.

They describe, they do not convert: answers are written as they are, and bodies are read by the model's own parsers,
which tell every faulty field.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Quantities = dict[str, str]


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
    """Why a job waits, briefly."""

    code: str
    message: str


class Job(Shape):
    """A job of any kind, also a plain pod or a PodGroup made by hand."""

    apiVersion: str
    namespace: str
    kind: str
    name: str
    uid: str
    group: str | None
    queue: str | None
    priority: int
    submitter: str | None
    phase: str
    members: Members
    gpus: int
    submittedAt: str | None
    startedAt: str | None
    finishedAt: str | None
    position: int | None
    reason: ReasonShape | None
    expectedStart: dict[str, Any] | None


class Jobs(Shape):
    """Several jobs."""

    items: list[Job]


class ExplanationReason(Shape):
    """One thing that stands in the way, with its numbers."""

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


class QueueBody(BaseModel):
    """A queue as it is created or replaced."""

    name: str
    labels: dict[str, str] = {}
    spec: QueueSpecShape = QueueSpecShape()


class QueueChange(BaseModel):
    """A JSON merge patch of a queue: what is absent stays, null removes."""

    labels: dict[str, str | None] | None = None
    spec: dict[str, Any] | None = None


class MembersShape(Shape):
    """Who may use a queue."""

    everyone: bool
    users: list[str]
    groups: list[str]
    maxPriority: int | None


class Queue(Shape):
    """A queue. `status` is null while no scheduler answers."""

    name: str
    uid: str
    labels: dict[str, str]
    spec: QueueSpecShape
    status: dict[str, Any] | None
    members: MembersShape
    revision: int
    createdAt: str
    updatedAt: str


class Queues(Shape):
    """Several queues."""

    items: list[Queue]


class Node(Shape):
    """A node with its cards and whose they are."""

    name: str
    ready: bool
    schedulable: bool
    labels: dict[str, str]
    allocatable: Quantities
    allocated: Quantities
    cardMode: Literal["honours-index", "plugin-chooses"]
    gpus: list[dict[str, Any]]


class Nodes(Shape):
    """Several nodes."""

    items: list[Node]


class TokenBody(BaseModel):
    """A token to be made: its name, whom it speaks for (default: the name), what it may do."""

    name: str
    user: str | None = None
    role: Literal["admin", "user"] = "user"


class Token(Shape):
    """A token without its secret."""

    name: str
    user: str
    role: str
    createdAt: str
    lastUsedAt: str | None


class NewToken(Token):
    """A token with its secret, shown this once."""

    token: str


class Tokens(Shape):
    """Several tokens."""

    items: list[Token]


class Health(Shape):
    """A sign of life."""

    status: Literal["ok"]


class Readiness(Shape):
    """Each part the service needs, and that it works."""

    status: Literal["ready"]
    parts: dict[str, str]
