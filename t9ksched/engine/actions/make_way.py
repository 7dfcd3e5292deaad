"""Moving planned starts to other nodes at their own times, so that one more gang fits.

The nodes of a plan are a means, its time is the promise. Where the numbers say that a gang fits beside all plans and
the nodes that the plans were given say that it does not, the gang and the plans are placed anew, the earliest start
first. On nodes that are alike this finds room whenever there is some: intervals that are taken in the order of their
beginnings need no more nodes than overlap at any moment.
"""

from collections.abc import Sequence

import numpy as np

from t9ksched.engine.actions.fit import places
from t9ksched.engine.blocks import Block
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.in_turn import Moment, filled, is_plain
from t9ksched.engine.members import chosen
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.planned_starts import PlannedStarts
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang


def make_way(cycle: Cycle, planned: PlannedStarts, gang: Gang, key: SchedulingKey, at: int) -> Work[bool]:
    """Give the plans other nodes, at their own times, so that the gang fits from that moment until its end.

    False leaves all of them as they were. The caller knows that by numbers the gang fits then, and that it has no plan
    or all pods are alike (`planned.alike`). Otherwise failure is no proof: it may succeed when less is free, and a plan
    that stands could not be kept without another look.
    """
    before, walk, trial = planned.blocks(), planned.in_turn, cycle.trial
    reserves = cycle.advance is not None
    own: Moment = (at, True, "")
    if reserves:
        # What is left of room that is reserved depends on the plans that are laid.
        planned.lift(before)
        walk.restart()
    last = walk.resume(trial.free, trial.state, own)
    if walk.failed is not None:
        return False
    turns: list[tuple[Moment, Block | None]] = [((block.at, False, block.owner), block) for block in before]
    turns.append((own, None))
    for moment, block in sorted(turn for turn in turns if turn[0] > last):
        of = gang if block is None else planned.gangs[block.owner]
        asked = key if block is None else (yield from cycle.keys.of(of, chosen(of)[0]))
        yield
        walk.advance(moment[0])
        placements = yield from _places(cycle, planned, of, asked, moment[0])
        if not placements:
            walk.give_up(moment)
            if reserves:
                planned.lift(walk.blocks)
                planned.lay(before)
            return False
        walk.lay(moment, planned.block(of, moment[0], placements))
        if reserves:
            planned.lay(walk.blocks[-1:])
    cycle.stats.moved += 1
    planned.lift([*before, *walk.blocks])
    for block in walk.blocks:
        if block.owner != gang.uid:
            planned.lay((block,))
            planned.moved(block)
    return True


def _places(
    cycle: Cycle, planned: PlannedStarts, gang: Gang, key: SchedulingKey, start: int
) -> Work[Sequence[Placement]]:
    """Where the gang goes at that moment, in the room that the plans before it leave."""
    left, trial = planned.in_turn.left, cycle.trial
    if start <= cycle.now:
        # What the columns lack twice now is free later only.
        left = np.minimum(left, trial.free)
    if cycle.advance is None and is_plain(gang, key, trial):
        ((column, pods),) = key.groups
        return filled(column, pods, left)
    change = left - trial.free
    # What is reserved from the gang counts until it ends.
    kept = None if cycle.advance is None else cycle.advance.change(gang, start, left)
    return (yield from places(cycle, gang, key, change if kept is None else change + kept))
