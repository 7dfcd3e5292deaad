"""What the free room of a trial's nodes will be at later moments.

Two things change it: gangs end and give their room back, and planned starts take room and give it back at their own
end. All amounts are changes against the trial's present columns, so that placing a pod now changes nothing here but the
end that it is given. Times are nanoseconds since the epoch.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.changes import Changes, OwnedChanges, SortedChanges, joined
from t9ksched.engine.ends import Ends
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Placement
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation, ReservationKind

NEVER_ENDS: Final = 1 << 62
"""The end of what holds its room without a limit."""
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

    def same(self, other: "Room") -> bool:
        """Whether both are the same amounts on the same nodes."""
        if len(self.rows) != len(other.rows):
            return False
        mine, theirs = np.argsort(self.rows), np.argsort(other.rows)
        return np.array_equal(self.rows[mine], other.rows[theirs]) and np.array_equal(
            self.amounts[:, mine], other.amounts[:, theirs]
        )

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
        gang: the gang whose waiting members are known to be those pods, None before it is looked at.
        told: what its gang is told of it; empty before it is asked for.
        changes: moments, rows of nodes and amounts of what it takes and gives back, see `Changes`.
    """

    __slots__ = ("at", "changes", "gang", "only", "owner", "queue", "rank", "reserved", "room", "told", "until")

    def __init__(self, reserved: tuple[Reservation, ...], room: Room) -> None:
        first, rows = reserved[0], room.rows
        self.reserved = reserved
        self.room = room
        self.gang: Gang | None = None
        self.told: tuple[Reason, ...] = ()
        self.owner, self.queue, self.rank, self.at = first.owner, first.queue, first.rank, first.since
        self.until = first.until or NEVER_ENDS
        self.only = first.pod_class if all(one.pod_class is first.pod_class for one in reserved) else None
        self.changes: Changes = (
            np.repeat(np.array([self.at, self.until], np.int64), len(rows)),
            np.concatenate([rows, rows]),
            np.concatenate([-room.amounts, room.amounts], axis=1),
        )

    @classmethod
    def of(
        cls, gang: Gang, rank: int, at: int, until: int, placements: Sequence[Placement], names: Sequence[str]
    ) -> "Block":
        """The start of a gang in these places, on nodes of these names; `rank` is the priority of its queue."""
        reserved: list[Reservation] = []
        for placement in placements:
            one = Reservation(
                gang.uid,
                names[placement.row],
                placement.column.pod_class,
                ReservationKind.PLANNED,
                rank=rank,
                since=at,
                until=0 if until == NEVER_ENDS else until,
                firm=True,
                queue=gang.queue,
            )
            reserved += [one] * placement.pods
        return cls(tuple(reserved), Room.placed(placements))


def end_of(gang: Gang, start: int) -> int:
    """When the gang ends at the latest if it starts then."""
    return start + gang.lasts if gang.lasts else NEVER_ENDS


_HELD: Final = "held:"


