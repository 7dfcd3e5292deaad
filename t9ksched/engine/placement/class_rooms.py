"""How many pods of a class fit on each node, kept while room is taken: after a few placements only the nodes that were
touched are looked at again.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.nodes import LARGEST

if TYPE_CHECKING:
    from t9ksched.engine.placement.class_fit import ClassFit

_COSTS_AS_MUCH: Final = 4
"""To look at one node among others costs as much as at so many in one sweep."""


class ClassRooms:
    """The rooms of one class, on all nodes whatever the scope of the trial."""

    def __init__(self, column: "ClassFit") -> None:
        self._column = column
        self._now: Int64s | None = None
        self._seen = 0

    def drop(self) -> None:
        """Give the array back."""
        self._now = None

    def now(self) -> Int64s:
        """On each node now, shape (nodes,); never written to again."""
        column, touched = self._column, self._column.trial.touched
        fresh = len(touched) - self._seen
        self._seen = len(touched)
        if self._now is None or fresh * _COSTS_AS_MUCH > len(self._now):
            found = self.on(column.trial.free, column.mask)
            for row in np.flatnonzero(found).tolist() if column.ports else ():
                if column.ports_taken(row):
                    found[row] = 0
            self._now = found
        elif fresh:
            rows = np.array(touched[-fresh:], np.intp)
            self._now = self._now.copy()
            self._now[rows] = self._at(rows)
            column.trial.meter.spent += len(self._now)
        return self._now

    def on(self, free: Int64s, mask: Mask, *, empty: bool = False) -> Int64s:
        """On each node of the mask by these columns, shape (nodes,); host ports aside but for one pod a node. Shared
        volumes are where they are now, on `empty` nodes none.
        """
        column, size = self._column, free.shape[1]
        if not column.known:
            return np.zeros(size, np.int64)
        rooms = np.full(size, LARGEST, np.int64)
        for at, amount in column.needs:
            np.minimum(rooms, free[at] // amount, out=rooms)
        for parts in column.divided:
            np.minimum(rooms, parts.rooms(free), out=rooms)
        if column.volumes is not None:
            np.minimum(rooms, column.volumes.rooms(free, size, empty=empty), out=rooms)
        np.maximum(rooms, 0, out=rooms)
        column.trial.meter.spent += size * (1 + len(column.needs))
        rooms[~mask] = 0
        if column.ports:
            np.minimum(rooms, 1, out=rooms)
        return rooms

    def _at(self, rows: Indices) -> Int64s:
        """On some nodes now, shape (rows,)."""
        column, free = self._column, self._column.trial.free
        rooms = np.where(column.mask[rows], LARGEST if column.known else 0, 0)
        for at, amount in column.needs:
            np.minimum(rooms, free[at][rows] // amount, out=rooms)
        for parts in column.divided:
            np.minimum(rooms, parts.rooms_of(free[:, rows], rows), out=rooms)
        if column.volumes is not None:
            np.minimum(rooms, column.volumes.rooms_of(free, rows), out=rooms)
        np.maximum(rooms, 0, out=rooms)
        for at in np.flatnonzero(rooms).tolist() if column.ports else ():
            rooms[at] = 0 if column.ports_taken(int(rows[at])) else 1
        return rooms

    def one(self, row: int) -> int:
        """On one node now."""
        column, free = self._column, self._column.trial.free
        if not column.known or not column.mask[row]:
            return 0
        left = free[:, row].tolist()
        room = LARGEST
        for parts in column.divided:
            if parts.on(row):
                room = min(room, parts.room(free[:, row], row))
        for at, amount in column.needs:
            fit = left[at] // amount
            if fit < room:
                room = fit
        if column.volumes is not None:
            room = min(room, column.volumes.room(left, row))
        if room <= 0:
            return 0
        if column.ports:
            return 0 if column.ports_taken(row) else 1
        return room
