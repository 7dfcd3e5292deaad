"""How many gangs wait, by queue and by their first reason: counted as reasons change, so that a page walks over none.

A gang that no cycle has looked at has `UNDECIDED` in place of a reason.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from t9ksched.scheduler.state.records import GangRecord

UNDECIDED: Final = "Undecided"
"""In place of a reason: no cycle has looked at the gang yet."""


class WaitingGangs:
    """`pending` are the groups that wait; `note` is told of each change of these, of their queue or their reasons."""

    def __init__(self, pending: Mapping[GangRecord, int]) -> None:
        self._pending = pending
        self.counts: Counter[tuple[str, str]] = Counter()
        """By queue and code of the reason; those that are 0 are left out."""
        self._words: dict[tuple[str, str], tuple[str, str]] = {}
        """One copy of each queue and code."""

    def note(self, gang: GangRecord) -> None:
        """Count the group where it is now."""
        known, now = gang.waits_by, None
        if gang in self._pending:
            now = gang.queue, str(gang.reasons[0].code) if gang.reasons else UNDECIDED
        if known == now:
            return
        if known is not None:
            self.counts[known] -= 1
            if not self.counts[known]:
                del self.counts[known]
                self._words.pop(known, None)
        if now is not None:
            now = self._words.setdefault(now, now)
            self.counts[now] += 1
        gang.waits_by = now
