"""The garbage collector while a large cluster is read, and afterwards.

Each full collection walks everything there is, and reading 140,000 pods would set off several: half a second each in
which nothing else goes on. What was read lives as long as the process, so it is taken out of the collector's sight.

So is later what survived one or two collections: the older objects are, the fewer of them are garbage, and nearly all
garbage goes without the collector. Each collection is short then, however long the process runs, and `tidy` makes one a
second, between other work: the fewer there are, the more each has to walk. What is missed by that is little; once the
process needs half as much memory again as after the last full collection, `tidy` makes another.
"""

import asyncio
import gc
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import structlog

log = structlog.get_logger(__name__)

LARGE: Final = 10_000
"""Objects from which on freezing pays; below, the heap stays as it is."""

CALM: Final = (50_000, 20, 20)
"""Objects made between collections: the usual 700 cost a tenth of the time of binding, and find next to nothing."""
_SELDOM: Final = (500_000, 0, 1 << 30)
"""The same of a large heap, where `tidy` collects: one that comes when it likes finds thousands of objects that
are gone in a moment, and takes up to 0.1 s.
"""
_TURNS: Final = 3600
"""Between two full collections `tidy` is called so often at least."""
_GROWN: Final = 1.5
"""So many times the memory that the process had after a full collection it may have before the next."""

_PATIENCE_SECONDS: Final = 0.5
"""So long a collection is put off while a cycle is carried out."""


@contextmanager
def reading(size: Callable[[], int]) -> Iterator[None]:
    """No collections in the block; afterwards what is there is left out of later ones, if `size()` is large."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if size() >= LARGE:
            _Old.begin()
        else:
            _Old.end()
        if was_enabled:
            gc.enable()


class _Old:
    """What survived one or two collections is left out of later ones."""

    peak = 0
    """The most memory that the process had had when the last full collection was made; 0 while nothing is left out."""
    turns = 0
    """How often `tidy` was called since."""

    @classmethod
    def begin(cls) -> None:
        """What is there is left out, and from now on what grows old."""
        gc.freeze()
        gc.set_threshold(*_SELDOM)
        cls.peak, cls.turns = _peak(), 0

    @classmethod
    def end(cls) -> None:
        """What grows old is no longer left out."""
        gc.set_threshold(*CALM)
        cls.peak = 0


async def tidy(rests: asyncio.Event | None = None) -> None:
    """Collect the young garbage of a large heap, and all of it if the process has grown by so much that it may be worth
    that; called by housekeeping once a second. It waits a moment for `rests`, which is set between two cycles: what a
    cycle needs is gone then, and the collection is not the same piece of work as a part of one.
    """
    if not _Old.peak or not gc.isenabled():
        return
    if rests is not None and not rests.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await rests.wait()
    _Old.turns += 1
    if _Old.turns >= _TURNS and _peak() > _GROWN * _Old.peak:
        gc.unfreeze()
        found = gc.collect()
        _Old.begin()
        log.info("garbage was collected, because the process had grown", found=found)
    elif _Old.turns % 2:
        gc.collect(0)
    else:
        gc.collect(1)
        gc.freeze()


def _peak() -> int:
    """The most memory that the process has had, in units of the platform."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
