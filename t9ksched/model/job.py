"""A job as REST, the CLI, events and SQL show it: one value, from which its JSON is made in one place."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from t9ksched.model.forecast import Basis
from t9ksched.model.timelimit import TimeLimit

FINISHED: Final = ("Succeeded", "Failed")
"""Phases of a job that has ended."""
TERMINATING: Final = "Terminating"
"""The phase of a job whose object is being deleted or gone, until its last pod has ended."""


class JobMembers(msgspec.Struct, frozen=True):
    """Members of a job: how many must run together, how many there are, and how many are where.

    `bound` counts those that have a node and have not ended.
    """

    min: int
    total: int
    bound: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class JobReason(msgspec.Struct, frozen=True):
    """Why a job waits, or why it failed: a stable code and a sentence."""

    code: str
    message: str


class PlannedStart(msgspec.Struct, frozen=True):
    """When and where a waiting job is to start; firm if all that it relies on is enforced."""

    at: str
    firm: bool
    nodes: tuple[str, ...]


class ExpectedStart(msgspec.Struct, frozen=True):
    """Between which moments a waiting job is expected to start, and what that is taken from; both are None where that
    is not known.
    """

    earliest: str | None
    latest: str | None
    basis: Basis


class JobView(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A job of any kind, also a plain pod or a PodGroup made by hand. Times are RFC 3339 in UTC. Of its JSON only the
    last four fields are left out where there is nothing to say.

    `root` is the object above it that a user made, as `Kind/name`; `former_submitters` are other users whose pods
    are in the PodGroup: it was deleted, and perhaps made anew by another user. `gpus` counts cards that it has at least
    a part of, `cards` how much it has of them; while it waits, the most that it may get.
    """

    api_version: str
    namespace: str
    kind: str
    name: str
    uid: str
    group: str | None
    queue: str | None
    priority: int
    submitter: str | None
    phase: str
    members: JobMembers
    gpus: int
    cards: float
    submitted_at: str | None
    started_at: str | None
    finished_at: str | None
    position: int | None
    reason: JobReason | None
    planned_start: PlannedStart | None
    expected_start: ExpectedStart | None
    time_limit: TimeLimit
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    former_submitters: tuple[str, ...] = ()
    root: str = ""
    root_uid: str = ""

    def to_json(self) -> dict[str, Any]:
        """As REST shows it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        if self.former_submitters:
            found["formerSubmitters"] = list(self.former_submitters)
        return found
