"""Planned starts given places anew, in the order of their moments, and the room that is left at each of these.

What was placed is kept for the next attempt in the same cycle, up to the first plan that is another one by then: most
attempts differ late, and one that failed before that fails again.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec
import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.blocks import Block
from t9ksched.engine.changes import Changes
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.class_keys import NEVER
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.timeline import Timeline
from t9ksched.model.gang import Gang

Moment = tuple[int, bool, str]
"""The place of a start in the order: its moment, whether it is the one that others make way for, and the owner."""
NOTHING: Final[Moment] = (-1, False, "")


class _Step(msgspec.Struct):
    """A start with its new places; `passed` and `ended` are what had changed by then since the step before."""

    moment: Moment
    block: Block
    passed: int
    ended: list[tuple[int, int, Block]]


class InTurn:
    """Starts in their order, and the free room when the last of them has begun.

    Attributes:
        left: shape (resources, nodes); it may be read until something is done here.
        failed: the start that found no room after those before it; None where none is known.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._steps: list[_Step] = []
        self._changes: Changes | None = None
        self._passed = 0
        self._ends: list[tuple[int, int, Block]] = []
        """Moments at which starts end, as a heap; those in `_undone` have not begun."""
        self._undone: set[int] = set()
        self._number = 0
        self._seen = (-1, -1)
        self._guest = NOTHING
        self._ended: list[tuple[int, int, Block]] = []
        self._before = 0
        self.left: Int64s = np.zeros((0, 0), np.int64)
        self.failed: Moment | None = None

    def resume(self, free: Int64s, state: int, moment: Moment) -> Moment:
        """Go back to before the first start that is not as it was, or to before that moment; `free` is the room of now,
        a trial's in this state. Returns the last start that stands.
        """
        changed = self._timeline.changed_from()
        if self._changes is None or self._seen != (state, self._timeline.base):
            self._restart(free)
            self._seen = (state, self._timeline.base)
        # The start that others made way for last time is another one now.
        first = min(changed, moment, self._guest)
        self._guest = moment
        if self.failed is not None and self.failed >= first:
            self.failed = None
        while self._steps and self._steps[-1].moment >= first:
            self._undo(self._steps.pop())
        return self._steps[-1].moment if self._steps else NOTHING

    def restart(self) -> None:
        """Nothing that was placed is kept."""
        self._changes = None

    def _restart(self, free: Int64s) -> None:
        self._changes = self._timeline.sorted_changes()
        self._steps.clear()
        self._ends.clear()
        self._undone.clear()
        self._passed = 0
        self.left = free.copy()
        self.failed = None

    def advance(self, at: int) -> None:
        """Let everything happen until that moment; `lay` follows, or `give_up`."""
        assert self._changes is not None
        moments, _, _ = self._changes
        self._before = self._passed
        self._pass(int(np.searchsorted(moments, at, side="right")))
        self._ended = []
        while self._ends and self._ends[0][0] <= at:
            one = heappop(self._ends)
            if one[1] in self._undone:
                self._undone.remove(one[1])
                continue
            self._ended.append(one)
            self._give(one[2], 1)

    def lay(self, moment: Moment, block: Block) -> None:
        """The start has these places."""
        self._number += 1
        self._give(block, -1)
        heappush(self._ends, (block.until, self._number, block))
        self._steps.append(_Step(moment, block, self._before, self._ended))

    def give_up(self, moment: Moment) -> None:
        """The start finds no room."""
        self.failed = moment
        self._back(self._before, self._ended)

    @property
    def blocks(self) -> list[Block]:
        """All starts, in their order."""
        return [step.block for step in self._steps]

    def _undo(self, step: _Step) -> None:
        self._give(step.block, 1)
        self._undone.update(number for _, number, block in self._ends if block is step.block)
        self._back(step.passed, step.ended)

    def _back(self, passed: int, ended: Sequence[tuple[int, int, Block]]) -> None:
        for one in ended:
            self._give(one[2], -1)
            heappush(self._ends, one)
        self._pass(passed)

    def _pass(self, to: int) -> None:
        """Be where so many of the other changes have come about."""
        assert self._changes is not None
        _, rows, amounts = self._changes
        first, last = sorted((self._passed, to))
        if first < last:
            sign = 1 if to == last else -1
            for resource, line in enumerate(self.left):
                np.add.at(line, rows[first:last], sign * amounts[resource, first:last])
        self._passed = to

    def _give(self, block: Block, sign: int) -> None:
        self.left[:, block.room.rows] += sign * block.room.amounts


def is_plain(gang: Gang, key: SchedulingKey, trial: Trial) -> bool:
    """Whether room and scores alone say where the gang goes, node after node."""
    return key.plain and gang.topology == "None" and trial.scores.monotone


def filled(column: ClassFit, pods: int, left: Int64s) -> list[Placement]:
    """Where so many pods of a class go in this room, shape (resources, nodes), as `pack` places them if a score never
    falls; empty where not all fit.
    """
    rooms = column.rooms(left)
    key = np.where(rooms > 0, column.scored(), NEVER)
    found = []
    while pods:
        row = int(key.argmax())
        if key[row] == NEVER:
            return []
        key[row] = NEVER
        count = min(int(rooms[row]), pods)
        pods -= count
        found.append(Placement(column, row, count, ()))
    return found
