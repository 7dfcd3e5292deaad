"""Running groups by position, without a copy of all of them for each cycle.

A column has positions in a list that it shares with those that follow it. That list is only added to, so that a column
which was handed out stays as it is; once half of it is of groups that have gone, the next column has one of its own.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, overload

import numpy as np

from t9ksched.engine.arrays import Indices, Mask
from t9ksched.model.gang import Running

_UNUSED: Final = 256
"""So many groups more than twice those of a column the list that it shares may have."""


class GroupColumn(Sequence[Running]):
    """Groups in the order of their UIDs."""

    __slots__ = ("_at", "_shared")

    def __init__(self, shared: list[Running], at: Indices | None = None) -> None:
        """The groups at these positions of a list that nobody else writes to; all of it without positions."""
        self._shared = shared
        self._at: Indices = np.arange(len(shared)) if at is None else at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, at: int) -> Running: ...

    @overload
    def __getitem__(self, at: slice) -> list[Running]: ...

    def __getitem__(self, at: int | slice) -> Running | list[Running]:
        if isinstance(at, slice):
            return [self._shared[one] for one in self._at[at].tolist()]
        return self._shared[int(self._at[at])]

    def place(self, uid: str) -> int:
        """The position of the group with this UID, or where it would stand."""
        shared, at = self._shared, self._at
        return bisect_left(range(len(at)), uid, key=lambda nth: shared[int(at[nth])].uid)

    def only(self, stays: Mask) -> "GroupColumn":
        """Those of the groups that stay, one flag a group."""
        return GroupColumn(self._shared, self._at[stays])

    def followed(self, stays: Mask, came: Sequence[Running], before: Indices) -> "GroupColumn":
        """Those that stay and those that came, which stand before these of the others, in their order."""
        first = len(self._shared)
        self._shared += came
        at = np.insert(self._at[stays], before, np.arange(first, len(self._shared)))
        if len(self._shared) > _UNUSED + 2 * len(at):
            return GroupColumn([self._shared[one] for one in at.tolist()])
        return GroupColumn(self._shared, at)
