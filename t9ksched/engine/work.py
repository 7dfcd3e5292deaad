"""Work that can be interrupted and resumed.

A generator yields wherever it may stop and returns its result at the end. Work is counted in *units*: one unit is about
one node or one pod looked at for one resource (some 10 ns). No decision depends on where the work stopped.
"""

from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")
Work = Generator[None, None, T]
A_PIECE: Final = 20_000
"""Units of work, some tenths of a millisecond, between two moments in which work may stop."""


class Meter:
    """Counts the units of work done."""

    __slots__ = ("_due", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self._due = A_PIECE

    def due(self) -> bool:
        """Whether a piece of work was done since this last was true: work that goes on for long stops for a moment."""
        if self.spent < self._due:
            return False
        self._due = self.spent + A_PIECE
        return True


class Effort:
    """How much may be tried for one gang, in nodes looked at, over all the domains it is tried in.

    It depends on the gang and the number of nodes alone, so that what is found does not depend on what is remembered.
    """

    __slots__ = ("left",)

    def __init__(self, nodes: int = 3_000_000) -> None:
        self.left = nodes


def finish(work: Work[T]) -> T:
    """Do all of it; its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
