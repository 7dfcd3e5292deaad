"""Until when room is held that is reserved for gangs and not used yet, for planned starts.

Room of victims: its gang has it at the latest when the promise ends, and holds it as long as it may run then. Room kept
for a lost or refused member: until its gang ends, and its queue pays for a lost one until then. At the turn of a gang
what is reserved for it is its own and free, so it is not on the timeline then. `leaving_rooms.py` has what is lacking
twice until victims have left.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from t9ksched.engine.arrays import Int64s
from t9ksched.engine.blocks import NEVER_ENDS, Room
from t9ksched.engine.leaving_rooms import LeavingRooms
from t9ksched.engine.past_plans import EndOf
from t9ksched.engine.placement.trial import Placement
from t9ksched.engine.policy import Policy
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.timeline import Timeline
from t9ksched.engine.victims.victim_search import VictimSearch
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang
from t9ksched.model.reservation import PROMISE_SLACK_SECONDS

_SECOND: Final = 1_000_000_000
_ENFORCED_SECONDS: Final = 10
"""How much longer than their grace period it takes at most until victims have been told to go and have left."""


def leave_within(grace: int) -> int:
    """How long it may take until victims with that grace period have left; both in nanoseconds."""
    return grace + _ENFORCED_SECONDS * _SECOND


class PromisedRooms:
    """The reservations in force, on the timeline."""

    def __init__(
        self,
        view: View,
        reservations: Reservations,
        timeline: Timeline,
        gangs: Mapping[str, Gang],
        policy: Policy,
        now: int,
        end_of: EndOf,
    ) -> None:
        self._reservations = reservations
        self._timeline = timeline
        self._gangs = gangs
        self._now = now
        self._end_of = end_of
        self._longest = leave_within(policy.preemption.max_grace_seconds * _SECOND)
        resolution = policy.planning.resolution_seconds * _SECOND if policy.planning is not None else 0
        self._overdue = now + resolution
        self._ends: dict[str, int] = {}
        self._view = view
        self._charged: Mapping[str, tuple[str, Mapping[str, int]]] = reservations.charged()
        """What queues pay for room that is kept, by UID of the owner."""
        if self:
            self._read_ends()
        self._leaving = LeavingRooms(timeline, self._ends, now, self._overdue)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._reservations.of or self._reservations.missing)

    @property
    def come_free(self) -> bool:
        """Whether there is any that others are leaving: `follow` says who."""
        return any(map(self._reservations.comes_free, self._reservations.of))

    def follow(self, victims: VictimSearch) -> None:
        """Pods are leaving: before anything is put on the timeline, and before any room of victims is promised."""
        self._leaving.follow(victims)

    def lay(self, owners: Iterable[str] | None = None) -> None:
        """Put what is reserved for these gangs, by UID, or for all of them, on the timeline."""
        held, missing = self._reservations.of, self._reservations.missing
        for owner in held | missing if owners is None else owners:
            gang, placements = self._gangs.get(owner), held.get(owner)
            if not placements:
                if owner in missing and owner in self._ends and owner in self._charged:
                    self._timeline.pays(owner, max(self._ends[owner], self._overdue), *self._charged[owner])
                continue
            room, comes_free = Room.placed(placements, held=True), self._reservations.comes_free(owner)
            latest, end = self._now, NEVER_ENDS
            if comes_free:
                own = [one for one in self._reservations.standing if one.owner == owner]
                latest = max(
                    one.until - PROMISE_SLACK_SECONDS * _SECOND if one.until else one.since + self._longest
                    for one in own
                )
            if (known := self._ends.get(owner)) is not None:
                end = max(known, self._overdue)
                self._timeline.hold(owner, end, room)
                if owner in self._charged:
                    self._timeline.pays(owner, end, *self._charged[owner])
                elif gang is not None and comes_free:
                    self._timeline.pays(owner, end, gang.queue, room.demand)
            elif gang is not None and comes_free:
                end = self._end_of(gang, max(latest, self._now))
                if end != NEVER_ENDS:
                    self._timeline.hold(owner, end, room)
                    self._timeline.pays(owner, end, gang.queue, room.demand)
            if comes_free:
                self._leaving.promise(owner, latest, end, room)

    def lift(self, owner: str) -> None:
        """It is the turn of this gang: what is reserved for it is free for it."""
        self._timeline.release(owner)
        self._leaving.withdraw(owner)

    def promise(self, gang: Gang, places: Iterable[Placement], grace: int) -> None:
        """Room of victims was promised to the gang in these places. They get so long to end."""
        if not self._ends:
            self._read_ends()
        room, latest = Room.placed(places, held=True), self._now + leave_within(grace)
        end = self._end_of(gang, latest)
        if end != NEVER_ENDS:
            self._timeline.hold(gang.uid, end, room)
            self._timeline.pays(gang.uid, end, gang.queue, room.demand)
        self._leaving.promise(gang.uid, latest, end, room)

    def beside(self, taken: Int64s, lent: Mapping[int, Int64s]) -> None:
        """Lower `taken`, the change of the columns by plans for a gang to which room is lent, by row: where that is
        what the columns lack twice, it is in both.
        """
        for row, amounts in lent.items():
            taken[:, row] -= np.clip(amounts, 0, self._leaving.once(row))
        np.minimum(taken, 0, out=taken)

    def _read_ends(self) -> None:
        self._ends.update((one.gang, one.at) for one in self._view.expected_ends)
