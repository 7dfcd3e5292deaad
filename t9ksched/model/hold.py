"""Room that is promised but not used yet.

One notion for a binding in flight, a gang being refilled, a preemptor waiting for its victims, a planned start. A hold
ends by use, by its owner's end, by the node's loss or at its time limit; nothing but its owner takes its room.
"""

from dataclasses import dataclass
from typing import Final

from t9ksched.model.podclass import PodClass

VICTIMS: Final = "victims"
"""`why` of room that evicted pods are leaving."""
REFILL: Final = "refill"
"""`why` of room that a gang keeps for a member that it lost."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Room for pods of one class on one node.

    Attributes:
        owner: uid of the gang that may use it.
        node: name of the node; empty for a lost member whose room is still to be found.
        pod_class: what the room is for; `cards` are free-card masks by resource, empty when any card will do.
        rank: owner's queue priority, for those who may displace it.
        since, until: nanoseconds since the epoch; `until` 0 means no time limit.
        firm: a promise with a time, never moved later by a job that came later.
        why: for people: `binding`, `refill`, `victims`, `planned`.
        queue: the queue that pays for the room while it is held; empty when it is not charged.
        avoid: names of nodes that are chosen only if no other fits, while `node` is empty.
    """

    owner: str
    node: str
    pod_class: PodClass
    cards: tuple[tuple[str, int], ...] = ()
    rank: int = 0
    since: int = 0
    until: int = 0
    firm: bool = False
    why: str = ""
    queue: str = ""
    avoid: tuple[str, ...] = ()
