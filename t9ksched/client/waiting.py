"""Waiting for a job: how often it is looked at, and until when."""

import time
from collections.abc import Callable
from typing import Any, Final

from t9ksched.client.errors import NotFound, NotReached, WaitTimeout
from t9ksched.client.goals import GOALS, reached
from t9ksched.client.models import Job
from t9ksched.client.operations import Operation, Operations
from t9ksched.client.targets import target_of
from t9ksched.model.job import TERMINATING

FIRST_SECONDS: Final = 0.2
LONGEST_SECONDS: Final = 2.0


def _not_reached(goal: str, job: Job) -> NotReached:
    if job.phase == TERMINATING:
        return NotReached(f"{job} is being deleted and will not be {goal} any more", job)
    why = f": {job.reason.message}" if job.reason is not None and job.reason.message else ""
    return NotReached(f"{job} ended as {job.phase} and will not be {goal} any more{why}", job)


def wait(
    operations: Operations,
    job: Any,
    goal: str,
    namespace: str | None,
    timeout: float | None,
    on_change: Callable[[Job], object] | None,
    clock: Callable[[], float] = time.monotonic,
) -> Operation[Job]:
    """The job once it is where `goal` says; of `deleted` the job as it was seen last.

    Raises:
        NotReached: it cannot get there any more, or it was deleted meanwhile.
        WaitTimeout: it is not there in time.
        NotFound: there never was one.
        ValueError: that is no goal.
    """
    if goal not in GOALS:
        raise ValueError(f"{goal!r} is nothing to wait for: it is one of {', '.join(GOALS)}")
    target = target_of(job, namespace)
    end = None if timeout is None else clock() + timeout
    seen: Job | None = job if isinstance(job, Job) else None
    told: Job | None = None
    pause = FIRST_SECONDS
    while True:
        try:
            seen = yield from operations.one(target.path, Job)
        except NotFound:
            if goal == "deleted" and seen is not None:
                return seen
            if seen is not None:
                raise NotReached(f"{target} was deleted before it was {goal}", seen) from None
            raise
        if on_change is not None and seen != told:
            on_change(seen)
        told = seen
        there = reached(goal, seen.phase)
        if there is None:
            raise _not_reached(goal, seen)
        if there:
            return seen
        left = None if end is None else end - clock()
        if left is not None and left <= 0:
            why = f": {seen.reason.code}: {seen.reason.message}" if seen.reason is not None else ""
            raise WaitTimeout(f"{seen} is not {goal} after {timeout:g} s; it is {seen.phase}{why}", seen)
        yield pause if left is None else max(0.0, min(pause, left))
        pause = min(LONGEST_SECONDS, pause * 1.5)
