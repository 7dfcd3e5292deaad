"""Whether a planned start stands without another look: nothing earlier is possible, by numbers."""

from t9ksched.engine.blocks import Block
from t9ksched.engine.openings import may_open
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.timeline import Timeline
from t9ksched.model.gang import Gang


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
    moments = may_open(steps.supply(), pods, gang.lasts, block.at)
    if not len(moments):
        return True
    if all(other.only == block.only for other in timeline.blocks.values()):
        return False
    return not steps.may_fit(pods, moments, gang.lasts, block)
