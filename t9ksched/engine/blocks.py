"""Room on nodes, and planned starts as room that is taken from one moment to another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.cards import Share
from t9ksched.engine.changes import Changes
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.shared_volumes import Attachment
from t9ksched.engine.placement.trial import Placement
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation, ReservationKind

NEVER_ENDS: Final = 1 << 62
"""The end of what holds its room without a limit."""
Part = tuple[ClassFit, int, int]
"""Pods of a class on a node: the class, the row of the node, how many."""


class Room:
    """Room on nodes: `amounts[:, i]` is taken on the node of row `rows[i]`, which are distinct."""

    __slots__ = ("_demand", "_pods", "amounts", "rows")

    def __init__(self, parts: Sequence[Part], shares: Sequence[Sequence[Share]] = (), held: bool = False) -> None:
        """The room of pods, at least one; `shares` are those of each part, where nodes divide cards. With `held` they
        are not there yet.
        """
        of_parts = shares or [()] * len(parts)
        self._pods = [(column.demand_on(row), pods) for column, row, pods in parts]
        """What one of them costs its queue, and how many. Rooms outlive a cycle, so they hold no class column: it holds
        its whole trial.
        """
        self._demand: dict[str, int] | None = None
        kept = _kept(parts, of_parts) if held and shares else {}
        if len(parts) == 1:
            ((column, row, pods),) = parts
            self.rows = np.array([row], np.intp)
            self.amounts: Int64s = (column.takes(row, pods, of_parts[0]) + kept.get(row, 0))[:, None].copy()
        else:
            by_row: dict[int, Int64s] = {}
            for (column, row, pods), those in zip(parts, of_parts, strict=True):
                by_row[row] = by_row.get(row, 0) + column.takes(row, pods, those)
            self.rows = np.array(list(by_row), np.intp)
            self.amounts = np.array([taken + kept.get(row, 0) for row, taken in by_row.items()]).T
        for row, at, _ in _attached(parts):
            self.amounts[at, self.rows == row] += 1

    @classmethod
    def placed(cls, placements: Iterable[Placement], held: bool = False) -> "Room":
        """What placements take; with `held` they are not there yet."""
        listed = list(placements)
        return cls([(one.column, one.row, one.pods) for one in listed], [one.shares for one in listed], held)

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
        """What a queue pays for the pods together, in units by resource."""
        if self._demand is None:
            self._demand = {}
            for demand, pods in self._pods:
                for resource, amount in demand:
                    self._demand[resource] = self._demand.get(resource, 0) + amount * pods
        return self._demand


def _attached(parts: Sequence[Part]) -> set[Attachment]:
    """What nodes attach for the pods: each volume once on a node."""
    with_volumes = [(column.volumes, row) for column, row, _ in parts if column.volumes is not None]
    return {one for volumes, row in with_volumes for one in volumes.missing(row)}


def _kept(parts: Sequence[Part], shares: Sequence[Sequence[Share]]) -> dict[int, Int64s]:
    """What is kept of cards for pods that take none of the cores and run where some are left, by row of the node: a
    thousandth of each such card, unless a pod that comes after them takes cores of it.
    """
    kept: dict[int, Int64s] = {}
    for (column, row, _), those in zip(parts, shares, strict=True):
        if not column.divides(row):
            continue
        for share in those:
            taken = column.takes(row, 1, (share,))
            keeps = column.takes(row, 1, (share,), held=True) - taken
            kept[row] = np.maximum(keeps, np.where(taken > 0, 0, kept.get(row, 0)))
    return {row: each for row, each in kept.items() if each.any()}


class Block:
    """The room of a planned start: reservations, one a pod, that begin at the same moment, and what they take.

    Attributes:
        owner, queue, rank: UID of the gang, its queue and the priority of that.
        at, until: when its gang starts, and when it ends at the latest.
        only: the class of all its pods, None where they are unlike.
        gang: the gang whose waiting members are known to be those pods, None before it is looked at.
        asked: what else that gang asked for when no earlier start was found; None where that is not known.
        told: what its gang is told of it, with the moment that is named; None before it is asked for.
        changes: moments, rows of nodes and amounts of what it takes and gives back, see `Changes`.
    """

    __slots__ = (
        "asked",
        "at",
        "changes",
        "gang",
        "only",
        "owner",
        "queue",
        "rank",
        "reserved",
        "room",
        "told",
        "until",
    )

    def __init__(self, reserved: tuple[Reservation, ...], room: Room) -> None:
        first, rows = reserved[0], room.rows
        self.reserved = reserved
        self.room = room
        self.gang: Gang | None = None
        self.asked: tuple[object, ...] | None = None
        self.told: tuple[int, tuple[Reason, ...]] | None = None
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
            if placement.shares and placement.column.divides(placement.row):
                parts = [placement.column.grant(placement.row, share).divided for share in placement.shares]
                reserved += [replace(one, cards=cards) for cards in parts]
            else:
                reserved += [one] * placement.pods
        return cls(tuple(reserved), Room.placed(placements, held=True))


def end_of(gang: Gang, start: int) -> int:
    """When the gang ends at the latest if it starts then."""
    return start + gang.lasts if gang.lasts else NEVER_ENDS


def divided_parts(placements: Iterable[Placement], names: Sequence[str]) -> tuple[tuple[str, CardGrant], ...]:
    """Node and divided cards of each pod that has some, as in `ExpectedEnd`; nodes have these names."""
    return tuple(
        (names[one.row], one.column.grant(one.row, share).divided)
        for one in placements
        if one.column.divides(one.row)
        for share in one.shares
    )