class Timeline:
    """Ends and planned starts on the nodes of a trial.

    Args:
        shape: of the columns, (resources, nodes).
        accounts: those that a charge of each queue goes to, by queue.

    Attributes:
        blocks: the planned starts on it, by UID of the owner; `version` is another one after each change of them.
    """

    def __init__(self, shape: tuple[int, ...], now: int, accounts: Mapping[str, Sequence[str]]) -> None:
        self._shape = shape
        self._now = now
        self._accounts = accounts
        self._began: list[tuple[int, str, Room]] = []
        self._held: dict[str, tuple[int, str, Room]] = {}
        self._few = OwnedChanges(shape[0])
        self._mixed: tuple[SortedChanges, Mask] | None = None
        """All changes on the nodes that blocks, late ends, and what is heeded or lacking twice touch, and a mask of
        these.
        """
        self._free: Int64s | None = None
        """The columns that what is kept of classes was made from."""
        self._gained: dict[ClassFit, Int64s] = {}
        """What each end gives, by class, as `SortedChanges.gained`."""
        self._supplies: dict[ClassFit, Steps] = {}
        self._short: Mask | None = None
        self._paid: dict[tuple[str, str], tuple[Int64s, Int64s]] = {}
        """Moments and amounts of what ends give back of a resource to an account."""
        self.blocks: dict[str, Block] = {}
        self.version = 0
        self._heeded: Changes | None = None
        self._twice: Changes | None = None

    def count_once(self, changes: Changes | None) -> None:
        """Room that the columns lack twice, as pods leave it and it is promised already, is lacking once: how they
        change by that, from now on.
        """
        self._twice = changes
        self._changed()

    def heed(self, changes: Changes | None) -> None:
        """Besides, the columns change so from now on, until something else is said: room that is reserved from the gang
        that has its turn.
        """
        if changes is not self._heeded:
            self._heeded = changes
            self._changed()

    def expect(self, ends: Ends, overdue: int) -> None:
        """What gives its room back; an end that is overdue is expected at that moment. Asked once, before all else."""
        self._expected = ends
        self._moments = ends.at_least(self._now, overdue)
        self._ends = SortedChanges((self._moments[ends.end], ends.rows, ends.amounts))
        self._changed()

    @cached_property
    def _by_moment(self) -> Indices:
        """The ends in the order of their moments."""
        return np.argsort(self._ends.at, kind="stable")

    def gives_back(self, at: int, queue: str, room: Room) -> None:
        """The room comes free at a later moment, and the queue pays for it until then."""
        self._few.add("", (np.full(len(room.rows), at, np.int64), room.rows, room.amounts))
        self._began.append((at, queue, room))
        self._changed()

    def hold(self, owner: str, at: int, queue: str, room: Room) -> None:
        """The room, held for a gang of that UID, comes free then; its queue pays until then, none where it is empty."""
        self.release(owner)
        self._few.add(_HELD + owner, (np.full(len(room.rows), at, np.int64), room.rows, room.amounts))
        self._held[owner] = (at, queue, room)
        self._changed()

    def release(self, owner: str) -> None:
        """What `hold` said of this gang is no longer so."""
        if self._held.pop(owner, None) is not None:
            self._few.remove(_HELD + owner)
            self._changed()

    def take(self, block: Block) -> None:
        """A start is planned; its owner has no other one."""
        self.drop(block.owner)
        self.blocks[block.owner] = block
        self._few.add(block.owner, block.changes)
        self.version += 1
        self._changed()

    def drop(self, owner: str) -> None:
        """The start is planned no longer."""
        if self.blocks.pop(owner, None) is not None:
            self._few.remove(owner)
            self.version += 1
            self._changed()

    def _changed(self) -> None:
        self._mixed = self._short = None
        self._supplies.clear()

    def _follow(self, free: Int64s) -> None:
        """What is kept of classes is true of these columns."""
        if self._free is None or not np.array_equal(self._free, free):
            self._free = free.copy()
            self._gained.clear()
            self._supplies.clear()
            self._short = None

    def lowest(self, start: int, until: int, without: Collection[str] = (), *, lends: bool = False) -> Int64s | None:
        """The least change of the columns at any moment from `start` to before `until`, shape (resources, nodes).

        None where nothing changes until `start`, no start is planned and nothing is heeded. With gangs to be left out,
        by UID, what they hold does not come free, and what is lacking twice is left so; only for `start` now. Nowhere
        positive for `start` now, unless the timeline `lends` what is lacking twice.
        """
        if start <= self._now and not self.blocks and self._heeded is None and not (lends and self._twice is not None):
            return None
        found = np.zeros(self._shape, np.int64)
        mixed, touched = self._on_touched_nodes()
        if without:
            mixed = self._mix(self._ends_but(without, touched), ())
        for changes in (self._ends, mixed) if start > self._now else (mixed,):
            if len(changes):
                found[:, changes.nodes] = changes.lowest(start, until)
        if start <= self._now and self._twice is not None and not lends:
            np.minimum(found, 0, out=found)
        return found

    def supply(self, column: ClassFit, free: Int64s) -> Steps:
        """How many pods of the class fit at which moments; `free` are the present columns, and it looks at the nodes
        that the class may use now.
        """
        self._follow(free)
        found = self._supplies.get(column)
        if found is None:
            rooms = column.rooms(free)
            mixed, touched = self._on_touched_nodes()
            gained, ends, order = self._gained.get(column), self._ends, self._by_moment
            if gained is None:
                gained = self._gained[column] = ends.gained(column, free, rooms)
            at = np.concatenate([ends.at[order], mixed.at])
            gained = np.where(touched[ends.rows], 0, gained)[order]
            gained = np.concatenate([gained, mixed.gained(column, free, rooms)])
            column.trial.meter.spent += 4 * len(at)
            found = self._supplies[column] = _steps(self._now, int(rooms.sum()), at, gained)
        return found

    def over(self, free: Int64s) -> Mask:
        """Nodes on which more is taken or planned than there is, at some moment; shape (nodes,)."""
        self._follow(free)
        if self._short is None:
            mixed, _ = self._on_touched_nodes()
            self._short = np.zeros(self._shape[1], np.bool_)
            self._short[mixed.rows[np.any(free[:, mixed.rows] + mixed.sums < 0, axis=0)]] = True
        return self._short

    def affords(self, limits: Iterable[tuple[str, str, int, int]], block: Block, *, laid: bool) -> bool:
        """Whether accounts can pay for a plan, which is `laid` here or not, until it ends; `limits` are account,
        resource, quota and what is held now.
        """
        for account, resource, nominal, held in limits:
            if needs := block.room.demand.get(resource):
                at, paid = self.paid(account, resource, held)
                first = max(0, int(np.searchsorted(at, block.at, side="right")) - 1)
                if paid[first : np.searchsorted(at, block.until)].max() > nominal - (0 if laid else needs):
                    return False
        return True

    def charges(self, queue: str) -> bool:
        """Whether starts are planned that an account of this queue is to pay for."""
        accounts = {*self._accounts[queue]}
        return any(not accounts.isdisjoint(self._accounts[block.queue]) for block in self.blocks.values())

    def paid(self, account: str, resource: str, held: int) -> Steps:
        """What an account is charged of a resource at which moments; `held` is the charge of now."""
        queues = {queue for queue, accounts in self._accounts.items() if account in accounts}
        known = self._paid.get((account, resource))
        if known is None:
            ends, amounts = self._expected.charged(queues, resource)
            known = self._paid[account, resource] = self._moments[ends], -amounts
        at, gained = [], []
        for moment, queue, room in (*self._began, *self._held.values()):
            if queue in queues and (amount := room.demand.get(resource)):
                at.append(moment)
                gained.append(-amount)
        for block in self.blocks.values():
            if block.queue in queues and (amount := block.room.demand.get(resource)):
                at += [block.at, block.until]
                gained += [amount, -amount]
        moments = np.concatenate([known[0], np.array(at, np.int64)])
        return _steps(self._now, held, moments, np.concatenate([known[1], np.array(gained, np.int64)]))

    def _ends_but(self, without: Collection[str], nodes: Mask) -> Changes:
        """The ends on these nodes, without those of these gangs."""
        ends = self._expected
        stays = np.array([one.gang not in without for one in ends.sources], np.bool_)
        which = np.flatnonzero(stays[ends.end] & nodes[ends.rows])
        return self._moments[ends.end[which]], ends.rows[which], ends.amounts[:, which]

    def _mix(self, ends: Changes, twice: Sequence[Changes]) -> SortedChanges:
        """These ends with blocks, late ends, what is heeded and what is lacking twice."""
        heeded = () if self._heeded is None else (self._heeded,)
        return SortedChanges(joined(self._shape[0], [ends, self._few.changes(), *heeded, *twice]))

    def _on_touched_nodes(self) -> tuple[SortedChanges, Mask]:
        if self._mixed is None:
            touched = np.zeros(self._shape[1], np.bool_)
            twice = () if self._twice is None else (self._twice,)
            touched[self._few.changes()[1]] = True
            for _, rows, _ in (*(() if self._heeded is None else (self._heeded,)), *twice):
                touched[rows] = True
            self._mixed = self._mix(self._ends.of(touched), twice), touched
        return self._mixed


