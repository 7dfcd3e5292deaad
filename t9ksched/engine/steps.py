"""A number that changes over time, as moments and its value from each of them on."""

import numpy as np

from t9ksched.engine.arrays import Int64s

Steps = tuple[Int64s, Int64s]
"""A quantity that changes at moments, sorted, with its value from each of them on; the first moment is now."""


def steps_of(now: int, value: int, at: Int64s, gained: Int64s) -> Steps:
    """The steps of a value that changes by `gained` at these moments, in any order."""
    order = np.argsort(at, kind="stable")
    at, values = at[order], value + np.cumsum(gained[order])
    last = np.ones(len(at), np.bool_)
    np.not_equal(at[1:], at[:-1], out=last[:-1])
    at, values = at[last], values[last]
    if len(at) and at[0] <= now:
        return at, values
    return np.append(now, at), np.append(value, values)
