"""What the free room of a trial's nodes will be at later moments.

Two things change it: gangs end and give their room back, and planned starts take room and give it back at their own
end. All amounts are changes against the trial's present columns, so that placing a pod now changes nothing here but the
end that it is given. Times are nanoseconds since the epoch.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Placement
from t9ksched.model.gang import Gang
from t9ksched.model.reservation import Reservation

NEVER_ENDS: Final = 1 << 62
"""The end of what holds its room without a limit."""
_MOST: Final = np.iinfo(np.int64).max
Steps = tuple[Int64s, Int64s]
"""A quantity that changes at moments, sorted, with its value from each of them on; the first moment is now."""
Part = tuple[ClassFit, int, int]
"""Pods of a class on a node: the class, the row of the node, how many."""


class Room:
    """Room on nodes: `amounts[:, i]` is taken on the node of row `rows[i]`, which are distinct."""

    __slots__ = ("_demand", "_pods", "amounts", "rows")

    def __init__(self, parts: Sequence[Part]) -> None:
        """The room of pods, at least one."""
        self._pods = [(column.pod_class, pods) for column, _, pods in parts]
        """Their classes and numbers. Rooms outlive a cycle, so they hold no class column: it holds its whole trial."""
        self._demand: dict[str, int] | None = None
        if len(parts) == 1:
            ((column, row, pods),) = parts
            self.rows = np.array([row], np.intp)
            self.amounts: Int64s = (column.needs_vector * pods)[:, None]
            return
        by_row: dict[int, Int64s] = {}
        for column, row, pods in parts:
            by_row[row] = by_row.get(row, 0) + column.needs_vector * pods
        self.rows = np.array(list(by_row), np.intp)
        self.amounts = np.array(list(by_row.values())).T

    @classmethod
    def placed(cls, placements: Iterable[Placement]) -> "Room":
        """What placements take."""
        return cls([(placement.column, placement.row, placement.pods) for placement in placements])

    @property
    def demand(self) -> Mapping[str, int]:
        """What the pods ask for together, in units by resource."""
        if self._demand is None:
            self._demand = {}
            for pod_class, pods in self._pods:
                for resource, amount in pod_class.requests:
                    self._demand[resource] = self._demand.get(resource, 0) + amount * pods
        return self._demand


class Block:
    """The room of a planned start: reservations, one a pod, that begin at the same moment, and what they take.

    Attributes:
        owner, queue, rank: UID of the gang, its queue and the priority of that.
        at, until: when its gang starts, and when it ends at the latest.
        only: the class of all its pods, None where they are unlike.
        changes: moments, rows of nodes and amounts of what it takes and gives back, see `Changes`.
    """

    __slots__ = ("at", "changes", "only", "owner", "queue", "rank", "reserved", "room", "until")

    def __init__(self, reserved: tuple[Reservation, ...], room: Room) -> None:
        first, rows = reserved[0], room.rows
        self.reserved = reserved
        self.room = room
        self.owner, self.queue, self.rank, self.at = first.owner, first.queue, first.rank, first.since
        self.until = first.until or NEVER_ENDS
        self.only = first.pod_class if all(one.pod_class is first.pod_class for one in reserved) else None
        self.changes: Changes = (
            np.repeat(np.array([self.at, self.until], np.int64), len(rows)),
            np.concatenate([rows, rows]),
            np.concatenate([-room.amounts, room.amounts], axis=1),
        )


Changes = tuple[Int64s, Indices, Int64s]
"""Moment and row of the node of each change, and by how much the columns change, shape (resources, changes)."""


def end_of(gang: Gang, start: int) -> int:
    """When the gang ends at the latest if it starts then."""
    return start + gang.lasts if gang.lasts else NEVER_ENDS


class _Sorted:
    """Changes of the columns, sorted by row of the node, then by moment; at one moment room comes free first.

    Attributes:
        at, rows: one entry a change.
        sums: the change of the columns since now, after each entry, shape (resources, entries).
        first, nodes: index of the first entry of each node, and its row.
    """

    def __init__(self, changes: Changes) -> None:
        at, rows, amounts = changes
        taken = np.any(amounts < 0, axis=0)
        order = np.lexsort((taken, at, rows))
        self.at, self.rows = at[order], rows[order]
        sums = np.cumsum(amounts[:, order], axis=1)
        begins = np.ones(len(order), np.bool_)
        np.not_equal(self.rows[1:], self.rows[:-1], out=begins[1:])
        self.first = np.flatnonzero(begins)
        self.nodes = self.rows[self.first]
        before = np.zeros_like(sums)
        before[:, 1:] = sums[:, :-1]
        self.sums = sums - before[:, self.first[np.cumsum(begins) - 1]]

    def __len__(self) -> int:
        return len(self.at)

    def of(self, nodes: Mask) -> Changes:
        """The changes on these nodes."""
        chosen = np.flatnonzero(nodes[self.rows])
        amounts = np.diff(self.sums, axis=1, prepend=0)
        amounts[:, self.first] = self.sums[:, self.first]
        return self.at[chosen], self.rows[chosen], amounts[:, chosen]

    def lowest(self, start: int, until: int) -> Int64s:
        """The least sum at any moment from `start` to before `until` on each of `nodes`, shape (resources, nodes)."""
        done = np.where(self.at <= start, np.arange(len(self.at)), -1)
        last = np.maximum.reduceat(done, self.first)
        low = np.where(last >= 0, self.sums[:, last], 0)
        inside = (self.at > start) & (self.at < until)
        if inside.any():
            np.minimum(low, np.minimum.reduceat(np.where(inside, self.sums, _MOST), self.first, axis=1), out=low)
        return low

    def gained(self, column: ClassFit, free: Int64s, rooms: Int64s, but: Mask | None = None) -> Int64s:
        """How many more pods of the class fit after each entry than before it; `free` and `rooms` are those of now.

        Nodes of the mask `but` do not count.
        """
        after = np.full(len(self.at), _MOST)
        for resource, amount in column.needs:
            np.minimum(after, (free[resource, self.rows] + self.sums[resource]) // amount, out=after)
        np.clip(after, 0, 1 if column.ports else None, out=after)
        gained = np.empty_like(after)
        np.subtract(after[1:], after[:-1], out=gained[1:])
        gained[self.first] = after[self.first] - rooms[self.nodes]
        out = ~column.here[self.rows]
        if but is not None:
            out |= but[self.rows]
        gained[out] = 0
        return gained


class Timeline:
    """Ends and planned starts on the nodes of a trial.

    Args:
        shape: of the columns, (resources, nodes).
        ends: moment, queue and room of what gives its room back.

    Attributes:
        blocks: the planned starts on it, by UID of the owner.
    """

    def __init__(self, shape: tuple[int, ...], now: int, ends: Sequence[tuple[int, str, Room]]) -> None:
        self._shape = shape
        self._now = now
        self._queued = list(ends)
        self._ends = _Sorted(_joined(shape[0], [_end(at, room) for at, _, room in ends]))
        self._late: list[Changes] = []
        """Ends of what was placed since; with the blocks they are few, and the others are not sorted again for them."""
        self._mixed: tuple[_Sorted, Mask] | None = None
        """All changes on the nodes that blocks and late ends touch, and a mask of these."""
        self.blocks: dict[str, Block] = {}

    def gives_back(self, at: int, queue: str, room: Room) -> None:
        """The room comes free at a later moment, and the queue pays for it until then."""
        self._late.append(_end(at, room))
        self._queued.append((at, queue, room))
        self._mixed = None

    def take(self, block: Block) -> None:
        """A start is planned; its owner has no other one."""
        self.blocks[block.owner] = block
        self._mixed = None

    def drop(self, owner: str) -> None:
        """The start is planned no longer."""
        if self.blocks.pop(owner, None) is not None:
            self._mixed = None

    def lowest(self, start: int, until: int) -> Int64s | None:
        """The least change of the columns at any moment from `start` to before `until`, shape (resources, nodes).

        None where nothing changes until `start` and no start is planned.
        """
        if start <= self._now and not self.blocks:
            return None
        found = np.zeros(self._shape, np.int64)
        mixed, _ = self._on_touched_nodes()
        for changes in (self._ends, mixed) if start > self._now else (mixed,):
            if len(changes):
                found[:, changes.nodes] = changes.lowest(start, until)
        return found

    def supply(self, column: ClassFit, free: Int64s) -> Steps:
        """How many pods of the class fit at which moments; `free` are the present columns, and it looks at the nodes
        that the class may use now.
        """
        rooms = column.rooms(free)
        mixed, touched = self._on_touched_nodes()
        at = np.concatenate([self._ends.at, mixed.at])
        gained = [self._ends.gained(column, free, rooms, but=touched), mixed.gained(column, free, rooms)]
        return _steps(self._now, int(rooms.sum()), at, np.concatenate(gained))

    def paid(self, accounts: Mapping[str, Sequence[str]], account: str, resource: str, held: int) -> Steps:
        """What an account is charged of a resource at which moments; `held` is the charge of now.

        `accounts` has those that a charge of each queue goes to, by queue.
        """
        at, gained = [], []
        for moment, queue, room in self._queued:
            if account in accounts.get(queue, ()) and (amount := room.demand.get(resource)):
                at.append(moment)
                gained.append(-amount)
        for block in self.blocks.values():
            if account in accounts.get(block.queue, ()) and (amount := block.room.demand.get(resource)):
                at += [block.at, block.until]
                gained += [amount, -amount]
        return _steps(self._now, held, np.array(at, np.int64), np.array(gained, np.int64))

    def _on_touched_nodes(self) -> tuple[_Sorted, Mask]:
        if self._mixed is None:
            blocks = [block.changes for block in self.blocks.values()]
            few = _joined(self._shape[0], [*self._late, *blocks])
            touched = np.zeros(self._shape[1], np.bool_)
            touched[few[1]] = True
            self._mixed = _Sorted(_joined(self._shape[0], [self._ends.of(touched), few])), touched
        return self._mixed


def openings(conditions: Sequence[tuple[Int64s, Mask]], lasts: int) -> Int64s:
    """The moments at which something changes and from which every condition holds for `lasts`, or for ever when that
    is 0; sorted. A condition has moments, sorted, and whether it holds from each of them on; all begin with now.
    """
    moments = np.unique(np.concatenate([at for at, _ in conditions]))
    holds = np.ones(len(moments), np.bool_)
    for at, held in conditions:
        holds &= held[np.searchsorted(at, moments, side="right") - 1]
    ends = np.append(moments[~holds], NEVER_ENDS)
    found = moments[holds]
    ends = ends[np.searchsorted(ends, found)]
    opened: Int64s = found[ends - found >= lasts if lasts else ends == NEVER_ENDS]
    return opened


def _end(at: int, room: Room) -> Changes:
    """All of the room comes free at that moment."""
    return np.full(len(room.rows), at, np.int64), room.rows, room.amounts


def _joined(resources: int, parts: Sequence[Changes]) -> Changes:
    """All of these changes."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.intp), np.zeros((resources, 0), np.int64)
    at, rows, amounts = zip(*parts, strict=True)
    return np.concatenate(at), np.concatenate(rows), np.concatenate(amounts, axis=1)


def _steps(now: int, value: int, at: Int64s, gained: Int64s) -> Steps:
    """The steps of a value that changes by `gained` at these moments, in any order."""
    order = np.argsort(at, kind="stable")
    at, values = at[order], value + np.cumsum(gained[order])
    last = np.ones(len(at), np.bool_)
    np.not_equal(at[1:], at[:-1], out=last[:-1])
    return np.append(now, at[last]), np.append(value, values[last])
