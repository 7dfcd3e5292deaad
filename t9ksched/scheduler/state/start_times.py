"""The moment before which a job does not start, as its annotations ask for.

Nothing of it is agreed at acceptance: a job that waits may be given another moment, earlier or later, by editing the
annotation. Before it the job is in no order, has no plan and passes or blocks no other; its age counts from then.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from t9ksched.model.names import START_AFTER_ANNOTATION
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.wall_clock import nanoseconds, parse_moment
from t9ksched.scheduler.state.asks import asks_nothing
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, job_of

if TYPE_CHECKING:
    from t9ksched.scheduler.state.dependencies import Dependencies


class KnownJobs(Protocol):
    """The part of the scheduler's state that is read here."""

    jobs: dict[str, JobRecord]
    owners: Owners
    dependencies: "Dependencies"

    def gangs_of_owner(self, uid: str) -> list[GangRecord]:
        """The groups whose controlling owner has this UID."""
        ...


class StartAsked(msgspec.Struct, frozen=True):
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
        return _latest((job.asks.start,))
    owner = known.owners.root(gang).owner if gang.owner is not None else None
    texts = dict.fromkeys(pod.asks.start for pod in gang.members.values() if pod.asks.start)
    return _latest((job.asks.start if job else "", owner.asks.start if owner else "", gang.asks.start, *texts))


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


def age_from(known: KnownJobs, gang: GangRecord) -> int:
    """From when the age of a group counts if it was created earlier: the moment that it asked for, or the one at which
    the jobs that it waited for were over.
    """
    return 0 if asks_nothing(gang) else max(start_asked(known, gang).at, known.dependencies.met_at(gang))


def too_early(known: KnownJobs, gang: GangRecord, now: int) -> Reason | None:
    """Why the group does not start yet; None when it may. What has begun to run is not held up.

    The group is told the moment from which its age counts.
    """
    if gang.start_seen != gang.changes:
        gang.start_seen = gang.changes
        at = age_from(known, gang)
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
