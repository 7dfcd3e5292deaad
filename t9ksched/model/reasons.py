"""Why something waits or is refused, as values."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Code(StrEnum):
    """Stable codes of waiting reasons, as users see them."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    NO_NODE_MATCHES = "NoNodeMatches"
    CARD_TYPE_MISMATCH = "CardTypeMismatch"
    """No node matches, and some only because of the model of their cards, or because they give parts of cards."""
    GANG_INCOMPLETE = "GangIncomplete"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_FOUND = "QueueNotFound"
    NOT_PERMITTED = "NotPermitted"
    QUEUE_NOT_PERMITTED = "QueueNotPermitted"
    OVER_QUOTA = "OverQuota"
    INVALID_FIELD = "InvalidField"
    SUBMITTER_UNKNOWN = "SubmitterUnknown"
    BEHIND = "Behind"
    STARVING = "Starving"
    HELD_FOR_OTHER = "HeldForOther"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    PLANNED_START = "PlannedStart"
    START_TIME_NOT_REACHED = "StartTimeNotReached"
    """It may start at a later time: that was asked for, or the reservation that it asks for has not begun."""
    DEPENDENCY_NOT_MET = "DependencyNotMet"
    """A job that it waits for has not ended, or not as it wants."""
    ARRAY_LIMIT = "ArrayLimit"
    """As many elements of its array run as may at once."""
    OUTSIDE_WINDOW = "OutsideWindow"
    """Its queue starts jobs only at certain times."""
    VOLUME_NOT_BOUND = "VolumeNotBound"
    TOPOLOGY_NOT_SATISFIED = "TopologyNotSatisfied"
    SCHEDULING_GATED = "SchedulingGated"
    UNSUPPORTED_CLAIM = "UnsupportedClaim"
    NEVER_FITS = "NeverFits"
    OTHER_SCHEDULER = "OtherScheduler"
    """Its pods get their nodes without this scheduler, which counts them to no queue."""
    NAME_TAKEN = "NameTaken"
    """An object that the job needs cannot be made: one of another owner has its name."""
    INVALID_POD = "InvalidPod"
    """A pod that could not be bound cleanly whatever room there is, such as a container name that is too long."""
    SCHEDULING_STOPPED = "SchedulingStopped"
    """An administrator stopped all scheduling for now."""
    DATABASE_AWAY = "DatabaseAway"
    """Its acceptance or its cards are not on record, and the database does not answer."""
    START_TIMED_OUT = "StartTimedOut"
    """It was bound, and its minimum did not run in time."""
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"
    """Its last run reached its time limit: it resumes only with another one."""
    MAX_DURATION_EXCEEDED = "MaxDurationExceeded"
    """Its last run reached its queue's maxDuration."""
    RATE_LIMITED = "RateLimited"
    """As many jobs as may wait in its queue, or of its user, wait already: it is not accepted yet."""
    PAUSED = "Paused"
    """Its owner paused or suspended it."""
    TERMINATING = "Terminating"
    """Its object is being deleted or gone, and pods of it still end."""
    BIND_REFUSED = "BindRefused"
    """The API server or the kubelet refused the last binding; tried again after a pause."""


class Reason(msgspec.Struct, frozen=True):
    """One failed check with its numbers.

    Attributes:
        code: what failed.
        message: one sentence for people, with the numbers.
        needs: amounts asked for, by resource (in units) or by what is counted (`members`, `role:worker`).
        has: what there is of the same.
        nodes: how many nodes per cause, such as `{"match": 14, "fit": 0}`.
        unblocks: what would help, one sentence each.
        refused: it was refused, as a submission by REST would have been; it does not wait for room.
    """

    code: Code
    message: str
    needs: Mapping[str, int] = msgspec.field(default_factory=dict)
    has: Mapping[str, int] = msgspec.field(default_factory=dict)
    nodes: Mapping[str, int] = msgspec.field(default_factory=dict)
    unblocks: tuple[str, ...] = ()
    refused: bool = False
