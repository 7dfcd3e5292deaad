"""The time limits of a job: requested by annotations, recorded at acceptance, changed since, set by its queue. The
recorded limit counts, whatever the annotations say later; `limit_warning` tells users of the difference.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from t9ksched.model.names import TIME_LIMIT_ANNOTATION
from t9ksched.model.queue import Queue
from t9ksched.model.timelimit import TimeLimit, limit_seconds, shortest, time_limit, written
from t9ksched.scheduler.state.advance_book import SECOND, SLACK, AdvanceBook
from t9ksched.scheduler.state.asks import asks_nothing
from t9ksched.scheduler.state.clocks import NO_LIMIT_ASKED, Asked, Clocks, asked
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.owners import Owners
from t9ksched.scheduler.state.records import GangRecord, PodRecord, job_of
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl


class Known(Protocol):
    """The part of the scheduler's state that is read here."""

    jobs: dict[str, JobRecord]
    acceptances: dict[str, Acceptance]
    controls: dict[str, JobControl]
    queues: dict[str, Queue]
    clocks: Clocks
    owners: Owners
    advance: AdvanceBook


def limit_asked(known: Known, gang: GangRecord) -> Asked:
    """The time limit that the annotations of a group's job, and of the root owner above it, ask for now.

    Of a job of a kind that is turned into pods here its own annotation counts, not the copies on what it owns.
    """
    if asks_nothing(gang):
        return NO_LIMIT_ASKED
    job = known.jobs.get(job_of(gang))
    if job is not None and job.kind != "Job":
        return asked((job.asks.limit,))
    texts = [pod.asks.limit for pod in gang.members.values() if pod.asks.limit]
    owner = known.owners.root(gang).owner if gang.owner is not None else None
    return asked((job.asks.limit if job else "", owner.asks.limit if owner else "", gang.asks.limit, *texts))


def own_limit(known: Known, gang: GangRecord) -> int | None:
    """The limit of a group's job in seconds: as accepted or changed since, or the rest of its reservation; None without
    one.
    """
    return shortest((agreed_limit(known, gang), reservation_limit(known, gang)))


def agreed_limit(known: Known, gang: GangRecord) -> int | None:
    """The limit of a group's job in seconds, as accepted or changed since; None without one."""
    root = known.acceptances.get(known.owners.root_uid(gang.owner)) if gang.owner else None
    agreed = [one.time_limit_seconds for one in (gang.acceptance, root) if one is not None]
    return known.clocks.limit(job_of(gang), control_of(known, gang), agreed)


