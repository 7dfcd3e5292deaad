"""A queue of keys to look at: each key at most once in it, at most one worker on a key, failures with growing pauses.

A key that is worked on and comes again is looked at once more afterwards. Between two looks at one key lies a short
rest, in which a burst of events becomes one look.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Cancellable(Protocol):
    """A timer that has been set."""

    def cancel(self) -> None: ...


class WorkQueue(Generic[Key]):
    """The queue. At least `rest` seconds lie between two looks at a key; `first` to `most` is the pause after failures.

    `call_later(seconds, callback)` sets timers; the running loop's own if it is None.
    """

    def __init__(
        self,
        *,
        rest: float = 0.1,
        first: float = 0.2,
        most: float = 60.0,
        call_later: Callable[[float, Callable[[], None]], Cancellable] | None = None,
    ) -> None:
        self._rest, self._first, self._most = rest, first, most
        self._call_later = call_later
        self._ready: deque[Key] = deque()
        self._queued: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, Cancellable] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def failing(self) -> int:
        """Keys whose last look failed."""
        return len(self._failures)

    @property
    def idle(self) -> bool:
        """Whether no key is waiting, being worked on or resting; timers of the future do not count."""
        return not (self._ready or self._busy)

    def add(self, key: Key) -> None:
        """Look at this key soon."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at this key in a while; a later call replaces an earlier one."""
        self.cancel_timer(key)
        self._timers[key] = self._later(max(0.0, seconds), lambda: self._ring(key))

    def add_failed(self, key: Key, most: float | None = None) -> float:
        """Look at this key again after a pause that doubles with each failure, to `most` seconds; returns the pause."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(self._most if most is None else most, self._first * 2.0 ** min(failures, 30))
        self.add_after(key, pause)
        return pause

    def succeeded(self, key: Key) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """The key's object is gone: no timer shall bring it back."""
        self.succeeded(key)
        self.cancel_timer(key)

    def cancel_timer(self, key: Key) -> None:
        """Do not look at the key again for time alone."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def get(self) -> Key:
        """The next key; it is the caller's alone until `done`."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._queued.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: Key, rest: float = 0.0) -> None:
        """The caller has looked; the key rests before it can come again, `rest` seconds if that is longer."""
        self._later(max(rest, self._rest), lambda: self._rested(key))

    def _rested(self, key: Key) -> None:
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _ring(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _later(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        if self._call_later is not None:
            return self._call_later(seconds, callback)
        return asyncio.get_running_loop().call_later(seconds, callback)
