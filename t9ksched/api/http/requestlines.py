"""Which requests get a line of their own in the log: a limited number a minute, so that a flood of requests fills no
disk.

Failures and slow answers have a share that other requests do not use up. Requests without a line are counted, and one
line tells their number when the minute is over; at the level `debug` each request has its line.
"""

from typing import Final

A_MINUTE: Final = 100
NOTEWORTHY_A_MINUTE: Final = 40
"""Of answers that are failures of the service, or slow."""
SLOW_SECONDS: Final = 1.0
_MINUTE: Final = 60.0


class RequestLines:
    """Counts the lines of a minute; time is passed in, in seconds."""

    def __init__(self) -> None:
        self._until = float("-inf")
        self._left = {False: 0, True: 0}
        self._untold = 0

    def has_line(self, status: int, took: float, now: float) -> bool:
        """Whether the request that was answered just now, after so many seconds, gets a line."""
        if now >= self._until:
            self._until = now + _MINUTE
            self._left = {False: A_MINUTE, True: NOTEWORTHY_A_MINUTE}
        noteworthy = status >= 500 or took >= SLOW_SECONDS
        if not self._left[noteworthy]:
            self._untold += 1
            return False
        self._left[noteworthy] -= 1
        return True

    def untold(self, now: float) -> int:
        """How many requests got no line in the minute that is over; 0 while the minute lasts, and once the number was
        returned.
        """
        if not self._untold or now < self._until:
            return 0
        told, self._untold = self._untold, 0
        return told
