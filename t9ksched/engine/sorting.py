"""Sorting in slices."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from t9ksched.engine.work import Meter, Work

T = TypeVar("T")
_SLICE: Final = 2048
"""So many values are parted at a time, and a part that is sorted at once has about as many."""
_SAMPLES: Final = 16
"""So many values a part are looked at first, to find where it ends."""
_A_VALUE: Final = 30
"""Units of work to part a value, and to sort it."""


def sorted_in_slices(values: Sequence[T], key: Callable[[T], Any], meter: Meter) -> Work[list[T]]:
    """As `sorted`: first parted by some of the keys, then each part for itself."""
    some = sorted(map(key, values[:: _SLICE // _SAMPLES]))
    bounds = some[_SAMPLES::_SAMPLES]
    parts: list[list[T]] = [[] for _ in range(len(bounds) + 1)]
    for first in range(0, len(values), _SLICE):
        those = values[first : first + _SLICE]
        for one in those:
            parts[bisect_right(bounds, key(one))].append(one)
        meter.spent += _A_VALUE * len(those)
        yield
    found: list[T] = []
    for part in parts:
        part.sort(key=key)
        found += part
        meter.spent += _A_VALUE * len(part)
        yield
    return found
