"""Jobs, what became of submissions, explanations, and decisions about jobs."""

from typing import Any, Final, Literal, get_args

from pydantic import Field

from t9ksched.api.schemas.base import Body, Continue, ReasonShape, Shape, WarningShape

Phase = Literal["Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Unknown", "Terminating"]
PHASES: Final[tuple[str, ...]] = get_args(Phase)
"""In which a job can be."""


class Members(Shape):
    """Pods of a job. `min` run together or not at all."""

    min: int
    total: int
    bound: int
    running: int
    succeeded: int
    failed: int


class TimeLimitShape(Shape):
    """How long a job may run, in seconds from when its minimum ran (null: no limit), where that comes from, and whether
    it is ended then.

    `learned`: it has no limit and is not ended. Nine tenths of the jobs like it ran no longer, of those that ran longer
    than it has until now; its forecasts and those of jobs behind it count on that. Of jobs that wait or run.
    """

    seconds: int | None
    source: Literal["job", "queue", "reservation", "learned", "none"]
    enforced: bool


class PlannedStartShape(Shape):
    """When and where a waiting job is to start; `firm` if every end that this relies on is enforced.

    Else it is tentative: it relies on how long jobs without limits ran before, holds no room, and is `latest` of
    `expectedStart`. `nodes` is empty where it is too far ahead for that to be told.
    """

    at: str
    firm: bool
    nodes: list[str]


class ExpectedStartShape(Shape):
    """Between which moments a waiting job is expected to start, RFC 3339; the forecast is `latest`.

    `basis` says what that is taken from: `plan`, the planned start, or where there is none the moment at which the job
    gets its turn if all jobs before it run until their enforced ends; `learned`, how long jobs like them ran before,
    where no ends are enforced. It is `unknown` where nothing can be said, and both moments are null.
    """

    earliest: str | None
    latest: str | None
    basis: Literal["plan", "learned", "unknown"]


