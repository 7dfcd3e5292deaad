"""The arrays of the engine: one column of whole numbers, flags or card masks a node, a pod or a group."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

N = TypeVar("N", bound=np.integer)

Int64s = NDArray[np.int64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Masks = NDArray[np.uint64]
"""Cards by index: one bit a card."""


class There(NamedTuple):
    """Room that there would be on some nodes.

    Attributes:
        rows, free: the nodes, and what would be free there, shape (resources, rows): no less than is.
    """

    rows: Indices
    free: Int64s


def distinct(values: NDArray[N]) -> NDArray[N]:
    """Each value once, in order. The function of numpy imports modules when it is first called, for 50 ms and more."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    found: NDArray[N] = ordered[first]
    return found
