"""Keeps the planned start of a gang whose pods are missing for a moment.

A controller makes lost pods again within seconds. Until then the gang is not complete, or has no pod at all, and its
plan would be lost to a job that came later. After a minute without its minimum it has no plan any more.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from t9ksched.model.gang import Gang
from t9ksched.scheduler.state.records import GangRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.state import ClusterState

KEPT_NS: Final = 60 * 1_000_000_000


class MissingMembers:
    """Gangs with a planned start whose minimum is not there. Times are nanoseconds since the epoch."""

    def __init__(self, state: "ClusterState") -> None:
        self._state = state
        self._since: dict[str, int] = {}

    def look(self, shown: Iterable[Gang], now: int) -> list[Gang]:
        """Gangs to be shown to the engine besides `shown`: they have a plan, and no pod at the moment. Plans of gangs
        that have been incomplete for too long end.
        """
        book, before = self._state.reservations, self._since
        if not book.planned:
            before.clear()
            return []
        seen = {gang.uid for gang in shown}
        self._since, found = {}, []
        for uid in list(book.planned):
            record = self._state.gangs_by_uid.get(uid)
            if record is None or record.virtual or record.gathered() or not self._comes_back(record):
                continue
            since = self._since[uid] = before.get(uid, now)
            if now - since >= KEPT_NS:
                book.planned.pop(uid)
            elif uid not in seen:
                found.append(_without_pods(record))
        return found

    def ends(self) -> Iterable[int]:
        """When a plan ends if its gang is not complete by then."""
        return (since + KEPT_NS for uid, since in self._since.items() if uid in self._state.reservations.planned)

    def _comes_back(self, record: GangRecord) -> bool:
        """Whether pods may be made for the group again: its job is there, and is not paused."""
        job = self._state.jobs.get(job_of(record))
        gone = self._state.deleted
        return (job is None or job.wants_pods) and record.uid not in gone and job_of(record) not in gone


def _without_pods(record: GangRecord) -> Gang:
    """The group as the engine sees it: it waits, and nothing of it is there."""
    least = record.minimum
    return Gang(
        uid=record.uid,
        name=record.key,
        queue=record.queue,
        priority=record.priority,
        created=record.created,
        min_member=max(1, least.members),
        roles=least.roles,
        accepted=record.acceptance is not None,
        lasts=record.lasts,
        user=record.user,
    )
