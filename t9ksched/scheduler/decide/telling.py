"""Records after each plan why gangs wait, at a cost that follows what changed.

Of thousands that wait nearly all are told the same by one plan after the other: those are passed over many at a time.
Where nothing but numbers is another, as the most that is free on a node of a busy cluster, that is recorded every two
seconds.
"""

import asyncio
from typing import Final

from t9ksched.engine.plan import Waiting
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.progress import of_a_kind
from t9ksched.scheduler.state.state import ClusterState

_A_SLICE: Final = 200
"""Groups that get their reason before other tasks run."""
NUMBERS_SECONDS: Final = 2.0
"""Seconds from one time at which other numbers are recorded to the next."""


class Telling:
    """What was recorded of the latest plan.

    Attributes:
        due: the time of the event loop at which other numbers are to be recorded that were put off; None if none were.
    """

    def __init__(self, state: ClusterState, recorder: HistoryRecorder) -> None:
        self._state = state
        self._recorder = recorder
        self.due: float | None = None
        self._numbers_at = float("-inf")
        self._told: tuple[Waiting, ...] = ()
        self._elsewhere = 0
        """How often gangs had been given reasons by others when `_told` was true."""

    def forget(self) -> None:
        """Gangs were told something else."""
        self._told = ()

    async def tell(self, told: tuple[Waiting, ...], now: int) -> None:
        """Record these, a slice at a time; `now` is in nanoseconds since the epoch."""
        time = asyncio.get_running_loop().time()
        numbers = time >= self._numbers_at + NUMBERS_SECONDS
        elsewhere = self._state.waiting_gangs.told_elsewhere
        before = self._told if elsewhere == self._elsewhere else ()
        kept: list[Waiting] = []
        self._told, self._elsewhere, self.due = (), elsewhere, None
        for first in range(0, len(told), _A_SLICE):
            some, known = told[first : first + _A_SLICE], before[first : first + _A_SLICE]
            if some == known:
                kept += known
                continue
            if numbers:
                self._numbers_at = time
            for at, waiting in enumerate(some):
                one = known[at] if at < len(known) else None
                if one is waiting:
                    kept.append(one)
                elif not numbers and one and one.gang == waiting.gang and of_a_kind(one.reasons, waiting.reasons):
                    self.due = self._numbers_at + NUMBERS_SECONDS
                    kept.append(one)
                else:
                    self._recorder.waits(waiting.gang, waiting.reasons, waiting.position or None, now)
                    kept.append(waiting)
            await asyncio.sleep(0)
        self._told = tuple(kept)
