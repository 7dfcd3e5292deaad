"""Who is served first.

Queues: larger priority, then smaller dominant share, then name; asked again after each commitment, because a share has
grown. Gangs of a queue: those being refilled, then larger priority, then the older, then uid.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping

from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang
from t9ksched.model.queue import QueueSpec


def gang_key(gang: Gang) -> tuple[bool, int, int, str, str]:
    """Sorts gangs of one queue. A gang that ran or holds places goes before anything new of its queue.

    The API counts creation in whole seconds; within one the name decides (OQ-13), then the UID.
    """
    return (not (gang.ran or gang.placed), -gang.priority, gang.created, gang.name, gang.uid)


class QueueOrder:
    """The queues that still have gangs to judge, best first.

    Only the queue that was just served changes its share, so it alone is entered again.
    """

    def __init__(
        self, names: Iterable[str], specs: Mapping[str, QueueSpec], share: Callable[[str], int], policy: Policy
    ) -> None:
        self._by_priority = "basic" in policy.queue_order
        self._share = share if "resource" in policy.queue_order else None
        self._share_first = policy.queue_order[:1] == ("resource",)
        self._specs = specs
        self._heap = [(self.key(name), name) for name in names]
        heapq.heapify(self._heap)

    def key(self, name: str) -> tuple[int, int]:
        """What queues are compared by, smaller first; equal keys are decided by name."""
        priority = -self._specs[name].priority if self._by_priority else 0
        share = self._share(name) if self._share else 0
        return (share, priority) if self._share_first else (priority, share)

    def best(self) -> str | None:
        """The queue to serve, None when there is none."""
        return self._heap[0][1] if self._heap else None

    def served(self, more: bool, grown: bool) -> None:
        """The best queue was served: with more gangs it stays, at the place its share gives it if that has grown."""
        if more and not grown:
            return
        if more:
            name = self._heap[0][1]
            heapq.heapreplace(self._heap, (self.key(name), name))
        else:
            heapq.heappop(self._heap)