def reservation_limit(known: Known, gang: GangRecord) -> int | None:
    """The rest of the reservation that a group without a limit got as its limit, in seconds since it runs; None for
    others. It is ended so early that its room is free when the reservation ends.
    """
    until = known.advance.until(gang)
    if until is None:
        return None
    clock = known.clocks.of(gang)
    since = (clock.run.ran_at or clock.run.bound_at if clock is not None else 0) or gang.first_bound
    grace = max((pod.grace for pod in gang.members.values()), default=0) * SECOND
    return max(1, (until - since - SLACK - grace) // SECOND) if since else None


def never_limited(gang: GangRecord) -> bool:
    """Whether no annotation of a group without an owner asks for anything, and no limit was agreed with it."""
    return asks_nothing(gang) and (gang.acceptance is None or gang.acceptance.time_limit is None)


def control_of(known: Known, gang: GangRecord) -> JobControl | None:
    """The managers' override for the job of a group, or for the root owner above it; the later of the two, with the
    limit that was given later.
    """
    if not known.controls:
        return None
    own = known.controls.get(job_of(gang))
    above = known.controls.get(known.owners.root_uid(gang.owner)) if gang.owner is not None else None
    if own is None or above is None:
        return own or above
    later = above if above.at >= own.at else own
    limits = [one for one in (own, above) if one.time_limit_seconds is not None]
    if not limits:
        return later
    last = max(limits, key=lambda one: one.limited_at or one.at)
    return replace(later, time_limit_seconds=last.time_limit_seconds, limited_at=last.limited_at or last.at)


def asked_at_end(known: Known, gang: GangRecord) -> int | None:
    """What the annotations of a group's job ask for when its limit ends it, in seconds, 0 for no limit; None if they
    say nothing of it. It may be another limit: an update counts, and a queue allows less.
    """
    want = limit_asked(known, gang)
    return want.seconds or 0 if want.texts else None


def limit_warning(known: Known, gang: GangRecord) -> str:
    """A warning about the annotation that requests a time limit; empty when there is none."""
    want = limit_asked(known, gang)
    if want.fault or gang.acceptance is None:
        return want.fault
    own = agreed_limit(known, gang)
    if want.seconds == own:
        return ""
    clock, control = known.clocks.of(gang), control_of(known, gang)
    ended = clock is not None and clock.run.ended_code
    if not want.texts and (ended or not gang.members):
        return ""  # the pods that asked for it are gone
    given = control is not None and control.time_limit_seconds is not None
    if given or (clock is not None and clock.run.limit is not None):
        return ""
    queue = known.queues.get(gang.queue)
    asks = f"the annotation {TIME_LIMIT_ANNOTATION} asks for a time limit of {written(want.seconds)}"
    if want.seconds is not None and own is not None and own == _seconds(queue) and own < want.seconds:
        return f"{asks}: queue {gang.queue!r} allows {written(own)}, which counts"
    return f"{asks}: what was agreed when the job was accepted counts, {written(own)}"


def limit_of(known: Known, gangs: Collection[GangRecord], job_uid: str) -> TimeLimit:
    """The limit in force for a job of these groups; for one that was not accepted yet, the requested one,
    unless an update counts instead.
    """
    if len(gangs) == 1:
        (gang,) = gangs
        if _is_single(known, gang, job_uid):
            (pod,) = gang.members.values()
            if (plain := _plain_limit(known, gang, pod)) is not None:
                return plain
    limits: list[int | None] = []
    lengths: list[int | None] = []
    rests: list[int | None] = []
    control = known.controls.get(job_uid)
    for gang in gangs:
        control = control_of(known, gang)
        if gang.acceptance:
            own = agreed_limit(known, gang)
            if own is not None and not _shortened(known, gang, own):
                limits.append(own)
        else:
            requested = limit_asked(known, gang).seconds
            limits.append(known.clocks.limit(job_of(gang), control, [requested]))
        if gang.virtual and gang.owner is None:
            limits.extend([pod.active_deadline for pod in gang.members.values()])
        lengths.append(_seconds(known.queues.get(gang.queue)))
        rests.append(reservation_limit(known, gang))
    job = known.jobs.get(job_uid)
    if job is not None:
        limits.append(job.deadline)
        if not gangs:  # nothing is made of it yet
            requested = asked((job.asks.limit,)).seconds
            limits.append(known.clocks.limit(job_uid, control, [requested]))
            lengths.append(_seconds(known.queues.get(job.queue or "")))
    own = shortest(limits)
    if own is None and (ended := known.clocks.ended_by(job_uid, control)) is not None:
        own, rests = (None, [*rests, ended.seconds]) if ended.rest else (ended.seconds, rests)
    return time_limit(own, shortest(lengths), shortest(rests))


def limit_of_pod(known: Known, gang: GangRecord, pod: PodRecord) -> TimeLimit:
    """The same for a job that is this pod, of which there is neither a clock nor an object beside it."""
    return _plain_limit(known, gang, pod) or limit_of(known, (gang,), gang.uid)


def _is_single(known: Known, gang: GangRecord, job_uid: str) -> bool:
    """Whether the job is a single pod without a clock."""
    single = gang.virtual and len(gang.members) == 1
    return single and not (job_uid in known.clocks.by_job or job_uid in known.jobs)


def _plain_limit(known: Known, gang: GangRecord, pod: PodRecord) -> TimeLimit | None:
    """The limit of such a pod if it has none of its own, as most of many thousands; else None."""
    if gang.reservation or gang.uid in known.controls or not never_limited(gang):
        return None
    return time_limit(pod.active_deadline, _seconds(known.queues.get(gang.queue)))


def _shortened(known: Known, gang: GangRecord, own: int) -> bool:
    """Whether a group was accepted with the limit of its queue, because it asks for a longer one: then that counts."""
    want, clock = limit_asked(known, gang).seconds, known.clocks.of(gang)
    given = clock is not None and clock.run.limit is not None
    if given or known.clocks.updated(job_of(gang), control_of(known, gang)):
        return False
    return own == _seconds(known.queues.get(gang.queue)) and want is not None and want > own


def _seconds(queue: Queue | None) -> int | None:
    """The longest that a queue lets its pods run."""
    return limit_seconds(queue.spec.max_duration) if queue is not None else None


def limit_agreed(known: Known, gang: GangRecord, queue: Queue) -> timedelta | None:
    """The limit to accept: the requested one, at most what the queue allows. Without a request the queue's own
    applies.
    """
    limit = limit_asked(known, gang).seconds
    found = None if limit is None else shortest((limit, _seconds(queue)))
    return None if found is None else timedelta(seconds=found)
