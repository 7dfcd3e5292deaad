"""Whether a planned start stands without another look: nothing earlier is possible, by numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from t9ksched.engine.blocks import Block
from t9ksched.engine.members import alike
from t9ksched.engine.openings import may_open
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.timeline import Timeline
from t9ksched.engine.view import QueueState
from t9ksched.model.gang import Gang, Member


class Kinds:
    """Which plans have pods that may take each other's places."""

    def __init__(self, queues: Mapping[str, QueueState], gangs: Mapping[str, Gang]) -> None:
        """`gangs` by UID."""
        self._queues = queues
        self._gangs = gangs

    def alike(self, gang: Gang, key: SchedulingKey, blocks: Iterable[Block]) -> bool:
        """Whether all pods of these plans and of the gang may."""
        column, _ = key.groups[0]
        if len(key.groups) > 1 or not is_steady(column) or gang.topology == "Required":
            return False
        own = (column.pod_class, column.selector, False)
        return all(self._kind(block) == own for block in blocks)

    def leaves_alike(self, gone: Block, others: Iterable[Block]) -> bool:
        """Whether these plans are alike without that one and were not with it; gangs of its queue's priority heed those
        of at least that.
        """
        left = {self._kind(block) for block in others if block.rank >= gone.rank}
        return len(left) == 1 and self._kind(gone) not in left

    def _kind(self, block: Block) -> tuple[object, ...]:
        selector = self._queues[block.queue].spec.node_selector
        return block.only, selector, self._gangs[block.owner].topology == "Required"


def asks(gang: Gang) -> tuple[object, ...]:
    """What a gang asks for beside its pods, which may change while it waits: the domains that they are to be in, and
    the reservation, with the user.
    """
    together = () if gang.topology == "None" else (gang.topology, gang.levels)
    return (*together, gang.reservation, gang.user, gang.groups) if gang.reservation else together


def is_for(block: Block, gang: Gang, members: Sequence[Member]) -> bool:
    """Whether the plan is for these members of the gang, which make up its minimum, and all of one class."""
    if block.gang is not gang:
        first = block.reserved[0].pod_class
        if len(members) != len(block.reserved) or not alike(members) or members[0].pod_class != first:
            return False
        block.gang = gang
    return True


def is_of(block: Block, key: SchedulingKey) -> bool:
    """Whether the room of a plan is what the pods of this key ask for."""
    asked = sum(column.needs_vector * pods for column, pods in key.groups)
    amounts = block.room.amounts.sum(axis=1)
    trial = key.groups[0][0].trial
    if trial.nodes.static.divided:
        planned = Counter((one.pod_class.requests, one.pod_class.cards) for one in block.reserved)
        wanted: Counter[object] = Counter()
        for column, pods in key.groups:
            wanted[column.pod_class.requests, column.pod_class.cards] += pods
        if planned != wanted:
            return False
        for of in trial.nodes.static.divided.values():
            amounts[list(of.rows)] = 0
    return np.array_equal(amounts, asked)


def is_steady(column: ClassFit) -> bool:
    """Whether numbers of pods alone say where those of the class may go. Where pods stand and which ports are open is
    known of now only, so that a later start may be found when some end as expected; and of parts of cards the numbers
    say what fits at each moment, not what fits on one card all the time.
    """
    return not (column.ruled or column.shuts or column.part_needs)


def is_best(timeline: Timeline, column: ClassFit, gang: Gang, block: Block) -> bool:
    """Whether the numbers alone show that the plan is still possible, and that no earlier start is; all pods of the
    gang are of this class.

    First they are of all nodes together, with the plan laid, which takes nothing before it begins; then of each node.
    These say nothing where all plans are of the class, as those may move to other nodes.
    """
    rows, pods = block.room.rows, len(block.reserved)
    if not column.mask[rows].all() or timeline.over(column.trial, rows):
        return False
    steps = timeline.steps(column)
    if steps.most(block.at) < pods:
        return True
    moments = may_open(steps.supply(), pods, gang.lasts, block.at)
    if not len(moments):
        return True
    if all(other.only == block.only for other in timeline.blocks.values()):
        return False
    return not steps.may_fit(pods, moments, gang.lasts, block)
