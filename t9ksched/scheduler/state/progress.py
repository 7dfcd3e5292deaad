"""The only place where findings of other parts of the scheduler are written into records of groups and pods."""

from collections.abc import Mapping
from typing import Any

from t9ksched.model.reasons import Reason
from t9ksched.scheduler.state.change_feed import ChangeFeed
from t9ksched.scheduler.state.meters import Meters
from t9ksched.scheduler.state.other_numbers import OtherNumbers
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.waiting_gangs import WaitingGangs


class Progress:
    """Commands that change records; outside the state records are only read. Times are nanoseconds since the epoch."""

    def __init__(self, feed: ChangeFeed, waiting: WaitingGangs, meters: Meters) -> None:
        self._feed = feed
        self._waiting = waiting
        self._meters = meters
        self.other_numbers = OtherNumbers(self._told_otherwise)

    def waits(self, gang: GangRecord, reasons: tuple[Reason, ...], position: int | None) -> bool:
        """The group waits, for these reasons, at this place of its queue. Returns whether it did not wait for such
        before; otherwise the change is published in its turn (`other_numbers.py`).
        """
        before, gang.reasons = gang.reasons, reasons  # the same object again says that nothing changed
        if before and of_a_kind(before, reasons):
            if gang.position != position or before != reasons:
                self.other_reasons(gang, reasons, position)
            return False
        if gang.position != position or before or reasons:
            gang.position = position
            self.other_numbers.discard(gang)
            self._told_otherwise(gang)
        self._waiting.note(gang)
        return True

    def other_reasons(self, gang: GangRecord, reasons: tuple[Reason, ...], position: int | None) -> None:
        """Nothing but numbers differs of why the group waits, or where: that is published in its turn."""
        gang.reasons, gang.position = reasons, position
        self.other_numbers.note(gang)

    def _told_otherwise(self, gang: GangRecord) -> None:
        self._feed.gangs.note(gang)
        self._feed.jobs.note(gang.owner.uid if gang.owner else gang.uid)

    def placed(self, gang: GangRecord, now: int) -> int | None:
        """Members of the group got places. How long it waited if it has its minimum with that, for the first time; else
        None.
        """
        for pod in gang.members.values():
            if pod.waiting:
                break
        else:
            gang.reasons, gang.position = (), None
        if gang.admitted or not gang.complete():
            return None
        gang.admitted = now
        waited = max(0, now - waits_since(gang))
        self._meters.waited.observe(waited / 1e9, gang.queue)
        return waited

    def placed_before(self, gang: GangRecord, moment: int) -> None:
        """It is on record that the group got its minimum then, though some of it may not be bound."""
        gang.admitted = gang.admitted or moment

    def starting(self, gang: GangRecord, now: int) -> int:
        """The group is incomplete and has never run; since when."""
        gang.first_bound = gang.first_bound or now
        return gang.first_bound

    def recovering(self, gang: GangRecord, now: int) -> int:
        """The group ran and is below its minimum; since when."""
        gang.fell = gang.fell or now
        return gang.fell

    def starting_since(self, gang: GangRecord, moment: int) -> None:
        """The group counts as incomplete since then."""
        gang.first_bound = moment

    def status_written(self, gang: GangRecord, status: Mapping[str, Any]) -> None:
        """The API server has this status of the PodGroup, and it is right."""
        gang.status = gang.own_status = dict(status)

    def victims_changed(self, gang: GangRecord) -> None:
        """Members of the group were chosen as victims, or are so no longer: it is shown to the engine anew."""
        gang.changes += 1
        self._feed.held_otherwise(gang)

    def evicting(self, pod: PodRecord) -> None:
        """The API server is asked to evict the pod: its place is taken away, if it goes now."""
        pod.evicted = True

    def not_evicted(self, pod: PodRecord) -> None:
        """The API server refused to evict the pod."""
        pod.evicted = False

    def bound(self, pod: PodRecord) -> None:
        """The API server bound the pod: refusals before that do not count any more."""
        pod.refusals = 0


def waits_since(gang: GangRecord) -> int:
    """Since when the group has waited for its places: of one that had its minimum before, since its pods were made."""
    if not gang.scheduled:
        return gang.created
    return max(gang.created, min([pod.created for pod in gang.living()], default=0))


def of_a_kind(before: tuple[Reason, ...], reasons: tuple[Reason, ...]) -> bool:
    """Whether nothing but numbers differs."""
    if before is reasons:
        return True
    if len(before) != len(reasons):
        return False
    if len(reasons) == 1:  # called for each gang that waits, in many cycles
        return before[0].code is reasons[0].code
    return [one.code for one in before] == [one.code for one in reasons]
