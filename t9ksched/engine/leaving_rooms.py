"""Room that pods are leaving and that is promised to gangs, on the timeline of planned starts.

Until the pods are gone the columns of free room lack this room twice: the pods hold it, and it is reserved for the
gangs. Only one of the two has it at any moment, so that the larger of both amounts is lacking on a node, resource by
resource. A plan that had its room before the eviction has it afterwards, however long the pods take.

What pods leave beyond what is promised there comes free when they are gone, or at the end of their gang.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s
from t9ksched.engine.blocks import NEVER_ENDS, Room
from t9ksched.engine.changes import Changes, joined
from t9ksched.engine.timeline import Timeline
from t9ksched.engine.victims.victim_search import VictimSearch


class _Until(NamedTuple):
    """Room of one node that is held until a moment, or `NEVER_ENDS`; amounts by resource."""

    end: int
    amounts: Int64s


class LeavingRooms:
    """What counts once of the room that is left and promised.

    Args:
        ends: when gangs give their room back, by UID; others are never expected to.
        overdue: the moment at which an end is expected that should have come.
    """

    def __init__(self, timeline: Timeline, ends: Mapping[str, int], now: int, overdue: int) -> None:
        self._timeline = timeline
        self._ends = ends
        self._now = now
        self._overdue = overdue
        self._victims: VictimSearch | None = None
        self._promised: defaultdict[int, dict[str, tuple[int, _Until]]] = defaultdict(dict)
        """By row of the node and UID of the owner: when the pods have left at the latest, and what is promised."""
        self._rows: dict[str, Indices] = {}
        """The nodes on which room is promised to a gang, by its UID."""
        self._known: dict[int, tuple[Int64s, Int64s]] = {}
        """The changes on each node, by row: moments and amounts, shape (resources, changes)."""

    def follow(self, victims: VictimSearch) -> None:
        """These pods are leaving: before anything is promised."""
        self._victims = victims

    def promise(self, owner: str, latest: int, end: int, room: Room) -> None:
        """Room is promised to a gang, which has it at that moment at the latest, and until `end`."""
        for nth, row in enumerate(room.rows.tolist()):
            self._promised[row][owner] = latest, _Until(end, room.amounts[:, nth])
        self._rows[owner] = room.rows
        self._count(room.rows)

    def withdraw(self, owner: str) -> None:
        """Nothing is promised to the gang any more, or it is its turn, and the room is taken off the columns once."""
        rows = self._rows.pop(owner, None)
        if rows is not None:
            for row in rows.tolist():
                del self._promised[row][owner]
            self._count(rows)

    def once(self, row: int) -> Int64s | int:
        """What the column of a node lacks twice at present, by resource."""
        known = self._known.get(row)
        return 0 if known is None else known[1][:, 0]

    def _count(self, rows: Indices) -> None:
        """Say anew what counts once on these nodes."""
        for row in rows.tolist():
            self._known.pop(row, None)
        if self._victims is not None:
            left: defaultdict[int, list[_Until]] = defaultdict(list)
            for gang, row, amounts in self._victims.going(rows):
                end = self._ends.get(gang, NEVER_ENDS)
                left[row].append(_Until(end if end > self._now else self._overdue, amounts))
            for row, pods in left.items():
                if promised := self._promised[row].values():
                    latest = [at for at, _ in promised if at > self._now]
                    self._known[row] = self._smaller(pods, [one for _, one in promised], latest)
        self._timeline.count_once(self._changes())

    def _smaller(
        self, left: Sequence[_Until], promised: Sequence[_Until], latest: Sequence[int]
    ) -> tuple[Int64s, Int64s]:
        """How the smaller of both amounts changes, from nothing before now; at the moments `latest` too, at which
        others may start instead of those that leave.
        """
        ends = {one.end for one in (*left, *promised)} - {NEVER_ENDS}
        moments = [self._now, *sorted(ends.union(latest))]
        none = np.zeros_like(left[0].amounts)
        values = [
            np.minimum(
                sum((one.amounts for one in left if one.end > at), none),
                sum((one.amounts for one in promised if one.end > at), none),
            )
            for at in moments
        ]
        return np.array(moments, np.int64), np.diff(np.array([none, *values]), axis=0).T

    def _changes(self) -> Changes | None:
        if not self._known:
            return None
        parts = [(at, np.full(len(at), row, np.intp), amounts) for row, (at, amounts) in sorted(self._known.items())]
        return joined(len(parts[0][2]), parts)
