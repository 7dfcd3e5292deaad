"""Places of requests in flight: so many at the most, and the others wait in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque


class Places:
    """So many places. A semaphore whose usual case costs no call: who finds one `free` takes one off, and does not
    `wait`. Each place taken is given back by `leave`.

    Attributes:
        free: places that nobody has; while somebody waits there are none.
    """

    def __init__(self, most: int) -> None:
        self.free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Take a place, once there is one."""
        if self.free:
            self.free -= 1
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():  # it was given one in the same moment
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back: it is the next one's who waits."""
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():
                given.set_result(None)
                return
        self.free += 1
