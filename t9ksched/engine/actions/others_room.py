"""Room that is held for others, or kept for gangs that collect it: whom it alone keeps from starting, by numbers."""

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import There
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.wait_kinds import Kind, Reasons


class OthersRoom:
    """Says, in one cycle, what kinds of gangs that wait are told of it."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._unkept: tuple[tuple[int, int], There] | None = None

    def no_room(self, kind: Kind) -> Reasons:
        """Why there is no room for the kind; empty where its turn says so."""
        found = kind.no_room()
        if not found or kind.fixed:
            return found
        if not kind.counted:
            return found if kind.kept == self.kept else ()
        held = self._cycle.reservations.held
        is_held = bool(held) and self.fits_if_none_is_held(kind) >= kind.pods
        is_kept = bool(self.kept) and self.fits_if_none_is_kept(kind) >= kind.pods
        if not kind.alone and (is_held or is_kept):
            return ()
        if is_kept:
            found = (explain.collected_for_others(), *found)
        others, kinds = held.others("", (kind.shared.mask,)) if is_held else (0, set())
        return (explain.held_for_other(kinds, others), *found) if others else found

    @property
    def kept(self) -> int:
        """The number of the room that is kept now for gangs that collect it; 0 for none."""
        return self._cycle.starving.kept if self._cycle.starving is not None else 0

    def fits_if_none_is_held(self, kind: Kind) -> int:
        """How many pods of the kind would fit by numbers if no room was held for anybody."""
        there = self._cycle.reservations.held.if_free()
        if kind.unheld is None or kind.unheld[0] is not there:
            kind.unheld = there, kind.fit_if(there)
        return kind.unheld[1]

    def fits_if_none_is_kept(self, kind: Kind) -> int:
        """How many pods of the kind would fit by numbers if no room was kept for gangs that collect it."""
        if not self.kept:
            return kind.fit
        there = self.if_none_is_kept()
        if kind.unkept is None or kind.unkept[0] is not there:
            kind.unkept = there, kind.fit_if(there)
        return kind.unkept[1]

    def if_none_is_kept(self) -> There:
        """What would be free then; the same object as long as it is the same."""
        starving, past, now = self._cycle.starving, self._cycle.waits, (self.kept, self._cycle.trial.state)
        assert starving is not None
        if self._unkept is None or self._unkept[0] != now:
            there, known = starving.if_none_is_kept(), past.unkept
            if known is None or known[0] != self.kept or not np.array_equal(known[1].free, there.free):
                known = past.unkept = self.kept, there
            self._unkept = now, known[1]
        return self._unkept[1]
