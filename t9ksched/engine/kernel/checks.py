"""Looks at what machine code is to read: it reads it without a look."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def machine(array: NDArray[Any], dtype: DTypeLike, *shape: int) -> None:
    """The array is a row of such numbers. Raises ValueError."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise ValueError(f"an array is {array.dtype} {array.shape}, in place of {np.dtype(dtype)} {shape} in one piece")


def inside(positions: Sequence[int], count: int) -> None:
    """All of these exist among so many. Raises ValueError."""
    if len(positions) and not 0 <= min(positions) <= max(positions) < count:
        raise ValueError(f"a position is not among {count}")


def address(array: NDArray[Any]) -> int:
    """Where the first number of an array is that is in one piece, found in less time than by `array.ctypes`."""
    if array.size and array.flags.writeable:
        buffer: Any = array
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    return array.ctypes.data
