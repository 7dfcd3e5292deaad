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
_STRIDE: Final = 77
"""How much further on the next value that is looked at first stands in its part: the usual distances have no factor in
common with it.
"""
_A_VALUE: Final = 30
"""Units of work to part a value, and to sort it."""


def sorted_in_slices(values: Sequence[T], key: Callable[[T], Any], meter: Meter) -> Work[list[T]]:
    """As `sorted`: first parted by some of the keys, then each part for itself, parted again where it is large."""
    some = sorted(map(key, _some(values, _SLICE // _SAMPLES)))
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
        if 2 * _SLICE < len(part) < len(values):
            part = yield from sorted_in_slices(part, key, meter)
        else:
            part.sort(key=key)
            meter.spent += _A_VALUE * len(part)
        found += part
        yield
    return found


def _some(values: Sequence[T], each: int) -> list[T]:
    """One of so many values each, not always the same one of them: names that were counted up have a rhythm."""
    found = []
    for nth, first in enumerate(range(0, len(values), each)):
        at = first + nth * _STRIDE % each
        found.append(values[min(at, len(values) - 1)])
    return found
