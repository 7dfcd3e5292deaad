"""Moving planned starts to other nodes at their own times, so that one more gang fits.

The nodes of a plan are a means, its time is the promise. Where the numbers say that a gang fits beside all plans and
the nodes that the plans were given say that it does not, the gang and the plans are placed anew, the earliest start
first. On nodes that are alike this finds room whenever there is some: intervals that are taken in the order of their
beginnings need no more nodes than overlap at any moment.
"""

from t9ksched.engine.actions.fit import places
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.members import chosen
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.timeline import Block
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang


def make_way(cycle: Cycle, planned: PlannedStarts, gang: Gang, key: SchedulingKey, at: int) -> Work[bool]:
    """Give the plans other nodes, at their own times, so that the gang fits from that moment until its end.

    False leaves all of them as they were. The caller knows that by numbers the gang fits then, and that it has no plan
    or all pods are alike (`planned.alike`). Otherwise failure is no proof: it may succeed when less is free, and a plan
    that stands could not be kept without another look.
    """
    before = planned.blocks()
    planned.lift(before)
    laid: list[Block] = []
    turns: list[tuple[int, Block | None]] = [(at, None), *((block.at, block) for block in before)]
    for moment, block in sorted(turns, key=_first):
        of = gang if block is None else planned.gangs[block.owner]
        asked = key if block is None else (yield from cycle.keys.of(of, chosen(of)[0]))
        yield
        placements = yield from places(cycle, of, asked, planned.change_in_turn(of, moment))
        if not placements:
            planned.lift(laid)
            planned.lay(before)
            return False
        laid.append(planned.block(of, moment, placements))
        planned.lay(laid[-1:])
    cycle.stats.moved += 1
    planned.lift([block for block in laid if block.owner == gang.uid])
    for block in laid:
        if block.owner != gang.uid:
            planned.moved(block)
    return True


def _first(turn: tuple[int, Block | None]) -> tuple[int, bool, str]:
    """The earlier start first, of equal ones the plans before the gang that is to fit."""
    at, block = turn
    return at, block is None, "" if block is None else block.owner
