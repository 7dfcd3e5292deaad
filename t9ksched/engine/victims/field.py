"""A part of the nodes in which victims are looked for, with what has to fit and with the candidates there."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from t9ksched.engine.arrays import Indices, Int64s, Mask
from t9ksched.engine.cards import NO_SHARES, Share
from t9ksched.engine.nodes import LARGEST
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.pack import Group, co_placed_terms
from t9ksched.engine.victims.victim_table import VictimTable
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.podrules import PodTerm


class Wanted:
    """Pods of one class that look for a place on some nodes."""

    def __init__(self, column: ClassFit, pods: int, rows: Indices, along: Container[PodTerm] = ()) -> None:
        self.column = column
        self.pods = pods
        self.needs = column.needs
        mask = column.reachable(along)
        self.here: Mask = mask[rows] if column.known else np.zeros(len(rows), np.bool_)
        self.rows = rows
        self.parts = [parts for parts in column.divided if parts.of.nodes[rows].any()]
        """What it needs of cards that some of these nodes divide."""
        self._ports = bool(column.ports)
        self._closed: Mask | None = None
        if column.ports:
            self._closed = np.array([column.ports_taken(row) for row in rows.tolist()], np.bool_)
        elif column.volumes is not None:  # those of victims, too, may stay attached for others
            self._closed = column.volumes.closed(column.trial.free, rows)

    def rooms(self, free: Int64s, counts: Int64s | None = None) -> Int64s:
        """How many more pods fit on each node; `counts` were put there already, and have no parts of cards yet."""
        rooms = self._most(free, self.rows, counts)
        rooms[~self.open_to(counts)] = 0
        return rooms

    def rooms_at(self, free: Int64s, rows: Indices) -> Int64s:
        """How many pods fit on some nodes."""
        return self.rooms_of(free[:, rows], rows)

    def rooms_of(self, left: Int64s, rows: Indices) -> Int64s:
        """How many pods fit on nodes of these positions, of which one may be several times among them; `left` has a
        column for each, shape (resources, len(rows)).
        """
        rooms = self._most(left, self.rows[rows])
        rooms[~self.open_to()[rows]] = 0
        return rooms

    def take(self, free: Int64s, counts: Int64s) -> None:
        """Take room for so many pods on each node, their parts of cards included; they must fit."""
        for at, amount in self.needs:
            free[at] -= amount * counts
        self.take_parts(free, counts)

    def take_parts(self, free: Int64s, counts: Int64s) -> None:
        """Take the parts of cards alone."""
        for parts in self.parts:
            for at in np.flatnonzero((counts > 0) & parts.of.nodes[self.rows]).tolist():
                for _ in parts.take(free[:, at], int(self.rows[at]), int(counts[at])):
                    pass

    def _most(self, free: Int64s, rows: Indices, counts: Int64s | None = None) -> Int64s:
        """How many more fit on nodes of these rows, of those that are open."""
        rooms = np.full(free.shape[-1], LARGEST, np.int64)
        for at, amount in self.needs:
            np.minimum(rooms, free[at] // amount, out=rooms)
        for parts in self.parts:
            found = parts.rooms_of(free, rows)
            np.minimum(rooms, found if counts is None else found - counts, out=rooms)
        np.maximum(rooms, 0, out=rooms)
        if self._ports:
            np.minimum(rooms, 1, out=rooms)
        return rooms

    def open_to(self, counts: Int64s | None = None) -> Mask:
        """Nodes that may take one more if there is room."""
        if self._closed is None:
            return self.here
        here: Mask = self.here & ~self._closed
        return here & (counts == 0) if self._ports and counts is not None else here


class Field:
    """Some nodes with the candidates on them.

    Attributes:
        rows: the nodes, by row of the frozen nodes; all else counts nodes by their position in it.
        wanted: what has to fit.
        free: room there, shape (resources, nodes).
        resources: the rows of it that matter, of which `amounts` are those that are not counters of divided cards.
        pods: candidates' pods there, by position among the table; `unit` and `row` of each.
    """

    def __init__(
        self,
        table: VictimTable,
        groups: Sequence[Group],
        free: Int64s,
        rows: Indices,
        units: Mask,
        among: Indices | None = None,
    ) -> None:
        """Candidates are the pods of `units`; of `among` alone, by position among the table, if that is given."""
        self.table = table
        self.rows = rows
        along = co_placed_terms(groups)
        self.wanted = [Wanted(column, pods, rows, along) for column, pods in groups]
        self.resources = resources(groups)
        self.amounts = sorted({at for column, _ in groups for at, _ in column.needs})
        self.free: Int64s = free[:, rows]
        here: Mask = np.logical_or.reduce([one.here for one in self.wanted])
        place = np.full(free.shape[1], -1, np.intp)
        place[rows[here]] = np.flatnonzero(here)
        if among is None:
            frees = np.zeros(len(table.row), np.bool_)
            for at in self.resources:
                frees |= table.freed[at] > 0
            among = np.flatnonzero(table.staying & frees)
        of_pod, unit = place[table.row[among]], table.unit_of[among]
        ours = units[unit] & (of_pod >= 0)
        self.pods: Indices = among[ours]
        self.unit: Indices = unit[ours]
        self.row: Indices = of_pod[ours]
        self.freed: Int64s = table.freed[:, self.pods]

    def part(self, groups: Sequence[Group], rows: Indices, units: Mask) -> "Field":
        """A part of these nodes, which must be all nodes, for the same groups and some of the units."""
        return Field(self.table, groups, self.free, rows, units, self.pods)

    def give(self, free: Int64s, units: Mask) -> None:
        """Add the room that these units leave."""
        self.leave(free, np.flatnonzero(units[self.unit]))

    def leave(self, free: Int64s, which: Indices | list[int], sign: int = 1) -> None:
        """Add the room that pods leave, by their position here; take it again with sign -1."""
        if len(which):
            for at in self.resources:
                np.add.at(free[at], self.row[which], sign * self.freed[at][which])

    def fits(self, free: Int64s) -> bool:
        """Whether all that is wanted finds room, one class after the other."""
        for nth, one in enumerate(self.wanted):
            rooms = np.minimum(one.rooms(free), one.pods)
            if int(rooms.sum()) < one.pods:
                return False
            if nth + 1 < len(self.wanted):
                free = free.copy()
                one.take(free, np.minimum(rooms, np.maximum(one.pods - (np.cumsum(rooms) - rooms), 0)))
        return True

    def cards_fit(self, left: Int64s, at: int, counts: Sequence[Int64s]) -> bool:
        """Whether so many pods of each class find their parts of cards on the node of that position, one after the
        other; `left` is its column with nothing taken.
        """
        left, row = left.copy(), int(self.rows[at])
        return all(
            parts.complete(mask)
            for one, those in zip(self.wanted, counts, strict=True)
            for parts in one.parts
            if parts.on(row)
            for mask in parts.take(left, row, int(those[at]))
        )

    def helpful(self) -> Mask:
        """Units of groups with a pod here that leaves something wanted, one flag a unit."""
        table = self.table
        groups = np.zeros(len(table.groups), np.bool_)
        groups[table.group_of[self.pods]] = True
        found: Mask = groups[table.unit_group]
        return found


def resources(groups: Sequence[Group]) -> list[int]:
    """The rows of all that pods of these groups need, counters of divided cards included, ascending."""
    found = {at for column, _ in groups for at, _ in column.needs}
    for column, _ in groups:
        for parts in column.divided:
            found.update(parts.of.rows)
    return sorted(found)


class Cleared(msgspec.Struct):
    """A result: how many pods of each class go where (by row of the field), which units go, and what is left then."""

    counts: list[Int64s]
    units: Mask
    free: Int64s


class Place(NamedTuple):
    """Where pods of a class go: on the nodes of these rows so many each.

    Attributes:
        shares: of each pod, by row, on nodes that divide cards: these alone are chosen by index.
    """

    column: ClassFit
    rows: Indices
    counts: Int64s
    shares: Mapping[int, Sequence[Share]] = NO_SHARES


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the preemptor is placed, and its victims.

    Attributes:
        places: of all its pods.
        victims: running group and its pods that go.
        units: their units on the table.
    """

    places: tuple[Place, ...]
    victims: tuple[tuple[Running, RunningPod], ...]
    units: Mask
    table: VictimTable

    def whole(self, queue: str) -> frozenset[str]:
        """UIDs of the gangs of this queue that lose their minimum, too."""
        table = self.table
        if queue not in table.queues:
            return frozenset()
        groups = table.unit_group[np.flatnonzero(self.units & ~table.is_surplus)]
        own = groups[table.queue_of[groups] == table.queues.index(queue)]
        return frozenset(table.groups[at].uid for at in own.tolist())

    def without(self, gang: str) -> Mask:
        """The units but those of one gang, by UID."""
        at = np.flatnonzero(self.units)
        own = [self.table.groups[group].uid == gang for group in self.table.unit_group[at].tolist()]
        found: Mask = self.units.copy()
        found[at[own]] = False
        return found
