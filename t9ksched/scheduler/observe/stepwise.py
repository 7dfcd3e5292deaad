"""Work that an event of a watch causes on many nodes, done a few milliseconds at a time between other work."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator


class Stepwise:
    """One piece of work after the other, in the order in which they began. `after` is called after each step."""

    def __init__(self, after: Callable[[], None]) -> None:
        self._after = after
        self._waiting: deque[Iterator[None]] = deque()
        self._something = asyncio.Event()

    def begin(self, work: Iterator[None]) -> None:
        """Do this too, each time as far as it yields."""
        self._waiting.append(work)
        self._something.set()

    async def run(self) -> None:
        """Do what there is, until cancelled. An error in it ends this."""
        while True:
            await self._something.wait()
            while self._waiting:
                if next(self._waiting[0], self) is self:
                    self._waiting.popleft()
                self._after()
                await asyncio.sleep(0)
            self._something.clear()