class Job(Shape):
    """A job of any kind, also a plain pod or a PodGroup made by hand.

    `root` is the object above it that a user made, `Kind/name`, where there is one: the Deployment of a ReplicaSet.
    What managers decide about the job is decided about that. `formerSubmitters` are other users whose pods are in
    the PodGroup: it was deleted, and perhaps made anew by another user. They see the job too.
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
    phase: Phase = Field(description="where it is in its life; `Terminating` once it was deleted, until its pods ended")
    members: Members
    gpus: int = Field(description="cards that it has at least a part of, or asks for")
    cards: float = Field(description="how much of physical cards that is; while it waits, the most that it may get")
    submittedAt: str | None
    startedAt: str | None = Field(
        description="when its present run began, else its last one; its time limit counts from this moment"
    )
    finishedAt: str | None
    position: int | None
    reason: ReasonShape | None
    plannedStart: PlannedStartShape | None = None
    expectedStart: ExpectedStartShape | None
    timeLimit: TimeLimitShape
    labels: dict[str, str] | None = Field(default=None, description="of its object, where it has any")
    formerSubmitters: list[str] | None = None
    root: str | None = None
    rootUid: str | None = None


class Jobs(Shape):
    """Several jobs, and what is stopped at present."""

    items: list[Job]
    continue_: Continue
    stopped: list[dict[str, Any]] = []


class Cancelled(Job):
    """A job that was cancelled; `warnings` name the pods that stay, each with why and whom to ask."""

    warnings: list[WarningShape] = []


class ChangedJob(Job):
    """A job that was told to pause, to run on, or to have another size; `warnings` say what stands in the way."""

    warnings: list[WarningShape] = []


class ScaleBody(Body):
    """How many replicas a job is to have."""

    replicas: int = Field(ge=0, le=100_000, description="pods that run the job's program")
    uid: str | None = Field(None, description="change it only if the job of that name is still this one; else 412")


class Submitted(Shape):
    """The jobs of a submission, in the order of its documents but PodGroups first, and what is odd about them."""

    items: list[Job]
    warnings: list[WarningShape]


class ExplanationReason(Shape):
    """One reason why the job waits, with its numbers, or why the job failed."""

    code: str
    message: str
    needs: Any = None
    has: Any = None
    nodes: Any = None


class LinkedCards(Shape):
    """Several cards of one pod, and how they are linked: by `NV12`, or from the worst link to the best of theirs."""

    pod: str
    node: str
    cards: list[int]
    linked: str


class Explanation(Shape):
    """Why a job is where it is, and what would change that.

    `holders` are jobs that have what it needs, or whose pods keep it off nodes with room by anti-affinity or host port;
    with `from` those that are to start there before it; those with `reservation` are reservations by administrators
    that it may not use, one for each time of it, with how many nodes and cards of those it might use they keep from
    when to when.

    `links` tells how the cards of its pods are linked, on nodes with the annotation `gpu-links`.
    """

    job: Any
    verdict: Literal["Waiting", "Placed", "Refused", "Finished"]
    reasons: list[ExplanationReason]
    holders: list[dict[str, Any]]
    unblocks: list[Any]
    position: int | None
    warnings: list[WarningShape] = []
    links: list[LinkedCards] = []
    stopped: list[dict[str, Any]] = []


class JobPodShape(Shape):
    """A pod of a job. `rank` is its place among those that run the same program; null for the launcher of the others,
    and for a pod whose place another one has taken.

    `reason` says what keeps it from running (such as `ImagePullBackOff`), or how it failed.
    """

    name: str
    uid: str
    rank: int | None = Field(description="its place among those that run the same program")
    part: str = Field(description="the replica type or role that it has in the job; empty if there are none")
    node: str | None = Field(description="where it is; null while it waits for a node")
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    restarts: int = Field(description="how often its containers were started anew")
    startedAt: str | None = Field(description="when its node took it on (RFC 3339, UTC), null before")
    containers: list[str] = Field(description="their names; the first one is meant where none is named")
    logged: bool = Field(description="whether one of its containers has run, so that there is a log")
    reason: ReasonShape | None


class JobPods(Shape):
    """The pods of a job: its launcher, then by rank, then those whose place others have taken."""

    items: list[JobPodShape]


class ExecBody(Body):
    """A command that is run in a pod of a job; `stdin` is given to it whole."""

    command: list[str] = Field(min_length=1, max_length=1000, description="its words, the program first")
    container: str = Field(default="", max_length=63, description="which one; absent: the pod's main container")
    stdin: str = Field(default="", description="what it reads")


class ExecPart(Shape):
    """A line of the answer to a command: what it wrote, in base64, or last how it ended."""

    stream: Literal["stdout", "stderr"] | None = Field(default=None, description="where it was written")
    data: str | None = Field(default=None, description="what was written, in base64")
    exitCode: int | None = Field(default=None, description="how the command ended; the last line has it")
    error: str | None = Field(default=None, description="why it was not run, or broke off, in place of that")


class PriorityBody(Body):
    """The new priority of a waiting job within its queue."""

    priority: int = Field(ge=0, le=100)
    uid: str | None = Field(None, description="change it only if the job of that name is still this one; else 412")


class UpdateBody(Body):
    """What of a job is to be changed: its time limit, such as `2h`; `0` for none."""

    timeLimit: str
    uid: str | None = Field(None, description="change it only if the job of that name is still this one; else 412")


class TrialResultBody(Body):
    """A result of a trial: an intermediate one with `step`, else the final one."""

    value: float = Field(description="a finite number", examples=[0.93])
    step: int | None = Field(None, ge=0, le=10**9, description="such as the epoch")


class TrialResults(Shape):
    """What a trial has sent so far: so many intermediate results, and the final one."""

    steps: int
    final: float | None


class ControlShape(Shape):
    """What was decided about a job. The answer to a new time limit has `warnings`, which name the reservations whose
    room the job will still hold.
    """

    uid: str
    held: bool
    priority: int | None
    timeLimitSeconds: int | None
    by: str
    at: str
    warnings: list[WarningShape] = []
