"""The queue that is charged for a group, by the group's name.

Members outlive their PodGroup while they end, and a scheduler that starts then sees them without it. Their room is
charged to the queue of the last accepted group of that name; otherwise that queue would seem to have more left than it
has.
"""

from collections.abc import Mapping

from t9ksched.scheduler.state.records import GangRecord
from t9ksched.store.acceptances import Acceptance


class QueueAttribution:
    """A view of `acceptances` by the names of groups, made when it is first needed."""

    def __init__(self, acceptances: Mapping[str, Acceptance]) -> None:
        self._acceptances = acceptances
        self._queues: dict[tuple[str, str | None], str] | None = None

    def changed(self) -> None:
        """A group was accepted since."""
        self._queues = None

    def of(self, gang: GangRecord) -> str | None:
        """The queue to charge; None when no such group is known."""
        if self._queues is None:
            oldest_first = sorted(self._acceptances.values(), key=lambda one: one.accepted_at)
            self._queues = {(one.namespace, one.group_name): one.queue for one in oldest_first if one.queue}
        return self._queues.get((gang.namespace, gang.name))
