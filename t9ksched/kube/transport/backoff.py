"""How long to wait before trying again: longer each time, never in step with others.

The pause doubles from `base` up to `most` seconds, each drawn evenly from the upper half of its range ("equal
jitter"), so that it never vanishes and many clients do not come back together. The random source is injected.
"""

from __future__ import annotations

from random import Random


class Backoff:
    """The pauses of one series of attempts, in seconds."""

    def __init__(self, random: Random, *, base: float = 0.2, most: float = 30.0) -> None:
        self._random = random
        self._base = base
        self._most = most
        self._failures = 0

    def next(self, at_least: float | None = None) -> float:
        """The pause after one more failure; not below `at_least`, what the server asked for."""
        ceiling = min(self._base * 2.0 ** min(self._failures, 30), self._most)
        self._failures += 1
        return max(ceiling * (0.5 + 0.5 * self._random.random()), at_least or 0.0)

    def least(self) -> float:
        """The smallest pause, without counting a failure."""
        return self._base * (0.5 + 0.5 * self._random.random())

    def reset(self) -> None:
        """It worked: begin anew at the next failure."""
        self._failures = 0
