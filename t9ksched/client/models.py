"""What the service answers, as values with the names that Python programs expect.

Fields are those of `docs/reference/rest.md`, written `submitted_at` for `submittedAt`; times are aware datetimes. What
a newer service adds is left out, and what an older one does not tell has its default. A notebook shows values and lists
of them as tables.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import field

from t9ksched.client import html
from t9ksched.model.job import FINISHED


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that the service answered."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def _repr_html_(self) -> str:
        return html.of_one(self)


class Members(Value, frozen=True, kw_only=True):
    """Pods of a job. `min` run together or not at all."""

    min: int = 0
    total: int = 0
    bound: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class Reason(Value, frozen=True, kw_only=True):
    """Why a job waits, or why it failed; in explanations with its numbers."""

    code: str
    message: str
    needs: Any = None
    has: Any = None
    nodes: Any = None


class Warning(Value, frozen=True, kw_only=True):
    """Something accepted that is probably a mistake; `nearest` is the known name that is most alike, if one is."""

    path: str
    message: str
    nearest: str | None = None


class TimeLimit(Value, frozen=True, kw_only=True):
    """How long a job may run (None: no limit), where that comes from, and whether it is ended then."""

    seconds: int | None = None
    source: str = "none"
    enforced: bool = False


class PlannedStart(Value, frozen=True, kw_only=True):
    """When and where a waiting job is to start."""

    at: datetime
    firm: bool = False
    nodes: list[str] = []


class ExpectedStart(Value, frozen=True, kw_only=True):
    """Between which moments a waiting job is expected to start; both are None where nothing can be said."""

    earliest: datetime | None = None
    latest: datetime | None = None
    basis: str = "unknown"


class Job(Value, frozen=True, kw_only=True):
    """A job of any kind, also a plain pod or a PodGroup made by hand."""

    namespace: str
    kind: str
    name: str
    uid: str
    api_version: str = ""
    group: str | None = None
    queue: str | None = None
    priority: int = 0
    submitter: str | None = None
    phase: str = "Pending"
    members: Members = Members()
    gpus: int = 0
    cards: float = 0.0
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deleted_at: datetime | None = None
    position: int | None = None
    reason: Reason | None = None
    planned_start: PlannedStart | None = None
    expected_start: ExpectedStart | None = None
    time_limit: TimeLimit = TimeLimit()
    labels: dict[str, str] | None = None
    former_submitters: list[str] | None = None
    root: str | None = None
    root_uid: str | None = None
    held: bool = False
    warnings: list[Warning] = []

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.phase in FINISHED

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well."""
        return self.phase == "Succeeded"


class Pod(Value, frozen=True, kw_only=True):
    """A pod of a job. `rank` is its place among those that run the same program; None for the launcher of the others,
    and for a pod whose place another one has taken. `reason` says what keeps it from running, or how it failed.
    """

    name: str
    uid: str
    rank: int | None = None
    part: str = ""
    node: str | None = None
    phase: str = "Pending"
    restarts: int = 0
    started_at: datetime | None = None
    containers: list[str] = []
    logged: bool = False
    reason: Reason | None = None

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.phase in FINISHED


class LogLine(Value, frozen=True, kw_only=True):
    """A line that a pod has written; `time` is None where the cluster did not tell it."""

    pod: str
    rank: int | None = None
    time: datetime | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.text


class Explanation(Value, frozen=True, kw_only=True):
    """Why a job is where it is, who holds what it needs, and what would let it start."""

    job: Any
    verdict: str
    reasons: list[Reason] = []
    holders: list[dict[str, Any]] = []
    unblocks: list[Any] = []
    position: int | None = None
    warnings: list[Warning] = []
    links: list[dict[str, Any]] = []
    stopped: list[dict[str, Any]] = []


class Submitted(Value, frozen=True, kw_only=True):
    """The jobs of a submission, and what is odd about them."""

    items: list[Job]
    warnings: list[Warning] = []


class QueueMembers(Value, frozen=True, kw_only=True):
    """Who may use a queue. Users who do not manage it see only themselves named."""

    everyone: bool = False
    users: list[str] = []
    groups: list[str] = []
    max_priority: int | None = None


