"""The moment before which a job does not start, as its annotations ask for.

Nothing of it is agreed at acceptance: a job that waits may be given another moment, earlier or later, by editing the
annotation. Before it the job is in no order, has no plan and passes or blocks no other; its age counts from then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from t9ksched.model.names import START_AFTER_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.wall_clock import nanoseconds, parse_moment
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, job_of


class KnownJobs(Protocol):
    """The part of the scheduler's state that is read here."""

    jobs: dict[str, JobRecord]
    owners: Owners

    def gangs_of_owner(self, uid: str) -> list[GangRecord]:
        """The groups whose controlling owner has this UID."""
        ...


@dataclass(frozen=True, slots=True)
class StartAsked:
    """The moment that annotations ask for, in nanoseconds since the epoch, 0 for none; and what cannot be read of them,
    as a sentence.
    """

    at: int = 0
    fault: str = ""


_NOTHING_ASKED: Final = StartAsked()


def start_asked(known: KnownJobs, gang: GangRecord) -> StartAsked:
    """The latest moment that the annotations of a group's job, of the root owner above it, of the group and of its
    members ask for.

    Of a job of a kind that is turned into pods here its own annotation counts, not the copies on what it owns.
    """
    job = known.jobs.get(job_of(gang))
    if job is not None and job.kind != "Job":
        return _latest((job.start_text,))
    owner = known.owners.root(gang).owner if gang.owner is not None else None
    texts = dict.fromkeys(pod.start_text for pod in gang.members.values() if pod.start_text)
    return _latest((job.start_text if job else "", owner.start_text if owner else "", gang.start_text, *texts))


def _latest(texts: Iterable[str]) -> StartAsked:
    given = [text for text in texts if text]
    if not given:
        return _NOTHING_ASKED
    read = [_read(text) for text in given]
    fault = next((one for one in read if isinstance(one, str)), "")
    return StartAsked(max((one for one in read if isinstance(one, int)), default=0), fault)


@lru_cache(maxsize=4096)
def _read(text: str) -> int | str:
    """The moment; or why it is ignored."""
    try:
        return nanoseconds(parse_moment(text))
    except ValueError as error:
        return f"the annotation {START_AFTER_ANNOTATION} is ignored: {error}"


def too_early(known: KnownJobs, gang: GangRecord, now: int) -> Reason | None:
    """Why the group does not start yet; None when it may. What has begun to run is not held up.

    The group is told the moment that it has asked for, which its age counts from.
    """
    if gang.start_seen != gang.changes:
        gang.start_seen = gang.changes
        at = start_asked(known, gang).at
        if at != gang.start_after:
            gang.start_after, gang.stale = at, True
    if gang.start_after <= now or has_begun(known, gang):
        return None
    return Reason(
        Code.START_TIME_NOT_REACHED,
        f"it is not to start before {timestamp(gang.start_after)}",
        unblocks=("that time comes", f"its annotation {START_AFTER_ANNOTATION} is changed"),
    )


def has_begun(known: KnownJobs, gang: GangRecord) -> bool:
    """Whether something of the group's job has a place, or lost it a moment ago and is to be replaced."""
    if gang.lost or gang.placed_count():
        return True
    return gang.owner is not None and any(one.placed_count() for one in known.gangs_of_owner(gang.owner.uid))
