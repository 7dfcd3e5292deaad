"""The garbage collector while a command is loaded.

Modules, tables and routes are 200,000 objects that stay as long as the process. At the interpreter's own thresholds
they are walked some twenty times while they are made, a third of the CPU time of a start; later each full collection
takes 0.1 s, in which nothing else runs, and one large request makes enough objects to set that off.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from t9ksched.cli.lateparts import late

_CALM: Final = (50_000, 20, 20)
"""Objects made between collections of the young, and how many of these between collections of the older ones."""


@contextmanager
def loading() -> Iterator[None]:
    """No collections in the block, which imports; afterwards what is there is left out of later ones, which are fewer.
    Parts of libraries that are not needed yet are left out (`lateparts.py`).

    Nothing is collected at the end: the garbage of imports is little, and to look for it takes 0.2 s.
    """
    gc.disable()
    try:
        with late():
            yield
    finally:
        settle()
        gc.set_threshold(*_CALM)
        gc.enable()


def settle() -> None:
    """Leave out of later collections what is there now."""
    gc.freeze()
