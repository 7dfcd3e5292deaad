"""How many gangs have a planned start: in all, of each queue, of each user."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from t9ksched.engine.blocks import Block
from t9ksched.engine.order import gang_key
from t9ksched.engine.policy import Planning
from t9ksched.model.gang import Gang


class PlanCounts:
    """Counts planned starts against the limits of the policy."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._per_queue = 1 if planning.mode == "EASY" else planning.per_queue
        self._all = 0
        self._queues: Counter[str] = Counter()
        self._users: Counter[str] = Counter()

    def add(self, gang: Gang, more: int = 1) -> None:
        """The gang has a planned start from now on; with -1, none any more."""
        self._all += more
        self._queues[gang.queue] += more
        self._users[gang.user] += more

    def take(self, plans: Sequence[Block], broken: Iterable[str], gangs: Mapping[str, Gang]) -> list[Block]:
        """Count these plans of earlier cycles, of gangs by UID, and return them; if the policy allows fewer by now, in
        all or of a queue, only those of the first gangs of the first queues. Those of `broken` gangs are counted, too:
        they are made anew.
        """
        for owner in (*broken, *(block.owner for block in plans)):
            self.add(gangs[owner])
        if self._all <= self._planning.gangs and max(self._queues.values(), default=0) <= self._per_queue:
            return list(plans)
        for block in plans:
            self.add(gangs[block.owner], -1)
        kept = set()
        for block in sorted(plans, key=lambda block: (-block.rank, gang_key(gangs[block.owner]))):
            gang = gangs[block.owner]
            if self._leaves(gang):
                self.add(gang)
                kept.add(block.owner)
        return [block for block in plans if block.owner in kept]

    def allow(self, gang: Gang) -> bool:
        """Whether one more may have one. A gang whose user is not known counts for none."""
        return self._leaves(gang) and (not gang.user or self._users[gang.user] < self._planning.per_user)

    def _leaves(self, gang: Gang) -> bool:
        """Whether there are fewer than may be in all and of the gang's queue."""
        return self._all < self._planning.gangs and self._queues[gang.queue] < self._per_queue
