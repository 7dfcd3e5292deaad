"""Whether a planned start stands without another look: nothing earlier is possible, by numbers."""

from t9ksched.engine.blocks import Block
from t9ksched.engine.openings import may_open
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.timeline import Timeline
from t9ksched.model.gang import Gang


def is_best(timeline: Timeline, column: ClassFit, gang: Gang, block: Block) -> bool:
    """Whether the numbers alone show that the plan is still possible, and that no earlier start is; all pods of the
    gang are of this class.

    They are those of the timeline with the plan on it, which takes nothing before it begins.
    """
    rows = block.room.rows
    if not column.mask[rows].all() or timeline.over(column.trial, rows):
        return False
    return not may_open(timeline.supply(column), len(block.reserved), gang.lasts, block.at)
