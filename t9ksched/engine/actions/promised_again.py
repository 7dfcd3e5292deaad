"""Tells gangs that wait for their victims what they would be told at their turn.

Room that was promised to such a gang is on a few nodes. How many of its pods fit follows from the numbers of its kind,
but for those nodes, where it finds what was promised, and what others that were promised room there lend it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import proxy

from t9ksched.engine import explain
from t9ksched.engine.actions.own_room import OwnNumbers, room_for, with_own
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.wait_kinds import Kind, Reasons
from t9ksched.engine.work import Work
from t9ksched.model.gang import Gang

if TYPE_CHECKING:
    from t9ksched.engine.actions.told_again import ToldAgain


class PromisedAgain:
    """Tells gangs, in one cycle."""

    def __init__(self, cycle: Cycle, others: "ToldAgain") -> None:
        self._cycle = cycle
        self._others: ToldAgain = proxy(others)  # which keeps this
        self._within_cap: dict[str, tuple[int, bool]] = {}

    def told(self, gang: Gang) -> Work[Reasons]:
        """What the gang is told; empty where its turn is needed."""
        cycle, uid = self._cycle, gang.uid
        kind = self._others.kind_of(gang)
        promise = cycle.promised.get(uid)
        if kind is None or promise is None or not (kind.counted and kind.alone) or kind.fixed or self._others.room.kept:
            return ()
        reservations = cycle.reservations
        if uid in reservations.missing or uid in cycle.refills.paid or not reservations.comes_free(uid):
            return ()
        if any(promise.get(resource, 0) < amount for resource, amount in kind.demand.items()):
            return ()
        if not self._is_within_cap(gang.queue):
            return ()
        victims = yield from cycle.victims()
        found = self._reasons(gang, kind)
        if found:
            kind.cycle = cycle.failures.past.cycle
            cycle.stats.tried += 1
            cycle.failures.past.spared += 1
            reservations.keep(uid, victims.leaving)
        return found

    def agrees(self, gang: Gang, kind: Kind, reasons: Reasons) -> bool:
        """Whether the gang, which was told that at its turn, would be told the same, or nothing."""
        own = self._cycle.reservations.of.get(gang.uid, ())
        if not own or gang.uid not in self._cycle.promised:
            return True
        return self._composed(gang, kind, with_own(kind, self._cycle.trial.free, _amounts(own))) in ((), reasons)

    def _is_within_cap(self, queue: str) -> bool:
        """Whether the queue holds no more than it may: then it pays for what was promised, and has been charged."""
        ledger = self._cycle.ledger
        known = self._within_cap.get(queue)
        if known is None or known[0] != ledger.version:
            within = all(held <= cap for _, _, cap, held in ledger.limits(queue))
            known = self._within_cap[queue] = ledger.version, within
        return known[1]

    def _reasons(self, gang: Gang, kind: Kind) -> Reasons:
        own = self._cycle.reservations.of.get(gang.uid, ())
        if not own or not all(kind.shared.mask[placement.row] for placement in own):
            return ()
        takes = _amounts(own)
        numbers = with_own(kind, self._cycle.trial.free, takes)
        return () if self._borrows(kind, takes, numbers) else self._composed(gang, kind, numbers)

    def _borrows(self, kind: Kind, own: Mapping[int, Sequence[int]], numbers: OwnNumbers) -> bool:
        """Whether all of its pods fit with what others that were promised room there lend it."""
        trial, reservations = self._cycle.trial, self._cycle.reservations
        fit = numbers.fit
        for row, amounts in own.items():
            mine = list(map(int.__add__, trial.free[:, row].tolist(), amounts))
            extra = reservations.lent_at(row, amounts, mine, *self._cycle.leaving(row))
            lent = list(map(int.__add__, mine, extra))
            fit += room_for(kind.needs, lent, kind.pods) - room_for(kind.needs, mine, kind.pods)
        return fit >= kind.pods

    def _composed(self, gang: Gang, kind: Kind, numbers: OwnNumbers) -> Reasons:
        """The reasons that follow; empty where the numbers do not say them."""
        held = self._cycle.reservations.held
        others: tuple[int, frozenset[str]] = 0, frozenset()
        if self._others.room.fits_if_none_is_held(kind) >= kind.pods:
            count, kinds = held.others(gang.uid, (kind.shared.mask,))
            others = count, frozenset(kinds)
        follows = kind, kind.match, numbers.fit, numbers.able, numbers.best, kind.away, others
        known = self._cycle.waits.promised.get(gang.uid)
        if known is not None and known[0] == follows:
            return known[1]
        names = self._cycle.trial.nodes.static.resources
        best: Mapping[str, int] = {names[at]: most for (at, _), most in zip(kind.needs, numbers.best, strict=True)}
        reason = kind.told_of(numbers.fit, numbers.able, best)
        if reason is None:
            return ()
        first = (explain.waiting_for_victims(0, 0),)
        told = (*first, explain.held_for_other(others[1], others[0]), reason) if others[0] else (*first, reason)
        self._cycle.waits.promised[gang.uid] = follows, told
        return told


def _amounts(own: Sequence[Placement]) -> dict[int, list[int]]:
    """What these places take, by row of the node and resource."""
    found: dict[int, list[int]] = {}
    for placement in own:
        before, amounts = found.get(placement.row), placement.takes.tolist()
        found[placement.row] = amounts if before is None else list(map(int.__add__, before, amounts))
    return found
