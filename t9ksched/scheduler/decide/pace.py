"""How soon a cycle follows the one before.

After a quiet time a cycle begins as soon as the changes that came together are gathered. Where changes never end, one
cycle right after the other would take a whole core, and each would find little new: then the loop rests after a cycle
for a multiple of its length, so that deciding takes about a ninth of a core, and a change waits a moment longer.
"""

from typing import Final

import msgspec

GATHER_SECONDS: Final = 0.005
"""How long to wait for further changes after the first: a job's pods come one by one."""
REST: Final = 8.0
"""Seconds of rest for each second of the last cycle …"""
LONGEST_REST_SECONDS: Final = 0.06
"""… up to this."""


class Pace(msgspec.Struct):
    """When cycles were, on a clock in seconds that only grows."""

    _rested: float = float("-inf")

    def pause(self, now: float) -> float:
        """Seconds from a change until its cycle begins."""
        return max(GATHER_SECONDS, self._rested - now)

    def cycle(self, began: float, ended: float) -> None:
        """A cycle was carried out."""
        self._rested = ended + min(REST * (ended - began), LONGEST_REST_SECONDS)
