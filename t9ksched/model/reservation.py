"""Room that is promised to a gang and not used yet: one value for every reason to promise it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.podclass import PodClass

PROMISE_SLACK_SECONDS: Final = 60
"""How much longer than their grace period victims may take before the promise of their room ends."""


class ReservationKind(StrEnum):
    """What room is promised for. The value is the text that users see; its properties say what a kind means.

    A binding in flight has no reservation: it is charged as if it had happened.
    """

    BINDING = "binding"
    """A member's place, while its binding was refused and is to be tried again."""
    REFILL = "refill"
    """The place of a member that a gang lost, until its controller makes another."""
    VICTIMS = "victims"
    """Room that evicted pods are leaving, for the gang that they were evicted for."""
    PLANNED = "planned start"
    """Room for a gang that is to start at a moment to come, when others have ended."""

    @property
    def comes_free(self) -> bool:
        """Whether pods that leave have the room still, so that it is there in part or not at all yet."""
        return self is ReservationKind.VICTIMS

    @property
    def planned(self) -> bool:
        """Whether its owner is to have the room at a later moment: what ends before may use it until then."""
        return self is ReservationKind.PLANNED

    @property
    def replaces(self) -> bool:
        """Whether the reservations of this kind hold all that their owner lacks, and count alone."""
        return self is ReservationKind.VICTIMS

    @property
    def movable(self) -> bool:
        """Whether other room is looked for where the node is of no use: it is for a pod, not for a place."""
        return self is ReservationKind.REFILL

    @property
    def restores(self) -> bool:
        """Whether the owner had the room before: its pods go there first, and it is told that the room is kept."""
        return self in (ReservationKind.BINDING, ReservationKind.REFILL)


def rounded_up(moment: int, step: int) -> int:
    """The moment, rounded up to whole steps since the epoch; both in nanoseconds."""
    return -(-moment // step) * step if step else moment


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room for one pod of a class on one node.

    It ends by use, by its owner's end, by the node's loss or at its time limit; nothing but its owner takes the room.

    Attributes:
        owner: UID of the gang that may use it.
        node: name of the node; empty where room is still to be found (kinds that are movable).
        pod_class: what the room is for.
        kind: what it is promised for.
        cards: free cards of the node; empty when any cards will do.
        rank: priority of the owner's queue, in the order in which reservations give way to others.
        since, until: nanoseconds since the epoch; `until` 0 means no time limit.
        firm: a promise with a time, never moved later by a job that came later.
        queue: the queue that pays for the room while it is reserved; empty when it is not charged.
        avoid: names of nodes that are chosen only if no other fits, while `node` is empty.
    """

    owner: str
    node: str
    pod_class: PodClass
    kind: ReservationKind
    cards: CardGrant = NO_CARDS
    rank: int = 0
    since: int = 0
    until: int = 0
    firm: bool = False
    queue: str = ""
    avoid: tuple[str, ...] = ()

    def in_force(self, now: int) -> bool:
        """Whether it holds at that moment, in nanoseconds since the epoch."""
        return self.since <= now and (not self.until or now < self.until)
