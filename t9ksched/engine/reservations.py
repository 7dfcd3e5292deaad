"""Reserved room, in one cycle: taken off the trial at the beginning, and its owner's again when it is its turn.

Planned starts are no part of it: `planned_starts.py` has them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.card_needs import move_parts
from t9ksched.engine.cards import NO_SHARES, Share
from t9ksched.engine.held_rooms import HeldRooms
from t9ksched.engine.placement.class_fit import Amounts, ClassFit
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.engine.work import Work
from t9ksched.model.reservation import Reservation, ReservationKind

_A_SLICE: Final = 64
"""So many reservations are taken in before others may have their turn."""
_A_PLACE: Final = 2_000
"""Units of work to take one of them in."""
_A_CHARGE: Final = 200
"""Units of work to charge one."""


class Reservations:
    """The reservations that are in force.

    Attributes:
        of: what is reserved on the trial, by UID of the owner.
        kinds: what for, by UID of the owner.
        missing: reservations whose room is still to be found, by UID of the owner.
        standing: the reservations themselves.
        held: all that is reserved on the trial, at once.

    Where an owner has reservations of a kind that replaces others, what it lacks is in those, and only those count.
    """

    def __init__(self, trial: Trial) -> None:
        """None yet: `take` takes them off the trial."""
        self.of: dict[str, list[Placement]] = {}
        self.missing: dict[str, list[Reservation]] = {}
        self.kinds: dict[str, ReservationKind] = {}
        self.standing: list[Reservation] = []
        self._leased: Int64s = np.zeros_like(trial.free)
        """Room that is still to come free for its owners, shape (resources, nodes)."""
        self._behind: Int64s = np.zeros_like(trial.free)
        """The part of it that its owners lose first: all but what is kept for owners served earlier, see `keep`."""
        self._demands: dict[str, dict[str, int]] = {}
        """What queues pay for what was reserved when the cycle began, by owner and resource."""
        self._charged: dict[str, tuple[str, dict[str, int]]] = {}
        self._first: set[str] = set()
        self._trial = trial
        self.held = HeldRooms(trial)

    def take(self, reservations: Iterable[Reservation], now: int) -> Work[None]:
        """Take what is in force off the trial, in slices."""
        trial, meter = self._trial, self._trial.meter
        index = trial.nodes.static.index
        self.standing = [one for one in reservations if one.in_force(now) and not one.kind.planned]
        replaced = {reservation.owner for reservation in self.standing if reservation.kind.replaces}
        ordered = sorted(
            self.standing, key=lambda reservation: (reservation.owner, reservation.node, reservation.cards)
        )
        for nth, reservation in enumerate(ordered, start=1):
            if not nth % _A_SLICE:
                yield
            if reservation.owner in replaced and not reservation.kind.replaces:
                continue
            self.kinds[reservation.owner] = reservation.kind
            if reservation.node in index:
                meter.spent += _A_PLACE
                column = trial.column(None, reservation.pod_class)
                placement = trial.occupy(column, index[reservation.node], reservation.cards)
                self.hold(reservation.owner, placement)
                demand = self._demands.setdefault(reservation.owner, {})
                for resource, amount in column.demand:
                    demand[resource] = demand.get(resource, 0) + amount
                if reservation.kind.comes_free:
                    self._leased[:, placement.row] += (takes := placement.takes)
                    self._behind[:, placement.row] += takes
            elif reservation.kind.movable:
                self.missing.setdefault(reservation.owner, []).append(reservation)
        yield from self._charge()

    def hold(self, owner: str, placement: Placement) -> None:
        """The trial has taken this place, for an owner of a known kind."""
        self.of.setdefault(owner, []).append(placement)
        self.held.add(owner, self.kinds[owner], placement)

    def comes_free(self, owner: str) -> bool:
        """Whether the owner waits for pods to leave what is reserved for it."""
        return owner in self.kinds and self.kinds[owner].comes_free

    def restores(self, owner: str) -> bool:
        """Whether room that the owner had before is reserved for it, or looked for."""
        return (owner in self.of or owner in self.missing) and self.kinds[owner].restores

    def start_decided(self, owner: str) -> bool:
        """Whether the owner has begun to start: its victims are leaving, or its binding is tried again."""
        return owner in self.of and (self.comes_free(owner) or self.restores(owner))

    def rooms(self) -> dict[int, tuple[object, ...]]:
        """What is reserved on each node, by row, with its owners."""
        found: dict[int, tuple[object, ...]] = {}
        for owner, placements in self.of.items():
            for one in placements:
                what = (owner, self.kinds[owner], one.column.pod_class, one.shares)
                found[one.row] = (*found.get(one.row, ()), what)
        return found

    def promised(self) -> dict[str, dict[str, int]]:
        """What queues pay for what is still to come free for its owners, by owner and resource, as the cycle begins."""
        return {owner: demand for owner, demand in self._demands.items() if self.kinds[owner].comes_free}

    def charged(self) -> Mapping[str, tuple[str, dict[str, int]]]:
        """Which queue pays how much for room that is kept, or still to be found, by UID of the owner, as the cycle
        begins.
        """
        return self._charged

    def _charge(self) -> Work[None]:
        """Add up what queues pay, in slices."""
        asked: dict[int, Amounts] = {}
        for nth, one in enumerate(self.standing, start=1):
            if not nth % _A_SLICE:
                self._trial.meter.spent += _A_CHARGE * _A_SLICE
                yield
            if one.queue and self.restores(one.owner):
                _, demand = self._charged.setdefault(one.owner, (one.queue, {}))
                if (amounts := asked.get(id(one.pod_class))) is None:
                    amounts = asked[id(one.pod_class)] = self._trial.column(None, one.pod_class).demand
                for resource, amount in amounts:
                    demand[resource] = demand.get(resource, 0) + amount

    def promise(
        self, column: ClassFit, rows: Int64s, counts: Int64s, shares: Mapping[int, Sequence[Share]] = NO_SHARES
    ) -> None:
        """Promise room that victims will leave: `counts` pods of the class by row; `rows` are distinct. `shares` are
        theirs, by row, on nodes that divide cards.
        """
        self._leased[:, rows] += column.needs_vector[:, None] * counts
        for row, those in shares.items():
            move_parts(column.part_needs, self._leased[:, row], row, those, -1, held=True)

    def give_up(self, owner: str) -> list[Placement]:
        """End the owner's reservations, room still to be found included. Returns the placements that were reserved."""
        self.missing.pop(owner, None)
        placements = self.of.pop(owner, [])
        self.held.remove(owner, placements)
        for placement in placements:
            if self.kinds[owner].comes_free:
                self._leased[:, placement.row] -= placement.takes
                if owner not in self._first:
                    self._behind[:, placement.row] -= placement.takes
        return placements

    def keep(self, owner: str, leaving: Int64s) -> None:
        """The owner has been served: while pods are leaving its nodes, no gang served later takes what it waits for.

        If no pod is leaving them, the missing room will not come free, and nothing is kept for the owner.
        """
        own = self.of.get(owner, ())
        if self.comes_free(owner) and any(leaving[:, placement.row].any() for placement in own):
            self._first.add(owner)
            for placement in own:
                self._behind[:, placement.row] -= placement.takes

    def lent(self, own: Sequence[Placement], free: Int64s, leaving: Int64s, certain: Int64s) -> dict[int, Int64s]:
        """Capacity reserved for other gangs that this owner may borrow, as row → resource vector; `free` has its own
        already.

        Room that has come free goes to the owner served first; pods that are still leaving make room for the others.
        `certain` is the part of `leaving` that is certain to come free: a victim that was only chosen stays if its
        preemptor finds another place. Where the leaving pods do not make room for all owners, the owners served later
        lack it.
        """
        found = {}
        for row, needs in _by_row(own).items():
            missing = np.maximum(needs - free[:, row] - leaving[:, row], 0)
            lost = np.minimum(missing, self._behind[:, row] - needs)
            found[row] = np.minimum(self._leased[:, row] - needs, certain[:, row] + lost)
        return found

    def lent_at(
        self, row: int, needs: Sequence[int], free: Sequence[int], leaving: Sequence[int], certain: Sequence[int]
    ) -> list[int]:
        """The same for one node on which the owner holds `needs`: each has an entry a resource."""
        leased, behind = self._leased[:, row].tolist(), self._behind[:, row].tolist()
        return [
            min(all_held - own, sure + min(max(own - has - goes, 0), later - own))
            for own, has, goes, sure, all_held, later in zip(needs, free, leaving, certain, leased, behind, strict=True)
        ]

    def alone(
        self, own: Sequence[Placement], free: Int64s, lent: Mapping[int, Int64s]
    ) -> tuple[dict[int, Int64s], Mask]:
        """What to lend, by row, and the nodes, so that an owner finds exactly the room that is reserved for it.

        `lent` is what it may use besides what is free.
        """
        nodes = np.zeros(free.shape[1], np.bool_)
        found = {}
        for row, needs in _by_row(own).items():
            nodes[row] = True
            found[row] = np.minimum(free[:, row] + lent.get(row, 0), needs) - free[:, row]
        return found, nodes


def _by_row(own: Sequence[Placement]) -> dict[int, Int64s]:
    """What is reserved on each node."""
    found: dict[int, Int64s] = {}
    for placement in own:
        found[placement.row] = found.get(placement.row, 0) + placement.takes
    return found