def may_open(supply: Steps, pods: int, lasts: int, before: int) -> bool:
    """Whether so many pods may fit for `lasts` (or for ever when that is 0) from a moment before that one.

    True also where it depends on what the supply is from then on.
    """
    at, fit = supply
    at = at[: np.searchsorted(at, before)]
    holds = fit[: len(at)] >= pods
    if not holds.any():
        return False
    found = at[holds]
    ends = np.append(at[~holds], NEVER_ENDS)
    ends = ends[np.searchsorted(ends, found)]
    return bool(np.any(ends - found >= lasts if lasts else ends == NEVER_ENDS))


def openings(conditions: Sequence[tuple[Int64s, Mask]], lasts: int) -> Int64s:
    """The moments at which something changes and from which every condition holds for `lasts`, or for ever when that
    is 0; sorted. A condition has moments, sorted, and whether it holds from each of them on; all begin with now.
    """
    moments = conditions[0][0] if len(conditions) == 1 else np.unique(np.concatenate([at for at, _ in conditions]))
    holds = np.ones(len(moments), np.bool_)
    for at, held in conditions:
        holds &= held[np.searchsorted(at, moments, side="right") - 1]
    ends = np.append(moments[~holds], NEVER_ENDS)
    found = moments[holds]
    ends = ends[np.searchsorted(ends, found)]
    opened: Int64s = found[ends - found >= lasts if lasts else ends == NEVER_ENDS]
    return opened


def _steps(now: int, value: int, at: Int64s, gained: Int64s) -> Steps:
    """The steps of a value that changes by `gained` at these moments, in any order."""
    order = np.argsort(at, kind="stable")
    at, values = at[order], value + np.cumsum(gained[order])
    last = np.ones(len(at), np.bool_)
    np.not_equal(at[1:], at[:-1], out=last[:-1])
    at, values = at[last], values[last]
    if len(at) and at[0] <= now:
        return at, values
    return np.append(now, at), np.append(value, values)
