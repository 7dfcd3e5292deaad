"""An event loop that handles several answers at once while many are awaited. The answers to sixty-four bindings in
flight arrive one by one, and so do the watch events about them. Waking up for each costs more than handling it, and
takes a shared processor from the server that is to send the next. So while it is `paced` the loop waits a moment before
it polls, and then finds several. Work that is ready never waits.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_SHARE: Final = 1 / 8
"""The pause as a part of the time that an answer takes: an answer seems only so much slower, and an eighth of those in
flight arrives at once.
"""
LONGEST_SECONDS: Final = 0.01


class _PacedSelector(selectors.DefaultSelector):
    """Polls at most once in `pace` seconds, unless asked not to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pace = 0.0
        self._looked = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors.BaseSelector."""
        if not self.pace or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        pause = self._looked + self.pace - time.monotonic()
        if timeout is not None:
            pause = min(pause, timeout)
        if pause > 0:
            time.sleep(pause)
            timeout = None if timeout is None else timeout - pause
        found = super().select(timeout)
        self._looked = time.monotonic()
        return found


class PacedLoop(asyncio.SelectorEventLoop):
    """The standard loop, with a `pace`: seconds between two polls, 0 for none."""

    def __init__(self) -> None:
        self._paced_selector = _PacedSelector()
        super().__init__(self._paced_selector)

    @property
    def pace(self) -> float:
        """Seconds between two polls."""
        return self._paced_selector.pace

    @pace.setter
    def pace(self, seconds: float) -> None:
        self._paced_selector.pace = seconds


def pace(answer_seconds: float) -> None:
    """Let the running loop gather what comes, if it can, while answers take that long; 0 for no longer."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, PacedLoop):
        loop.pace = min(LONGEST_SECONDS, answer_seconds * _SHARE)


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on such a loop."""
    with asyncio.Runner(loop_factory=PacedLoop) as runner:
        return runner.run(main)
