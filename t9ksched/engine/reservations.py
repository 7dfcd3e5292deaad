"""Room that is held, in one cycle: taken off the trial at the beginning, and its owner's again when it is his turn."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.model.hold import REFILL, VICTIMS, Hold


class Reservations:
    """Holds that are in force.

    Attributes:
        of: what is held on the trial, by uid of the owner.
        whys: what for, by uid of the owner.
        missing: lost members whose room is still to be found, by uid of the owner.
        standing: the holds themselves.

    A gang that was promised victims' room needs no other: what it lacks is in that promise.
    """

    def __init__(self, holds: Iterable[Hold], trial: Trial, now: int) -> None:
        self.of: dict[str, list[Placement]] = {}
        self.missing: dict[str, list[Hold]] = {}
        self.whys: dict[str, str] = {}
        self._leased: Int64s = np.zeros_like(trial.free)
        """Room promised to those whose victims leave, shape (resources, nodes)."""
        self._behind: Int64s = np.zeros_like(trial.free)
        """The part of it that its owners lose first: all but what is kept for those who come first, see `keep`."""
        self._first: set[str] = set()
        index = trial.nodes.static.index
        self.standing = [hold for hold in holds if hold.since <= now and (not hold.until or now < hold.until)]
        promised = {hold.owner for hold in self.standing if hold.why == VICTIMS}
        for hold in sorted(self.standing, key=lambda hold: (hold.owner, hold.node, hold.cards)):
            if hold.owner in promised and hold.why != VICTIMS:
                continue
            self.whys[hold.owner] = hold.why
            if hold.node in index:
                column = trial.column(None, hold.pod_class)
                placement = trial.occupy(column, index[hold.node], dict(hold.cards))
                self.of.setdefault(hold.owner, []).append(placement)
                if hold.why == VICTIMS:
                    self._leased[:, placement.row] += column.needs_vector
                    self._behind[:, placement.row] += column.needs_vector
            elif hold.why == REFILL:
                self.missing.setdefault(hold.owner, []).append(hold)

    def rooms(self) -> dict[int, tuple[object, ...]]:
        """What is held where and for whom, by row."""
        found: dict[int, tuple[object, ...]] = {}
        for owner, placements in self.of.items():
            for one in placements:
                what = (owner, self.whys[owner], one.column.pod_class, one.masks)
                found[one.row] = (*found.get(one.row, ()), what)
        return found

    def promised(self) -> dict[str, dict[str, int]]:
        """What those who wait for victims were promised, by owner and resource."""
        found: dict[str, dict[str, int]] = {}
        for owner, placements in self.of.items():
            if self.whys[owner] == VICTIMS:
                demand = found[owner] = {}
                for placement in placements:
                    for resource, amount in placement.column.pod_class.requests:
                        demand[resource] = demand.get(resource, 0) + amount
        return found

    def promise(self, column: ClassFit, rows: Int64s, counts: Int64s) -> None:
        """Room is promised to somebody whose victims go; `rows` are distinct."""
        self._leased[:, rows] += column.needs_vector[:, None] * counts

    def give_up(self, owner: str) -> list[Placement]:
        """Room that was held is held no longer, nor is any looked for; what it was."""
        self.missing.pop(owner, None)
        placements = self.of.pop(owner, [])
        for placement in placements:
            if self.whys[owner] == VICTIMS:
                self._leased[:, placement.row] -= placement.column.needs_vector
                if owner not in self._first:
                    self._behind[:, placement.row] -= placement.column.needs_vector
        return placements

    def keep(self, owner: str, leaving: Int64s) -> None:
        """An owner has had his turn: while pods leave his nodes, nobody after him takes what he waits for.

        If nobody leaves them, what is missing does not come, and he is not worth waiting for.
        """
        own = self.of.get(owner, ())
        if self.whys.get(owner) == VICTIMS and any(leaving[:, placement.row].any() for placement in own):
            self._first.add(owner)
            for placement in own:
                self._behind[:, placement.row] -= placement.column.needs_vector

    def lent(self, own: Sequence[Placement], free: Int64s, leaving: Int64s, certain: Int64s) -> dict[int, Int64s]:
        """Room on an owner's nodes that is held for others and yet his to use, by row; his own is `free` already.

        What has come free is whoever's turn it is first; those who leave make room for the others. `certain` is the
        part of `leaving` that nothing keeps from coming: who was only chosen stays if the one he was chosen for finds
        another place. Where those who leave do not make room for all, what is missing is missing for those behind.
        """
        found = {}
        for row, needs in _by_row(own).items():
            missing = np.maximum(needs - free[:, row] - leaving[:, row], 0)
            lost = np.minimum(missing, self._behind[:, row] - needs)
            found[row] = np.minimum(self._leased[:, row] - needs, certain[:, row] + lost)
        return found

    def alone(
        self, own: Sequence[Placement], free: Int64s, lent: Mapping[int, Int64s]
    ) -> tuple[dict[int, Int64s], Mask]:
        """What is to be lent, by row, and the nodes, so that an owner finds what is held for him and nothing else.

        `lent` is what he may use beside what is free.
        """
        nodes = np.zeros(free.shape[1], np.bool_)
        found = {}
        for row, needs in _by_row(own).items():
            nodes[row] = True
            found[row] = np.minimum(free[:, row] + lent.get(row, 0), needs) - free[:, row]
        return found, nodes


def _by_row(own: Sequence[Placement]) -> dict[int, Int64s]:
    """What is held on each node."""
    found: dict[int, Int64s] = {}
    for placement in own:
        found[placement.row] = found.get(placement.row, 0) + placement.column.needs_vector
    return found
