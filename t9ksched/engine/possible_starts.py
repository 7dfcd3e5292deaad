"""From when on gangs may start, by numbers of pods and by quota, whichever nodes the plans of others have.

What the numbers exclude is excluded; what they allow takes a look at the nodes.
"""

import numpy as np

from t9ksched.engine.arrays import Int64s, Mask
from t9ksched.engine.blocks import end_of
from t9ksched.engine.future_charges import FutureCharges
from t9ksched.engine.placement.class_fit import ClassFit
from t9ksched.engine.placement.trial import Trial
from t9ksched.engine.reserved_rooms import ReservedRooms
from t9ksched.engine.scheduling_key import SchedulingKey
from t9ksched.engine.timeline import Timeline
from t9ksched.engine.windows import Windows
from t9ksched.model.gang import Gang


class PossibleStarts:
    """The possible starts of a cycle. `now`, and `latest` for starts, are in nanoseconds since the epoch."""

    def __init__(
        self,
        trial: Trial,
        timeline: Timeline,
        charges: FutureCharges,
        windows: Windows,
        reserved: ReservedRooms | None,
        now: int,
        latest: int,
    ) -> None:
        self._trial = trial
        self._timeline = timeline
        self._charges = charges
        self._windows = windows
        self._reserved = reserved
        self._now = now
        self._latest = latest

    def openings(self, gang: Gang, key: SchedulingKey, before: int | None = None) -> list[int]:
        """Moments from now on at which the gang may fit, by numbers of pods, and its queue can pay, until it ends.

        They are sorted, and within the horizon; with `before`, they are earlier than that moment instead: what a plan
        is moved to does not depend on how far is looked ahead now, which time alone would change.
        """
        reserved = self._reserved
        last = self._latest if before is None else before - 1
        conditions: list[tuple[Int64s, Mask]] = self._charges.payable(gang.queue, key.demand)
        if reserved is not None:
            # Some of what is reserved from a gang depends on when it starts: it is tried at these moments.
            heeded = None if gang.reservation else reserved.heeded(gang, None)
            self._timeline.heed(heeded and heeded[0])
            at = np.array([self._now, *reserved.moments(gang, last)], np.int64)
            conditions.append((at, np.ones(len(at), np.bool_)))
        for column, pods in key.groups:
            at, rooms = self._timeline.supply(column)
            conditions.append((at, rooms >= pods))
        rest = reserved is not None and gang.reservation and not gang.lasts
        lasts = reserved.ends(gang) if reserved is not None and rest else gang.lasts
        found = self._windows.openings(gang, conditions, lasts, max(self._latest, last))
        within: list[int] = found[: np.searchsorted(found, last, side="right")].tolist()
        if reserved is not None and gang.reservation:
            own = reserved.own(gang)
            return [at for at in within if any(room.begin <= at < room.end for room in own)]
        return within

    def is_now(self, gang: Gang, key: SchedulingKey) -> bool:
        """Whether now is the first of the `openings` of a gang whose queue can pay."""
        if self._reserved is not None or self._windows.any:
            return self.openings(gang, key)[:1] == [self._now]
        until = end_of(gang, self._now)
        return all(self._timeline.steps(column).supplied(until) >= pods for column, pods in key.groups)

    def lacks(self, column: ClassFit, pods: int, until: int) -> bool:
        """Whether for so many pods of a class to which room alone matters there is surely none until that moment,
        wherever the plans stand; False also where that is not known without more work.
        """
        if self._reserved is not None or self._timeline.lacks_twice or not self._timeline.follows(self._trial):
            return False
        return self._timeline.steps(column).supplied(until) < pods
