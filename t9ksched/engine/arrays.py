"""The arrays of the engine: one column of whole numbers, flags or card masks a node, a pod or a group."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
