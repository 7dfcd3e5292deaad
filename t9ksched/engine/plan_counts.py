"""How many gangs have a planned start: in all, of each queue, of each user."""

from collections import Counter

from t9ksched.engine.policy import Planning
from t9ksched.model.gang import Gang


class PlanCounts:
    """Counts planned starts against the limits of the policy."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._all = 0
        self._queues: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    def add(self, gang: Gang, more: int = 1) -> None:
        """The gang has a planned start from now on; with -1, none any more."""
        self._all += more
        self._queues[gang.queue] += more
        self._users[gang.user] += more

    def allow(self, gang: Gang) -> bool:
        """Whether one more may have one. A gang whose user is not known counts for none."""
        planning = self._planning
        per_queue = 1 if planning.mode == "EASY" else planning.per_queue
        return (
            self._all < planning.gangs
            and self._queues[gang.queue] < per_queue
            and (not gang.user or self._users[gang.user] < planning.per_user)
        )
