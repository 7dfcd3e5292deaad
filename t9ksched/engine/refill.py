"""Room that gangs keep for members that they lost, in one cycle.

A lost member comes back with another UID, and often later than its room is free. Until then a reservation of kind
`REFILL` keeps that room, and the gang's queue pays for it, so that neither room nor quota is gone when the member is
there. One that names no node stands for a member whose own place is of no use: when it is the gang's turn, the first
room that fits becomes its place.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from t9ksched.engine import explain
from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.failure_memory import FailureMemory
from t9ksched.engine.ledger import Ledger
from t9ksched.engine.placement.pack import pack
from t9ksched.engine.placement.topology import shared
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.view import View
from t9ksched.engine.work import finish
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation


class Refills:
    """Room kept for refills, and its charges.

    Attributes:
        found: room found in this cycle for members without a place of their own.
        paid: queue and amounts that are charged for a gang's kept room, by uid of the gang.
    """

    def __init__(
        self,
        view: View,
        trial: Trial,
        reservations: Reservations,
        ledger: Ledger,
        failures: FailureMemory,
        withheld: Callable[[Gang], Int64s | None] = lambda _: None,
    ) -> None:
        """`withheld` gives the change of the columns by what administrators reserved from a gang."""
        self._withheld = withheld
        self._view = view
        self._trial = trial
        self._reservations = reservations
        self._ledger = ledger
        self._failures = failures
        self.paid: dict[str, tuple[str, dict[str, int]]] = {}
        self._open: set[str] = set()
        """Gangs that are being judged, or got all they need: nothing is charged for what they kept."""
        self._leaving: set[str] = set()
        self.found: list[Reservation] = []
        self._charge()

    def _charge(self) -> None:
        for owner, (queue, demand) in self._reservations.charged().items():
            if queue in self._view.queues:
                self.paid[owner] = (queue, demand)
                self._ledger.charge(queue, demand)

    def opened(self, gang: Gang) -> bool:
        """Whether quota that was kept for this gang is its to use now."""
        return gang.uid in self._open

    def open(self, gang: Gang) -> None:
        """The gang's turn begins: its queue is no longer charged for what the gang kept, but for what it gets."""
        if gang.uid in self.paid:
            self._ledger.uncharge(*self.paid[gang.uid])
            self._open.add(gang.uid)

    def close(self, gang: Gang) -> tuple[Reason, ...]:
        """The gang got nothing: its queue is charged again, and missing places are searched. Returns the reasons about
        that.
        """
        uid = gang.uid
        of, missing = self._reservations.of, self._reservations.missing
        if uid in self._open and (uid in of or uid in missing):
            self._open.remove(uid)
            self._ledger.charge(*self.paid[uid])
        if uid in missing and uid not in self._leaving:
            self._find(gang)
        if not self._reservations.restores(uid):
            return ()
        if explain.incomplete(gang) is None:
            return ()  # its pods are there again: what keeps them waiting is told already
        names = self._trial.nodes.names
        return (explain.kept([names[one.row] for one in of.get(uid, ())], len(missing.get(uid, ()))),)

    def leave(self, gangs: Iterable[str]) -> None:
        """These gangs are evicted: no room is looked for that they could come back to."""
        self._leaving.update(gangs)

    def nodes(self, gang: Gang) -> Mask | None:
        """Where the gang goes first, shape (nodes,); None when no node comes before another.

        That is where room is kept for it; if some is still to be found, also every node that need not be avoided.
        """
        if not self._reservations.restores(gang.uid):
            return None
        own = self._reservations.of.get(gang.uid, ())
        missing = self._reservations.missing.get(gang.uid, ())
        avoid = [name for reservation in missing for name in reservation.avoid]
        if not own and not avoid:
            return None
        mask = self._all_but(avoid) if avoid else np.zeros(len(self._trial.nodes), np.bool_)
        mask[[placement.row for placement in own]] = True
        return mask

    def _all_but(self, avoid: Iterable[str]) -> Mask:
        """The nodes but for those of these names, shape (nodes,)."""
        index = self._trial.nodes.static.index
        mask: Mask = np.ones(len(self._trial.nodes), np.bool_)
        mask[[index[name] for name in avoid if name in index]] = False
        return mask

    def _find(self, gang: Gang) -> None:
        """Keep the first room that fits for each member that has none, as far as there is room."""
        trial, spec = self._trial, self._view.queues[gang.queue].spec
        left: list[Reservation] = []
        scope = shared(trial, gang) if gang.topology == "Required" else None
        withheld = self._withheld(gang)
        states = trial.shift(withheld) if withheld is not None else (0, 0)
        for reservation in self._reservations.missing[gang.uid]:
            column = trial.column(spec.node_selector, reservation.pod_class)
            mark = trial.mark()
            others = self._all_but(reservation.avoid) if reservation.avoid else None
            if others is not None:
                trial.within(others if scope is None else scope & others)
            if others is None or not finish(pack(trial, column, 1)):
                trial.within(scope)
                if not finish(pack(trial, column, 1)):
                    left.append(reservation)
                    continue
            (placement,) = trial.since(mark)
            trial.undo(mark)
            self._reservations.hold(gang.uid, trial.occupy(column, placement.row, NO_CARDS))
            self._failures.moved(placement.row)
            self.found.append(replace(reservation, node=trial.nodes.names[placement.row], cards=NO_CARDS))
        trial.within(None)
        if withheld is not None:
            trial.unshift(withheld, states)
        trial.commit()
        self._reservations.missing[gang.uid] = left
        if not left:
            del self._reservations.missing[gang.uid]
