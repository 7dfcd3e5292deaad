"""One occurrence of a reservation by administrators, on the nodes that were chosen for it, as the engine sees it."""

import msgspec

from t9ksched.model.gang import Gang
from t9ksched.model.podclass import PodClass


class ReservedRoom(msgspec.Struct, frozen=True, gc=False):
    """Room that is kept for some jobs, or for none, for a time.

    Attributes:
        name: of the reservation.
        begin, end: nanoseconds since the epoch; `end` is the first moment after it.
        drain: from then on no gang whose end nothing enforces starts there, at the latest from `begin`.
        nodes: their names.
        cards: resource and how many of each node, with CPU and memory in proportion; None for whole nodes.
        queues, users, groups: whose gangs may use it; without any it is for none.
        inside: what gangs that use it hold: UID of the gang, node, class of pods, how many.
    """

    name: str
    begin: int
    end: int
    drain: int
    nodes: tuple[str, ...]
    cards: tuple[str, int] | None = None
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    inside: tuple[tuple[str, str, PodClass, int], ...] = ()

    def admits(self, gang: Gang) -> bool:
        """Whether the gang may use it; one that names a reservation uses only that one."""
        if gang.reservation and gang.reservation != self.name:
            return False
        if gang.queue in self.queues or (gang.user and gang.user in self.users):
            return True
        return bool(self.groups) and not set(self.groups).isdisjoint(gang.groups)
