"""Tells gangs that collect room, because they have waited for long, what they would be told at their turn.

At its turn what such a gang collects is free for it alone: how many of its pods fit follows from the numbers of its
kind, but for those few nodes.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from weakref import proxy

from t9ksched.engine import explain
from t9ksched.engine.actions.own_room import room_for, with_own
from t9ksched.engine.cycle import Cycle
from t9ksched.engine.starvation import Starving
from t9ksched.engine.wait_kinds import Kind, Reasons
from t9ksched.model.gang import Gang
from t9ksched.model.reasons import Code, Reason

if TYPE_CHECKING:
    from t9ksched.engine.actions.told_again import ToldAgain


def is_over_quota(told: Reasons) -> bool:
    """Whether that is told to a gang that its queue cannot pay for."""
    return told[0].code is Code.QUOTA_EXCEEDED


class CollectingAgain:
    """Tells gangs, in one cycle."""

    def __init__(self, cycle: Cycle, others: "ToldAgain") -> None:
        self._cycle = cycle
        self._others: ToldAgain = proxy(others)  # which keeps this

    def told(self, gang: Gang, starving: Starving, *, evicts: bool) -> Reasons:
        """What the gang, for which room is collected, is told; empty where its turn is needed."""
        cycle, others = self._cycle, self._others
        kind = others.kind_of(gang)
        if kind is None or others.holds(gang.uid) or not (kind.counted and kind.alone) or kind.fixed:
            return ()
        if not starving.stands(gang):
            return ()
        found = self._composed(gang, kind, starving)
        if not found or (evicts and is_over_quota(found)):
            return ()
        if evicts and not others.no_victims.found_for_collecting(kind, gang, cycle.failures.answer_to(kind.ident)):
            return ()
        kind.cycle = others.number
        return found

    def all_told(self, queue: str, before: Collection[str]) -> dict[str, Reasons] | None:
        """What the gangs of a queue that collect room are told, by UID; None where a turn is needed, or where others
        did `before`.
        """
        starving = self._cycle.starving
        if starving is None:
            return None if before else {}
        found: dict[str, Reasons] = {}
        for gang in starving.of(queue):
            if gang.uid not in before or not (told := self.told(gang, starving, evicts=False)):
                return None
            found[gang.uid] = told
        return found if len(found) == len(before) else None

    def count(self, told: Iterable[Reasons]) -> None:
        """Gangs were told that. Those that their queue cannot pay for would not have been tried."""
        number = sum(not is_over_quota(one) for one in told)
        self._cycle.stats.tried += number
        self._cycle.failures.past.spared += number

    def agrees(self, gang: Gang, kind: Kind, starving: Starving, reasons: Reasons) -> bool:
        """Whether the gang, which was told that at its turn, would be told the same, or nothing."""
        return self._composed(gang, kind, starving) in ((), reasons)

    def _composed(self, gang: Gang, kind: Kind, starving: Starving) -> Reasons:
        """The reasons that follow; empty where the numbers do not say them."""
        cycle, others = self._cycle, self._others
        trial, own = cycle.trial, starving.own(gang)
        if not all(kind.shared.mask[row] for row in own):
            return ()
        numbers = with_own(kind, trial.free, own)
        reason: Reason | None = None
        if numbers.fit < kind.pods:
            names = trial.nodes.static.resources
            best = {names[at]: most for (at, _), most in zip(kind.needs, numbers.best, strict=True)}
            reason = kind.told_of(numbers.fit, numbers.able, best)
            if reason is None:
                return ()
        if short := starving.quota.shortfalls(gang.uid, kind.queue, kind.demand):
            lacks = () if reason is None else (reason,)
            return (explain.quota_exceeded(short, kind.fewest), *lacks, starving.told(gang))
        if reason is None:
            return ()
        found: Reasons = (reason, starving.told(gang))
        if others.room.kept and others.room.fits_if_none_is_kept(kind) >= kind.pods:
            found = (explain.collected_for_others(), *found)
        held = cycle.reservations.held
        if held and self._fits_if_none_is_held(kind, own) >= kind.pods:
            count, kinds = held.others(gang.uid, (kind.shared.mask,))
            found = (explain.held_for_other(kinds, count), *found) if count else found
        return found

    def _fits_if_none_is_held(self, kind: Kind, own: dict[int, list[int]]) -> int:
        """How many of its pods would fit by numbers if no room was held for anybody, what it collects free."""
        trial, held = self._cycle.trial, self._cycle.reservations.held
        fits = self._others.room.fits_if_none_is_held(kind)
        for row, amounts in own.items():
            free = list(map(int.__add__, trial.free[:, row].tolist(), held.on(row)))
            mine = list(map(int.__add__, free, amounts))
            fits += room_for(kind.needs, mine, kind.pods) - room_for(kind.needs, free, kind.pods)
        return fits
