"""Single pods without any limit, as most of many thousands that start are: nothing of them is timed but their start.

When such a pod was bound is in its record, so it gets a clock only if it starts slowly: then the clock is written, or
the pod is late. Until then nothing of it is looked at unless something changes, of it or of what all starts depend on.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from t9ksched.scheduler.keep.late_starts import Timeouts
from t9ksched.scheduler.state.clocks import SECOND, SLOW_START_NS
from t9ksched.scheduler.state.limits import never_limited
from t9ksched.scheduler.state.records import GangRecord

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState


class PlainStarts:
    """Times are nanoseconds since the epoch."""

    def __init__(self, state: "ClusterState", timeouts: Timeouts) -> None:
        self._state = state
        self._timeouts = timeouts
        self._longest = 0
        """How long after it was bound a pod without a clock is looked at again."""
        self._until: dict[str, int] = {}
        """By UID, the second in which a pod that starts is looked at again."""
        self._found: dict[str, None] = {}
        """Those that have changed."""
        self._seconds: dict[int, list[str]] = {}
        """The same by second; those that are not in `_until` any more count no more."""

    def changed(self, jobs: Iterable[str]) -> None:
        """These jobs have changed: those among them that start are looked at again."""
        if until := self._until:
            self._found |= {uid: None for uid in jobs if until.pop(uid, None) is not None}

    def due(self, now: int, *, all_again: bool) -> dict[str, None]:
        """The pods to be looked at: for which it is time, that have changed since the last call, or, where anything
        changed that all starts depend on, all of them.
        """
        found, self._found = self._found, {}
        timeout = self._timeouts.start() * SECOND
        self._longest = min(SLOW_START_NS, timeout) if timeout else SLOW_START_NS
        until, second = self._until, now // SECOND
        if all_again:
            found |= dict.fromkeys(until)
            until.clear()
            self._seconds.clear()
            return found
        for over in [at for at in self._seconds if at <= second]:
            for uid in self._seconds.pop(over):
                if until.get(uid) == over:
                    del until[uid]
                    found[uid] = None
        return found

    def needs_no_clock(self, gang: GangRecord, now: int) -> bool:
        """Whether nothing of the group's job is timed now, which is noted; else it is for its clock to say."""
        if not gang.virtual or gang.reservation or not never_limited(gang) or len(gang.members) != 1:
            return False
        uid, state, clocks = gang.uid, self._state, self._state.clocks
        if uid in clocks.by_job or uid in clocks.again or uid in state.jobs or uid in state.controls:
            return False
        queue = state.queues.get(gang.queue)
        if (queue is not None and queue.spec.max_duration) or state.gangs_by_uid.get(uid) is not gang:
            return False
        pod = next(iter(gang.members.values()))
        if pod.active_deadline is not None or state.owns_gangs(uid):
            return False
        if not pod.holds:
            clocks.without_place(uid)
        elif pod.phase == "Running" or uid in clocks.ran:
            clocks.runs_untimed(uid)
        else:
            until = gang.first_bound + self._longest
            if not gang.first_bound or now >= until:
                return False
            self._rest(uid, -(-until // SECOND))
            return True
        self._until.pop(uid, None)
        return True

    def _rest(self, uid: str, second: int) -> None:
        if self._until.get(uid) != second:
            self._until[uid] = second
            self._seconds.setdefault(second, []).append(uid)
