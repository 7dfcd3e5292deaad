"""Until when a job's clock need not be looked at if nothing of the job changes: most clocks have hours left.

What changes is told by the change feed. What all clocks depend on (the wall clock, timeouts of the policy, what queues
allow) ends all rests when it changes.
"""

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from t9ksched.scheduler.keep.late_starts import Timeouts
from t9ksched.scheduler.keep.plain_starts import PlainStarts
from t9ksched.scheduler.state.clocks import NEAR_SECONDS, SECOND, SLOW_START_NS, Clock
from t9ksched.scheduler.state.earliest_end import End

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

_LONGEST_NS: Final = 60 * SECOND
_FAR_NS: Final = 2 * NEAR_SECONDS * SECOND
"""So long before a job's end it is looked at each time."""
_MANY: Final = 1000


class ClockRests:
    """Times are nanoseconds since the epoch. `plain` are the pods without a clock that start."""

    def __init__(self, state: "ClusterState", timeouts: Timeouts) -> None:
        self.plain = PlainStarts(state, timeouts)
        self._state = state
        self._timeouts = timeouts
        self._until: dict[str, int] = {}
        self._next: list[tuple[int, str]] = []
        """A heap of ends of rests; those that are not in `_until` any more count no more."""
        self._jobs = state.feed.jobs.follow()
        self._common: object = None

    def hearing(self) -> Iterator[None]:
        """Read which jobs have changed, in steps."""
        for changed in self._jobs.pieces(_MANY):
            if self._until:
                for uid in changed:
                    self._until.pop(uid, None)
            self.plain.changed(changed)
            yield

    def due(self, now: int) -> dict[str, None]:
        """The jobs whose clocks, or starts, are to be looked at, in a lasting order."""
        clocks, until = self._state.clocks.by_job, self._until
        for _ in self.hearing():
            pass
        anew = (common := self._what_all_depend_on()) != self._common
        if anew:
            self._common = common
            until.clear()
        starting = self.plain.due(now, all_again=anew)
        while self._next and self._next[0][0] <= now:
            at, uid = heappop(self._next)
            if until.get(uid) == at:
                del until[uid]
        if len(clocks) == len(until):  # of clocks that are gone the rest is, too
            return starting
        return {uid: None for uid in clocks if uid not in until} | starting

    def _what_all_depend_on(self) -> object:
        lengths = {name: queue.spec.max_duration for name, queue in self._state.queues.items()}
        return self._state.clock_jumps, self._timeouts.start(), lengths

    def note(self, clock: Clock, end: End | None, now: int) -> None:
        """A clock was looked at, nothing was due, and the job is ended at `end` if it is at all: it rests as long as
        time alone changes nothing.
        """
        run = clock.run
        if run.ended_code or run.reserved_until or clock.lost_at or clock.unsure or clock.evicted or not run.bound_at:
            return
        moments = [now + _LONGEST_NS]
        if not run.ran_at:
            moments += [run.bound_at + SLOW_START_NS] if not (clock.written or clock.unwritten) else []
            moments += [run.bound_at + seconds * SECOND] if (seconds := self._timeouts.start()) else []
        if end is not None:
            moments.append(end.at - _FAR_NS - (clock.signal or 0) * SECOND)
        if (until := min(moments)) > now:
            self._until[run.uid] = until
            heappush(self._next, (until, run.uid))
            if len(self._next) > 2 * len(self._until) + _MANY:
                self._next = [(at, uid) for uid, at in self._until.items()]
                heapify(self._next)

    def forget(self, uids: Collection[str]) -> None:
        """These clocks are gone."""
        for uid in uids:
            self._until.pop(uid, None)
