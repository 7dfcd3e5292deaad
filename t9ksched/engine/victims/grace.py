"""How long victims may take to end once they are evicted: their grace periods, as far as the policy lets them."""

from typing import Final

from t9ksched.engine.arrays import Mask, distinct
from t9ksched.engine.policy import Preemption
from t9ksched.engine.victims.eligibility import SECOND
from t9ksched.engine.victims.victim_table import VictimTable

_MOST_LIMITS: Final = 4
"""Of more grace periods of candidates than this, not every one is a limit of a search."""


class Graces:
    """The grace periods of gangs on a table. All times are in nanoseconds."""

    def __init__(self, table: VictimTable, rules: Preemption) -> None:
        self._table = table
        self._most = rules.max_grace_seconds * SECOND
        self._slowest = self._longest(~table.staying)

    def limits(self, units: Mask) -> list[int]:
        """The grace periods of these candidates, the longest first. None is shorter than that of pods that are leaving
        already, whose room a gang may come to use.
        """
        own = distinct(self._table.grace[self._table.unit_group[units]])[::-1].tolist()
        found = list(dict.fromkeys(min(max(grace, self._slowest), self._most) for grace in own))
        return [*found[: _MOST_LIMITS - 1], *found[_MOST_LIMITS - 1 :][-1:]] or [min(self._slowest, self._most)]

    def within(self, units: Mask, grace: int) -> Mask:
        """Those of the units whose pods end so soon, as far as the policy lets them."""
        if grace >= self._most:
            return units
        found: Mask = units & (self._table.grace[self._table.unit_group] <= grace)
        return found

    def until_gone(self, units: Mask) -> int:
        """The longest grace period of these units and of what is leaving already."""
        return min(max(self._longest(units[self._table.unit_of]), self._slowest), self._most)

    def leave(self, units: Mask) -> None:
        """These are leaving, too."""
        self._slowest = max(self._slowest, self._longest(units[self._table.unit_of]))

    def _longest(self, pods: Mask) -> int:
        return int(self._table.grace[self._table.group_of[pods]].max(initial=0))
