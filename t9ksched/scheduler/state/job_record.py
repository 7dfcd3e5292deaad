"""What the scheduler remembers of each object that a user knows as a job."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.state.asks import NOTHING_ASKED, Asks


class Had(NamedTuple):
    """Members of a job that has ended; `minimum`, `total` and their `classes`, with numbers, as its spec asked for."""

    minimum: int
    total: int
    succeeded: int
    failed: int
    classes: tuple[tuple[PodClass, int], ...]


class Restarts(NamedTuple):
    """How often members of a job were made anew: of all, against how many may be (None: any number), and by name."""

    used: int
    most: int | None = None
    times: Mapping[str, int] = {}


class IdleSince(NamedTuple):
    """Since when nobody used a workload and when that was found out, in nanoseconds; until when its users keep it, as
    they wrote it.
    """

    since: int
    checked: int
    keep: str = ""


class JobRecord(msgspec.Struct, eq=False):
    """The object a user knows: a job of a kind we control, a batch Job, a PodGroup by hand, a plain pod."""

    uid: str
    api_version: str
    kind: str
    namespace: str
    name: str
    created: int
    queue: str | None
    priority: int
    phase: str
    message: str = ""
    finished: int = 0
    asks: Asks = NOTHING_ASKED
    """What its annotations ask."""
    deadline: int | None = None
    """Its activeDeadlineSeconds, which its own controller enforces."""
    wants_pods: bool = True
    """Whether pods that it loses are made again: it is not paused, not over and not being deleted."""
    started: int = 0
    code: str = ""
    """Why it failed, in a word, as its controller says."""
    had: Had | None = None
    """Its members and cards, once it has ended and if its object records them."""
    taken: str = ""
    """The object of another owner that has the name of one that it needs, and the user to ask, as its controller
    reports."""
    refused: str = ""
    """Which object that it needs the API server refuses, and why, as its controller says."""
    lacking: str = ""
    """Which other project the cluster lacks that it needs, or why a service has no pods, as its controller says."""
    fault: str = ""
    """The faults of its spec, as its controller reports them: no pod is created before they are corrected."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Of its object; callers must not change them."""
    idle: IdleSince | None = None
    """Of a Notebook, TensorBoard or Explorer that nobody uses, as its controller says."""
    restarts: Restarts | None = None
    """Members that ended and were made anew, as its controller counts, if any."""
