"""Things to do at a later time, all on one heap with one alarm of the event loop.

Time is a callable that gives seconds since the epoch, so that tests and fault histories can run on virtual time. A key
has at most one time; setting it again moves it. Nothing runs while nothing is due.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Hashable
from datetime import UTC, datetime

Clock = Callable[[], float]
"""Seconds since the epoch."""

system_clock: Clock = time.time


class Timers:
    """Calls back at given times, in order of time. Use from within a running event loop."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Hashable]] = []
        self._current: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._number = 0
        self._alarm: asyncio.TimerHandle | None = None

    def at(self, when: float, key: Hashable, action: Callable[[], None]) -> None:
        """Call `action` once at `when` (seconds since the epoch), instead of what was set for `key` before."""
        self._number += 1
        self._current[key] = (self._number, action)
        heapq.heappush(self._heap, (when, self._number, key))
        if self._heap[0][1] == self._number:
            self._arm()

    def cancel(self, key: Hashable) -> None:
        """Forget what was set for `key`."""
        self._current.pop(key, None)

    def fire(self) -> None:
        """Do what is due, and set the alarm for the rest."""
        now = self.clock()
        while self._heap and self._heap[0][0] <= now:
            _, number, key = heapq.heappop(self._heap)
            current = self._current.get(key)
            if current is not None and current[0] == number:
                del self._current[key]
                current[1]()
        self._arm()

    def stop(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._current.clear()
        self._arm()

    def _arm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._heap and self._current.get(self._heap[0][2], (0,))[0] != self._heap[0][1]:
            heapq.heappop(self._heap)  # moved or cancelled meanwhile
        if self._heap:
            delay = max(0.0, self._heap[0][0] - self.clock())
            self._alarm = asyncio.get_running_loop().call_later(min(delay, 86_400.0), self.fire)


def to_seconds(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time, None for none or one that cannot be read."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def to_text(seconds: float) -> str:
    """A time as Kubernetes writes it: RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
