"""Until when room is held that is reserved for gangs and not used yet, for planned starts.

Room of victims: its gang has it at the latest when the promise ends, and holds it as long as it may run then. Room kept
for a lost or refused member: until its gang ends. At the turn of a gang what is reserved for it is its own and free, so
it is not on the timeline then.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from t9ksched.engine.policy import Policy
from t9ksched.engine.reservations import Reservations
from t9ksched.engine.timeline import Part, Room, Timeline
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang

_SECOND: Final = 1_000_000_000
_SLACK_SECONDS: Final = 60
"""How much longer than the longest grace period it may take until a gang has the room of its victims."""


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
    ) -> None:
        self._reservations = reservations
        self._timeline = timeline
        self._gangs = gangs
        self._now = now
        self.delay = (policy.preemption.max_grace_seconds + _SLACK_SECONDS) * _SECOND
        """How long it may take until victims have left, in nanoseconds."""
        self._overdue = policy.planning.resolution_seconds * _SECOND if policy.planning is not None else 0
        self._ends: dict[str, int] = {}
        if reservations.of:
            self._ends = {one.gang: one.at for one in view.expected_ends if one.gang in reservations.of}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._reservations.of)

    def lay(self, owners: Iterable[str] | None = None) -> None:
        """Put what is reserved for these gangs, by UID, or for all of them, on the timeline."""
        held = self._reservations.of
        for owner in held if owners is None else owners:
            gang, placements = self._gangs.get(owner), held.get(owner)
            if not placements:
                continue
            if (end := self._ends.get(owner)) is not None:
                self._timeline.hold(owner, max(end, self._now + self._overdue), "", Room.placed(placements))
            elif gang is not None and gang.lasts and self._reservations.comes_free(owner):
                own = [one for one in self._reservations.standing if one.owner == owner]
                latest = max(min(one.until or one.since + self.delay, one.since + self.delay) for one in own)
                end = max(latest, self._now) + gang.lasts
                self._timeline.hold(owner, end, gang.queue, Room.placed(placements))

    def lift(self, owner: str) -> None:
        """It is the turn of this gang: what is reserved for it is free for it."""
        self._timeline.release(owner)

    def promise(self, gang: Gang, parts: Iterable[Part]) -> None:
        """Room of victims was promised to the gang: class, row and number of pods."""
        if gang.lasts:
            self._timeline.hold(gang.uid, self._now + self.delay + gang.lasts, gang.queue, Room(list(parts)))
