"""The time limit of a job: how users write it, and which of several counts.

A limit is written as a duration of queues (`4h`, `1h30m`); `0` means none. Of all limits that are set the shortest
counts, and its source is named. Of a job without any it may be learned how long jobs like it ran, which ends nothing.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

import msgspec

from t9ksched.model.duration import parse_duration

Source = Literal["job", "queue", "reservation", "learned", "none"]


class TimeLimit(msgspec.Struct, frozen=True):
    """How long a job may run: whole seconds, None without a limit; where it comes from; whether its end is enforced, by
    this scheduler or by the job's own controller, which follows from the source.
    """

    seconds: int | None = None
    source: Source = "none"
    enforced: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "enforced", self.source not in ("learned", "none"))


NO_LIMIT: Final = TimeLimit()


@lru_cache(maxsize=4096)
def limit_seconds(text: str) -> int | None:
    """The limit as written, in whole seconds rounded up; None for `0` and the empty text.

    Raises:
        ValueError: the text is no duration.
    """
    length = parse_duration(text)
    return None if length is None else math.ceil(length.total_seconds())


def shortest(limits: Iterable[int | None]) -> int | None:
    """The shortest of these limits in seconds; None is longer than any."""
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def time_limit(job: int | None, queue: int | None, reservation: int | None = None) -> TimeLimit:
    """What counts of the job's own limit, of its queue's and of the rest of its reservation, in seconds; of equal ones
    the job's is named, else the queue's.
    """
    if reservation is not None and all(one is None or reservation < one for one in (job, queue)):
        return TimeLimit(reservation, "reservation")
    if job is not None and (queue is None or job <= queue):
        return TimeLimit(job, "job")
    return TimeLimit(queue, "queue") if queue is not None else NO_LIMIT


def written(seconds: int | None) -> str:
    """A limit for people, in the grammar in which it is written: `1h30m`; `none` without one."""
    if seconds is None:
        return "none"
    parts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
