"""Detects that the wall clock was set, by comparing it with a monotonic clock. A duration is the difference of two
times of day, and the clock may have been set between them. Parts that keep such times are told of the jump, so that
they can move them with it. A clock that is slewed is not detected, because it differs by less than a second between two
checks.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

log = structlog.get_logger(__name__)

LEAST: Final = timedelta(seconds=1)
"""A smaller difference between two checks is no jump."""
_LEAST_MICROSECONDS: Final = LEAST // timedelta(microseconds=1)
_EVERY_SECONDS: Final = 1.0
_LATE: Final = 60.0
"""Seconds after a jump for which times may still come that were read before it."""
_NANOSECONDS: Final = 1_000_000_000


class ClockWatch:
    """`wall` gives nanoseconds since the epoch, `steady` seconds that only grow, sleep of the machine included.

    `on_jump` gets by how much the wall clock was set forward, and what it says now; it may be added to.
    """

    def __init__(self, wall: Callable[[], int], steady: Callable[[], float]) -> None:
        self._wall = wall
        self._steady = steady
        self._last = (wall(), steady())
        self._jumped: tuple[float, timedelta] | None = None
        """When, by the steady clock, and by how much it was set last."""
        self.on_jump: list[Callable[[timedelta, datetime], None]] = []
        self.jumps = 0

    def begin(self) -> None:
        """Start counting now: earlier jumps concern other processes."""
        self._last = (self._wall(), self._steady())

    def look(self) -> None:
        """Compare the two clocks."""
        wall, steady = self._wall(), self._steady()
        before, since = self._last
        self._last = (wall, steady)
        moved = round((wall - before) / 1000 - (steady - since) * 1e6)
        if -_LEAST_MICROSECONDS <= moved <= _LEAST_MICROSECONDS:
            return
        jump = timedelta(microseconds=moved)
        self.jumps += 1
        self._jumped = (steady, jump)
        log.warning("the wall clock was set: times of what goes on move with it", seconds=jump.total_seconds())
        for told in self.on_jump:
            told(jump, self.seen)

    @property
    def seen(self) -> datetime:
        """The time of day at the last check."""
        return datetime.fromtimestamp(self._last[0] / _NANOSECONDS, UTC)

    def as_now(self, at: datetime) -> datetime:
        """A time of day that may have been read before the last jump, as the clock would have said it afterwards."""
        if self._jumped is None or self._last[1] - self._jumped[0] > _LATE:
            return at
        now, moved = self.seen, at + self._jumped[1]
        return moved if abs(now - moved) < abs(now - at) else at

    async def run(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_EVERY_SECONDS)