class Queue(Value, frozen=True, kw_only=True):
    """A queue; `spec` and `status` are as the service writes them."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    spec: dict[str, Any] = {}
    status: dict[str, Any] | None = None
    members: QueueMembers = QueueMembers()
    draining: bool = False
    revision: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    access: dict[str, Any] | None = None
    warnings: list[Warning] = []


class Node(Value, frozen=True, kw_only=True):
    """A node with its cards (`gpus` by index, `counted` by number) and the jobs that hold them."""

    name: str
    ready: bool = True
    schedulable: bool = True
    labels: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    allocated: dict[str, str] = {}
    card_mode: str = "plugin-chooses"
    mode: str | None = None
    not_ready: str | None = None
    links_ignored: str | None = None
    cards_ignored: str | None = None
    card_drift: int = 0
    cards_unknown: int = 0
    cards_misheld: list[dict[str, Any]] = []
    gpus: list[dict[str, Any]] = []
    counted: list[dict[str, Any]] = []
    planned: list[dict[str, Any]] = []


class FieldFault(Value, frozen=True, kw_only=True):
    """One faulty field."""

    path: str
    message: str


class SimulatedJob(Value, frozen=True, kw_only=True):
    """What would become of a job: it `Starts` at once, `Waits` (`start` is None if none is found) or is `Refused`."""

    namespace: str
    kind: str
    name: str
    verdict: str
    start: datetime | None = None
    nodes: list[str] = []
    reasons: list[Reason] = []
    preempts: list[dict[str, Any]] = []
    errors: list[FieldFault] = []


class Effect(Value, frozen=True, kw_only=True):
    """A job that is there and would start at another time, or lose its places. `job` is None if you may not see it."""

    job: str | None = None
    queue: str | None = None
    start_before: datetime | None = None
    start_after: datetime | None = None
    preempted: bool = False


class Simulation(Value, frozen=True, kw_only=True):
    """What would happen, as of `at`, looked at up to `until`; `complete` says whether that is the horizon."""

    jobs: list[SimulatedJob]
    others: list[Effect] = []
    warnings: list[Warning] = []
    at: datetime
    view: str = ""
    until: datetime
    complete: bool = True


class Event(Value, frozen=True, kw_only=True):
    """Something that happened to a job, a queue, a node or the service. `id` is what `after` takes."""

    id: int
    type: str
    about: str
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    queue: str | None = None
    actor: str | None = None
    at: datetime
    detail: dict[str, Any] = {}


class Notification(Value, frozen=True, kw_only=True):
    """An address that is told what happens to jobs of a user or a queue. `failures` are those in a row; nothing is sent
    once it is disabled, until a test succeeds. `last_error` is None if the last attempt succeeded.
    """

    id: str
    user: str
    queue: str | None = None
    within: list[str] = []
    kind: str = "webhook"
    address: str = ""
    events: list[str] = []
    created_at: datetime | None = None
    failures: int = 0
    disabled_at: datetime | None = None
    last_attempt_at: datetime | None = None
    last_error: str | None = None


class NewNotification(Notification, frozen=True, kw_only=True):
    """One that was added. `key` is what its webhooks are signed with, told this once."""

    key: str | None = None


class WhoAmI(Value, frozen=True, kw_only=True):
    """A token's user, and what the token is valid for."""

    user: str
    role: str
    groups: list[str] = []
    queues: list[str] = []
    token: str = ""
    expires_at: datetime | None = None
    exec: bool = False


T = TypeVar("T")


class Page(Value, Generic[T], frozen=True, kw_only=True):
    """A page of a list; `next` is the `continue` of the one behind it."""

    items: list[T]
    next: str | None = field(default=None, name="continue")
    stopped: list[dict[str, Any]] = []


class Listed(list[T]):
    """A list of values, and in `stopped` what the scheduler does not do for now. A notebook shows it as a table."""

    def __init__(self, items: Iterable[T] = (), stopped: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(items)
        self.stopped = list(stopped)

    def _repr_html_(self) -> str:
        return html.of_many(self)
