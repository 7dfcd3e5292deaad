"""After repeated bind failures a job may not preempt; the pause doubles each time.

Room that victims made is of no use to a job whose bindings the API server refuses, or whose pods no kubelet admits: the
victims come back, and the next try would evict them, or others on the next node, once more. Such a job may take what is
free at any time; the time for which no victim is evicted for it doubles with each failed try.
"""

from typing import Final

import msgspec

from t9ksched.scheduler.state.records import GangRecord, job_of

_SECOND: Final = 1_000_000_000
FIRST_NS: Final = 10 * _SECOND
LONGEST_NS: Final = 3600 * _SECOND
FORGIVEN_NS: Final = 3600 * _SECOND
"""After so long without another refusal the next one counts as the first."""


class _Rest(msgspec.Struct):
    until: int
    length: int


class PreemptionBackoff:
    """By job, until when it may not preempt. Times are nanoseconds since the epoch."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}
        self.rests: dict[str, _Rest] = {}
        """The pause of each job that has one."""

    def refused(self, gang: GangRecord, now: int) -> None:
        """A binding of the gang failed. Failures before the end of the last pause count as one with it."""
        self._changed[job_of(gang)] = None
        rest = self.rests.get(job_of(gang))
        if rest is None or now >= rest.until + FORGIVEN_NS:
            self.rests[job_of(gang)] = _Rest(now + FIRST_NS, FIRST_NS)
        elif now >= rest.until:
            rest.length = min(2 * rest.length, LONGEST_NS)
            rest.until = now + rest.length

    def take_changed(self) -> dict[str, None]:
        """The jobs whose pause began or grew since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def until(self, gang: GangRecord, now: int) -> int:
        """When the gang may preempt again; 0 for at any time."""
        rest = self.rests.get(job_of(gang)) if self.rests else None
        return rest.until if rest is not None and rest.until > now else 0

    def forget(self, now: int) -> None:
        """Drop entries that are old enough not to count."""
        if self.rests:
            self.rests = {job: rest for job, rest in self.rests.items() if now < rest.until + FORGIVEN_NS}
