"""The garbage collector while a large cluster is read.

Each full collection walks everything there is, and reading 140,000 pods would set off several: half a second each in
which nothing else goes on. What was read lives as long as the process, so it is taken out of the collector's sight.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LARGE: Final = 10_000
"""Objects from which on freezing pays; below, the heap stays as it is."""

_CALM: Final = (50_000, 20, 20)
"""Objects made between collections: the usual 700 cost a tenth of the time of binding, and find next to nothing."""


@contextmanager
def reading(size: Callable[[], int]) -> Iterator[None]:
    """No collections in the block; afterwards what is there is left out of later ones, if `size()` is large."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if size() >= LARGE:
            gc.freeze()
        gc.set_threshold(*_CALM)
        if was_enabled:
            gc.enable()
