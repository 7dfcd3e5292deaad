"""The garbage collector while a service runs.

Nearly all garbage of a service goes without the collector, which finds none in it while thousands of pods come and are
bound. What it walks then is what came, and lives for long: a full collection takes half a second with 140,000 pods, a
walk over 50,000 young objects up to 40 ms, in which nothing else goes on. So it never comes by itself. What was read at
the start is taken out of its sight, and so is later what survived one or two collections; `tidy` makes one a second,
between other work. If more came in that second than can be walked in a moment, that is taken out of sight at once.

What is missed by all of this is little. Once the process needs half as much memory again as after the last full
collection, `tidy` makes another.
"""

import asyncio
import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import structlog

log = structlog.get_logger(__name__)

SELDOM: Final = (500_000, 0, 1 << 30)
"""Objects made between collections that come by themselves: more than come in the second between two by `tidy`, unless
something is wrong with these.
"""
_MANY: Final = 10_000
"""So many young objects are walked in 5 ms; if there are more, they are left out unseen."""
_TURNS: Final = 3600
"""Between two full collections `tidy` is called so often at least."""
_GROWN: Final = 1.5
"""So many times the memory that the process had after a full collection it may have before the next."""
_PATIENCE_SECONDS: Final = 0.5
"""So long a collection is put off while a cycle is carried out."""


class Heap:
    """The collector in the hands of a service, from `reading` until `end`; `rests` is set between two cycles."""

    def __init__(self, rests: asyncio.Event) -> None:
        self._rests = rests
        self._before: tuple[int, int, int] | None = None
        """The thresholds of the process before the service had it."""
        self._peak = 0
        """The most memory that the process had had when the last full collection was made."""
        self._turns = 0
        """How often `tidy` was called since."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """No collections in the block; afterwards what is there is left out of those to come, which `tidy` makes."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            self._before = self._before or gc.get_threshold()
            gc.set_threshold(*SELDOM)
            self._leave_out()
            if was_enabled:
                gc.enable()

    def end(self) -> None:
        """The process has its collector back; what was left out, by others too, stays so."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None

    async def tidy(self) -> None:
        """Collect the young garbage, and all of it if the process has grown by so much that it may be worth that;
        housekeeping calls it once a second.

        It waits a moment for the end of a cycle: what that needs is gone then, and the collection is not the same piece
        of work as a part of it.
        """
        if self._before is None or not gc.isenabled():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._rests.wait()
        self._turns += 1
        if self._turns >= _TURNS and _peak() > _GROWN * self._peak:
            gc.unfreeze()
            found = gc.collect()
            self._leave_out()
            log.info("garbage was collected, because the process had grown", found=found)
        elif gc.get_count()[0] > _MANY:
            gc.freeze()
        elif self._turns % 2:
            gc.collect(0)
        else:
            gc.collect(1)
            gc.freeze()

    def _leave_out(self) -> None:
        """What is there is left out, and full collections count from now."""
        gc.freeze()
        self._peak, self._turns = _peak(), 0


def _peak() -> int:
    """The most memory that the process has had, in units of the platform."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
