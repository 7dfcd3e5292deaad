"""A plan that does not come about as it was, because something ends late or room was lost, and the plans after it.

Those of gangs that came later than its own relied on it, and must not hold it up: they are planned anew at their turns.
Those of gangs that came before must not be moved later for it by more than the resolution of plans: so much later it
may begin itself, where and in the order in which it was to. Else it is planned anew beside them, and after them where
they do not come about either.
"""

from dataclasses import replace
from itertools import chain
from typing import Final

from t9ksched.engine.blocks import NEVER_ENDS, Block
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.order import age_key
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.standing_plans import is_of
from t9ksched.model.gang import Gang

_SECOND: Final = 1_000_000_000


def fails(cycle: Cycle, planned: PlannedStarts, gang: Gang, key: SchedulingKey, had: Block | None) -> bool:
    """Whether the gang had a plan, `had` unless it lost a node, that does not come about as it was, without a change of
    what the gang asks for: no other plan moves for that.
    """
    if had is None:
        return gang.uid in planned.broken
    return is_of(had, key) and (had.at <= cycle.now or not planned.still_fits(gang, key, had))


class LatePlan:
    """Such a plan, at the turn of its gang.

    Attributes:
        kept: the plan, or the same a moment later, which stands; then nothing else is done here.
        gives_way: whether gangs that came before have their turns first; then nothing else is done here either.
    """

    def __init__(
        self,
        cycle: Cycle,
        planned: PlannedStarts,
        gang: Gang,
        key: SchedulingKey,
        had: Block | None,
        *,
        may_give_way: bool,
    ) -> None:
        """`had` is the plan of the gang, None where it lost a node; it is not laid."""
        self._planned = planned
        self.kept: Block | None = None
        self._delayed: list[Block] = []
        age, gangs = age_key(gang), planned.gangs
        later = planned.later(gang)
        self._relied = [block for block in later if age_key(gangs[block.owner]) > age]
        self._before = [block for block in later if age_key(gangs[block.owner]) < age]
        planned.lift(self._relied)
        if had is not None and (self._before or had.at > cycle.now):
            self._delay(cycle, gang, key, had)
        fail = not self._delayed and not all(map(planned.stands, self._before))
        fail = fail or any(age_key(one) < age for one in planned.lost())
        self.gives_way = fail and self.kept is None and may_give_way
        if self.gives_way or self.kept is not None:
            self.over()

    def _delay(self, cycle: Cycle, gang: Gang, key: SchedulingKey, had: Block) -> None:
        """See whether it would come about when it was to, or a moment later, in its place, if those before were as late
        as that. All plans that follow one another keep their places then.
        """
        planned, now, planning = self._planned, cycle.now, cycle.policy.planning
        resolution = planning.resolution_seconds * _SECOND if planning is not None else 0
        self._delayed = [_later(block, resolution) for block in self._before]
        planned.lay(self._delayed)
        if had.at <= now:
            if not planned.still_fits(gang, key, had):
                self.started_not()
            return
        # What counts on an end that is overdue would be put off again and again.
        openings = planned.possible.openings(gang, key, had.at + resolution + 1)
        soon = (_later(had, at - had.at) for at in openings if at > max(had.at, now + resolution))
        self.kept = next((block for block in chain((had,), soon) if planned.still_fits(gang, key, block)), None)
        self.started_not()

    def started_not(self) -> None:
        """The gang did not start: another plan for it moves none of those before."""
        if self._delayed:
            self._planned.lay(self._before)
            self._delayed = []

    def over(self) -> None:
        """The turn is over."""
        self.started_not()
        self._planned.lay(self._relied)


def _later(block: Block, by: int) -> Block:
    """The plan, so much later."""
    until = 0 if block.until == NEVER_ENDS else block.until + by
    return Block(tuple(replace(one, since=block.at + by, until=until) for one in block.reserved), block.room)
