"""What a cycle decides, as values: assignments, reasons of waiting gangs, evictions and reservations."""

import msgspec

from t9ksched.model.cards import NO_CARDS, CardGrant, ContainerGrant
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One pod's place.

    Attributes:
        gang, pod: uids.
        node, generation: where, and the node's generation when it was decided.
        cards: container, resource and card indices, as they are written on the pod.
        grant: all cards that the pod holds.
    """

    gang: str
    pod: str
    node: str
    generation: int
    cards: tuple[ContainerGrant, ...] = ()
    grant: CardGrant = NO_CARDS


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A gang that stays, why, and its position among those waiting in its queue (from 1; 0 without a queue)."""

    gang: str
    reasons: tuple[Reason, ...]
    position: int = 0


class Eviction(msgspec.Struct, frozen=True, gc=False):
    """A pod that is to be evicted: `gang` and `pod` are UIDs, `by` is the UID of the gang that gets its room."""

    gang: str
    pod: str
    by: str
    why: str


class PluginFault(msgspec.Struct, frozen=True, gc=False):
    """A plugin failed and is off for the rest of the cycle: `hook` is the method that was called."""

    plugin: str
    hook: str
    message: str


class Stats(msgspec.Struct):
    """What the cycle did. `alike` gangs were answered by one that had failed before them in the cycle."""

    judged: int = 0
    placed: int = 0
    pods: int = 0
    tried: int = 0
    alike: int = 0
    searched: int = 0
    """How often victims were looked for."""
    preempted: int = 0
    planned: int = 0
    """How many starts were planned, or planned anew."""
    moved: int = 0
    """How often planned starts got other nodes, so that one more gang fits."""


class Plan(msgspec.Struct, frozen=True):
    """The decision as a value.

    Attributes:
        assignments: gang by gang, in the order decided; members above minima last.
        waiting: gangs whose minimum has no place, in queue order.
        surplus: gangs that have their minimum, with members above it that found no room.
        evictions: members of running gangs that are to be evicted.
        reservations: room for the preemptors, without a time limit; those of an owner replace all that it had.
        kept: room found for members that gangs lost and that are not there again yet.
        faults: plugins that failed, in the order in which they did.
        planned: all planned starts, as reservations that begin then; they replace those of the view.
        again: the first moment, in nanoseconds since the epoch, at which a plan may find otherwise although nothing
            changed: a running gang becomes old enough to be a victim, or a waiting one to collect room. None where none
            does. What the view itself says of time, such as the end of a reservation, is not among these.
    """

    assignments: tuple[Assignment, ...]
    waiting: tuple[Waiting, ...]
    surplus: tuple[Waiting, ...]
    stats: Stats
    evictions: tuple[Eviction, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    kept: tuple[Reservation, ...] = ()
    faults: tuple[PluginFault, ...] = ()
    planned: tuple[Reservation, ...] = ()
    again: int | None = None

    def to_bytes(self) -> bytes:
        """The plan as JSON; equal views, policies and times give equal bytes."""
        return msgspec.json.encode(self)
