"""From which moments on a gang may start, by numbers that change over time."""

from collections.abc import Sequence

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask, distinct
from t9ksched.engine.blocks import NEVER_ENDS
from t9ksched.engine.steps import Steps


def may_open(supply: Steps, pods: int, lasts: int, before: int) -> Int64s:
    """The moments before that one at which something changes and from which so many pods may fit for `lasts` (or for
    ever when that is 0); sorted. Also those from which it depends on what the supply is from then on.
    """
    at, fit = supply
    at = at[: np.searchsorted(at, before)]
    holds = fit[: len(at)] >= pods
    found = at[holds]
    if not len(found):
        return found
    ends = np.append(at[~holds], NEVER_ENDS)
    ends = ends[np.searchsorted(ends, found)]
    opened: Int64s = found[ends - found >= lasts if lasts else ends == NEVER_ENDS]
    return opened


def openings(conditions: Sequence[tuple[Int64s, Mask]], lasts: int | Steps) -> Int64s:
    """The moments at which something changes and from which every condition holds for `lasts`, or for ever when that
    is 0; sorted. A condition has moments, sorted, and whether it holds from each of them on; all begin with now. Steps
    as `lasts` say until when it is to hold from which moments on.
    """
    moments = conditions[0][0] if len(conditions) == 1 else distinct(np.concatenate([at for at, _ in conditions]))
    holds = np.ones(len(moments), np.bool_)
    for at, held in conditions:
        holds &= held[np.searchsorted(at, moments, side="right") - 1]
    ends = np.append(moments[~holds], NEVER_ENDS)
    found = moments[holds]
    ends = ends[np.searchsorted(ends, found)]
    if isinstance(lasts, int):
        enough = ends - found >= lasts if lasts else ends == NEVER_ENDS
    else:
        at, until = lasts
        enough = ends >= until[np.searchsorted(at, found, side="right") - 1]
    opened: Int64s = found[enough]
    return opened
