"""What an event loop waits for that is not its own work, and where it is when it holds on for too long.

On a machine with other programs time on the clock counts their work too. Linux tells how long a thread that was ready
to run waited for a processor; what is left of a delay without that is what the program itself took, or rested.
"""

import asyncio
import os
import sys
import threading
import time
import traceback
from collections import Counter
from types import FrameType
from typing import Final

_LOOK_SECONDS: Final = 0.002
"""How often it is looked where the loop is."""
_FRAMES: Final = 14
"""So many of the innermost frames are told."""


_LONGEST: Final = 100
"""Bytes of what the system tells of a thread."""
_told = threading.local()


def waited() -> float:
    """Seconds in which this thread was ready and had no processor, since it began; 0.0 where the system does not tell.

    It is asked a hundred times a second and more: the file stays open.
    """
    try:
        if not hasattr(_told, "file"):
            _told.file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        told = os.pread(_told.file, _LONGEST, 0)
    except OSError:
        return 0.0
    return int(told.split()[1]) / 1e9


class HeldLoop:
    """Notes where the event loop was when it had worked for longer than `seconds` of its thread's CPU time without a
    turn for others; from `start`, which the loop's own thread calls, to `stop`. To watch costs CPU itself.
    """

    def __init__(self, seconds: float) -> None:
        self.places: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        """By place: the longest time, in seconds, that the loop was held there."""
        self._most = seconds
        self._turn = 0.0
        self._task: asyncio.Task[None] | None = None
        self._ends = threading.Event()

    def start(self) -> None:
        self._turn = time.thread_time()
        self._task = asyncio.create_task(self._turns())
        clock, thread = time.pthread_getcpuclockid(threading.get_ident()), threading.get_ident()
        threading.Thread(target=self._look, args=(clock, thread), daemon=True).start()

    def stop(self) -> list[str]:
        """Ends it; the places, the one that held longest first, with how often each was seen."""
        self._ends.set()
        if self._task is not None:
            self._task.cancel()
        most = sorted(self.longest, key=self.longest.__getitem__, reverse=True)[:20]
        return [f"{self.places[place]} x, up to {1e3 * self.longest[place]:.0f} ms\n{place}" for place in most]

    async def _turns(self) -> None:
        while True:
            self._turn = time.thread_time()
            await asyncio.sleep(_LOOK_SECONDS)

    def _look(self, clock: int, thread: int) -> None:
        seen, place = -1.0, ""
        while not self._ends.wait(_LOOK_SECONDS):
            turn = self._turn
            if (held := time.clock_gettime(clock) - turn) <= self._most:
                continue
            if turn != seen:
                seen, place = turn, _place(sys._current_frames()[thread])  # once a turn
                self.places[place] += 1
            self.longest[place] = max(held, self.longest.get(place, 0.0))


def _place(frame: FrameType) -> str:
    lines = [
        f"  {one.filename.rpartition('t9ksched/')[2]}:{one.lineno} {one.name}"
        for one in traceback.extract_stack(frame)[-_FRAMES:]
    ]
    return "\n".join(lines)
