"""An event loop that takes many answers at once while many are awaited.

Sixty-four bindings in flight come back one by one, and so do the watch's words about them. Waking up for each costs
more than the answer itself, and takes a shared processor from the very server that is to give the next. So while it is
`paced` the loop waits a moment before it looks what came, and then finds several. Work that is ready never waits.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
PACE_SECONDS: Final = 0.003
"""Little beside the answer time of a server under load, and enough for about ten answers a look."""


class _PacedSelector(selectors.DefaultSelector):
    """Looks at most once in `PACE_SECONDS` while `paced`, unless asked not to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.paced = False
        self._looked = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors.BaseSelector."""
        if not self.paced or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        pause = self._looked + PACE_SECONDS - time.monotonic()
        if timeout is not None:
            pause = min(pause, timeout)
        if pause > 0:
            time.sleep(pause)
            timeout = None if timeout is None else timeout - pause
        found = super().select(timeout)
        self._looked = time.monotonic()
        return found


class PacedLoop(asyncio.SelectorEventLoop):
    """The standard loop, with a switch `paced`."""

    def __init__(self) -> None:
        self._paced_selector = _PacedSelector()
        super().__init__(self._paced_selector)

    @property
    def paced(self) -> bool:
        """Whether it gathers what comes."""
        return self._paced_selector.paced

    @paced.setter
    def paced(self, on: bool) -> None:
        self._paced_selector.paced = on


def pace(on: bool) -> None:
    """Let the running loop gather what comes, if it can."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, PacedLoop):
        loop.paced = on


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on such a loop."""
    with asyncio.Runner(loop_factory=PacedLoop) as runner:
        return runner.run(main)
