"""Planning of a gang's start: the earliest moment and the places at which it fits, kept for it until then."""

from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import structs

from t9ksched.engine import explain
from t9ksched.engine.actions.action import Turn
from t9ksched.engine.actions.fit import places
from t9ksched.engine.actions.make_way import make_way
from t9ksched.engine.blocks import Block
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import rounded_up

_MOST: Final = 200
"""So many moments are tried at most; a gang that fits at none of them has no planned start."""
_NEVER: Final = (Code.NEVER_FITS, Code.NO_NODE_MATCHES)
"""Of a gang that names a reservation: no moment of that would do."""
_WAYS: Final = 4
"""Other plans are asked to make way for at most so many moments."""


class Reserve:
    """The action `reserve`; it runs wherever the policy plans starts, and never ends a turn."""

    needs: ClassVar[str] = "allocate"

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def attempt(self, turn: Turn) -> Work[bool]:
        """Put the earliest start of the gang on the timeline and tell it, or leave its reasons as they are.

        A gang that has room reserved, or members that run, waits for no plan: it starts as soon as it can.
        """
        planned, gang = self._cycle.planned, turn.gang
        if planned is None or turn.behind or gang.placed or gang.uid in self._cycle.reservations.of:
            return False
        if gang.reservation and (self._cycle.advance is None or turn.reasons[0].code in _NEVER):
            return False
        if not planned.may_plan(gang, turn.had):
            return False
        yield from planned.prepare()
        block = yield from self._earliest(planned, gang, turn.key, turn.had)
        if block is not None:
            turn.reasons = told(self._cycle, gang, block)
        return False

    def _earliest(
        self, planned: PlannedStarts, gang: Gang, key: SchedulingKey, had: Block | None
    ) -> Work[Block | None]:
        """Plan the earliest start; None where there is none."""
        cycle = self._cycle
        stays = had is not None and had.at > cycle.now and cycle.windows.allow(gang, had.at)
        stays = stays and had is not None and planned.still_fits(gang, key, had)
        sooner = had.at if stays and had is not None else None
        later = (at for at in planned.possible.openings(gang, key, sooner) if at > cycle.now)
        ways = _WAYS if had is None or planned.alike(gang, key) else 0
        for nth, at in enumerate(later):
            if nth >= _MOST:
                break
            yield
            placements = yield from self._places(planned, gang, key, at)
            if not placements and ways > 0:
                ways -= 1
                if (yield from make_way(cycle, planned, gang, key, at)):
                    placements = yield from self._places(planned, gang, key, at)
            if placements:
                cycle.stats.planned += 1
                self._moved(had, placements)
                return planned.plan(gang, key, at, placements)
        if stays and had is not None:
            planned.keep(gang, had)
            return had
        self._moved(had, ())
        return None

    def _places(self, planned: PlannedStarts, gang: Gang, key: SchedulingKey, at: int) -> Work[Sequence[Placement]]:
        """Where the gang fits from that moment until it ends; empty where it does not."""
        found = planned.places(gang, key, at)
        if found is None:
            return (yield from places(self._cycle, gang, key, planned.change(gang, at)))
        return found

    def _moved(self, had: Block | None, placements: Sequence[Placement]) -> None:
        """A plan is new, or stands elsewhere: what others were told may no longer be so."""
        failures = self._cycle.failures
        for placement in placements:
            failures.moved(placement.row)
        if had is not None:
            failures.moved(had.room.rows)
            failures.room_came_free()


def told(cycle: Cycle, gang: Gang, block: Block) -> tuple[Reason, ...]:
    """Why a gang with a planned start waits: for that moment, for its queue to start gangs, and for quota where it has
    too little now.
    """
    outside = cycle.windows.shut(gang)
    shortfalls = cycle.ledger.can_charge(gang.queue, block.room.demand)
    planning = cycle.policy.planning
    at = rounded_up(block.at, planning.resolution_seconds * 1_000_000_000) if planning is not None else block.at
    if block.told is None or block.told[0] != at:
        block.told = at, (explain.planned_start(at, len(block.room.rows)),)
    if not shortfalls and outside is None:
        return block.told[1]
    start = block.told[1]
    if outside is not None and cycle.windows.next_begin(gang) == block.at:
        # Nothing else keeps it from an earlier one.
        start = tuple(structs.replace(reason, unblocks=()) for reason in start)
    quota = (explain.quota_exceeded(shortfalls),) if shortfalls else ()
    return (*start, *(() if outside is None else (outside,)), *quota)
