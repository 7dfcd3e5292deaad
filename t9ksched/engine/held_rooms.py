"""Room that is held on a trial for gangs, all of it at once: who holds any on some nodes, and what would fit there if
nobody did.

A thousand gangs that wait for their victims each ask whether they would fit without the room of the others. Giving all
of it back, and taking it again, for each of them would be work for every pair of them.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask, There, distinct
from t9ksched.engine.placement.pack import Group
from t9ksched.engine.placement.trial import Placement, Trial
from t9ksched.model.reservation import ReservationKind


class HeldRooms:
    """What is held, by owner; it is followed as owners come and go."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._all: Int64s = np.zeros_like(trial.free)
        """What is held, shape (resources, nodes)."""
        self._version = 0
        self._position: dict[str, int] = {}
        """By UID of the owner; an owner that has given up keeps its position."""
        self._kinds: list[ReservationKind] = []
        self._stands: list[bool] = []
        self._owners: list[int] = []
        self._rows: list[int] = []
        """Of each placement, the owner and the node."""
        self._on: dict[int, tuple[Mask, int, Mask]] = {}
        """By identity of a mask of nodes: the mask, how many placements were looked at, and who holds any there."""
        self._fits: dict[tuple[int, int], bool] = {}
        self._there: tuple[tuple[int, int], There] | None = None
        self._free: tuple[tuple[int, int], Int64s] | None = None

    def __bool__(self) -> bool:
        """Whether any is held."""
        return bool(self._position)

    def add(self, owner: str, kind: ReservationKind, placement: Placement) -> None:
        """A place is held for the owner."""
        at = self._position.get(owner)
        if at is None:
            at = self._position[owner] = len(self._kinds)
            self._kinds.append(kind)
            self._stands.append(True)
        self._stands[at] = True
        self._owners.append(at)
        self._rows.append(placement.row)
        self._all[:, placement.row] += placement.takes
        self._version += 1

    def remove(self, owner: str, placements: Iterable[Placement]) -> None:
        """Nothing is held for the owner any more: these places were."""
        at = self._position.pop(owner, None)
        if at is None:
            return
        self._stands[at] = False
        for placement in placements:
            self._all[:, placement.row] -= placement.takes
        self._version += 1

    def others(self, owner: str, masks: Sequence[Mask]) -> tuple[int, set[ReservationKind]]:
        """How many others hold room on nodes of these masks, and of which kinds."""
        found = np.array(self._stands, np.bool_)
        if (own := self._position.get(owner)) is not None:
            found[own] = False
        holds = self._holding(masks[0])
        for mask in masks[1:]:
            holds = holds | self._holding(mask)
        found &= holds
        return int(found.sum()), {self._kinds[at] for at in np.flatnonzero(found).tolist()}

    def if_free(self) -> There:
        """What would be free on the nodes where any is held, if none was; the same object while nothing changes."""
        now = self._trial.state, self._version
        if self._there is None or self._there[0] != now:
            rows = distinct(np.array(self._rows, np.intp))
            self._there = now, There(rows, self._trial.free[:, rows] + self._all[:, rows])
        return self._there[1]

    def on(self, row: int) -> list[int]:
        """What is held on a node, by resource."""
        held: list[int] = self._all[:, row].tolist()
        return held

    def _holding(self, mask: Mask) -> Mask:
        """Whether each owner holds any of these nodes, or did."""
        known = self._on.get(id(mask))
        if known is None or known[1] != len(self._rows):
            holds = np.zeros(len(self._kinds), np.bool_)
            holds[np.array(self._owners, np.intp)[mask[self._rows]]] = True
            known = self._on[id(mask)] = mask, len(self._rows), holds
        return known[2]

    def would_fit(self, groups: Sequence[Group], own: Sequence[Placement], state: int) -> bool:
        """Whether, by numbers, each class of pods alone would find room if nobody held any.

        What `own` holds has been given back on the trial already; `state` was the trial's before that.
        """
        now = state, self._version
        if self._free is None or self._free[0] != now:
            free = self._trial.free + self._all
            for placement in own:
                free[:, placement.row] -= placement.takes
            self._free = now, free
            self._fits.clear()
        for column, pods in groups:
            key = id(column), pods  # the trial keeps its columns
            fits = self._fits.get(key)
            if fits is None:
                rooms = column.rooms(self._free[1])
                fits = self._fits[key] = int(np.minimum(rooms, pods).sum()) >= pods
            if not fits:
                return False
        return True
