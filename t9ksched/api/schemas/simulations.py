"""What would happen: questions and answers."""

from typing import Any, Literal

from t9ksched.api.schemas.base import Body, FieldFault, Shape, WarningShape
from t9ksched.api.schemas.jobs import ExplanationReason


class QueueWish(Body):
    """A queue as it would be: `spec` is merged into what it has (JSON merge patch); of a name that there is not, a new
    queue, for which a job that waits or is submitted must ask.
    """

    name: str
    spec: dict[str, Any] | None = None


class NodeWish(Body):
    """A node that would come, or `count` of them: `name-0`, `name-1` …; `like` one that there is, or with
    `allocatable`.
    """

    name: str
    count: int | None = None
    like: str | None = None
    labels: dict[str, str] | None = None
    taints: list[dict[str, str]] | None = None
    allocatable: dict[str, Any] | None = None
    cardMode: Literal["honours-index", "plugin-chooses"] | None = None


class ChangeWish(Body):
    """What would be different. Queues that you manage; all else is for administrators. `policy` is a `scheduler.conf`,
    as text or as a mapping.
    """

    queues: list[QueueWish] | None = None
    nodesGone: list[str] | None = None
    nodesAdded: list[NodeWish] | None = None
    policy: str | dict[str, Any] | None = None


class SimulationBody(Body):
    """What would be submitted, what would be different, and how far to look (`7d` unless said otherwise)."""

    submit: list[dict[str, Any]] | None = None
    change: ChangeWish | None = None
    horizon: str | None = None


class VictimShape(Shape):
    """Members of a job that would be evicted. `job` is `namespace/Kind/name`, null if you may not see it."""

    job: str | None
    queue: str | None
    members: int


class SimulatedJob(Shape):
    """What would become of a job that is submitted: it starts at once (perhaps when others have been evicted), it waits
    (`start` is null where no start is found), or it is refused, with the faulty fields in `errors`.
    """

    namespace: str
    kind: str
    name: str
    verdict: Literal["Starts", "Waits", "Refused"]
    start: str | None
    nodes: list[str]
    reasons: list[ExplanationReason]
    preempts: list[VictimShape]
    errors: list[FieldFault] = []


class EffectShape(Shape):
    """A job that is there and would start at another time, or lose its places. Of one that runs, `startBefore` is when
    it started; `startAfter` is null where it would not start, as far as is looked.
    """

    job: str | None
    queue: str | None
    startBefore: str | None
    startAfter: str | None
    preempted: bool


class Simulation(Shape):
    """What would happen, as of `at`, looked at up to `until`; `complete` says whether that is the horizon. `view` is a
    hash of all that was looked at; `warnings` are about names that nothing has, as at submission.
    """

    jobs: list[SimulatedJob]
    others: list[EffectShape]
    warnings: list[WarningShape] = []
    at: str
    view: str
    until: str
    complete: bool
