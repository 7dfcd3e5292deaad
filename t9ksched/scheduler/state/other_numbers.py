"""Gangs that wait for the same as before, with other numbers: those who follow changes hear of some of them at a time.

On a cluster that never stands still the most that is free on one node is another number in each cycle, and every gang
that waits is told it. Who asks for a gang sees its numbers as they are. Statuses, rows and whatever else follows the
change feed get a part of such changes, in turn, so that their cost does not grow with what waits.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from t9ksched.model.ordered import OrderedSet
from t9ksched.scheduler.state.records import GangRecord

A_SECOND: Final = 25
"""Gangs of which it is published that their numbers changed, in each second …"""
AT_ONCE: Final = 250
"""… and after ten quiet seconds: few that wait are told at once."""


class OtherNumbers:
    """`publish` is called for a gang when it has its turn. Times are seconds of a clock that only grows."""

    def __init__(self, publish: Callable[[GangRecord], None]) -> None:
        self._publish = publish
        self._waiting: OrderedSet[GangRecord] = OrderedSet()
        self._left = float(AT_ONCE)
        self._at = 0.0

    def __bool__(self) -> bool:
        """Whether a gang waits for its turn."""
        return bool(self._waiting)

    def note(self, gang: GangRecord) -> None:
        """Numbers of its reasons, or its place in the queue, are others."""
        self._waiting.add(gang)

    def discard(self, gang: GangRecord) -> None:
        """It was published otherwise, or does not wait."""
        self._waiting.discard(gang)

    def publish(self, now: float) -> bool:
        """Publish those that have their turn. Returns whether others wait for theirs."""
        self._left = min(float(AT_ONCE), self._left + A_SECOND * (now - self._at))
        self._at = now
        turns = list(islice(self._waiting, int(self._left)))
        self._left -= len(turns)
        for gang in turns:
            self._waiting.discard(gang)
            self._publish(gang)
        return bool(self._waiting)
