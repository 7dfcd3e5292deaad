"""How much one user may ask for: objects in a request, requests in a minute, jobs that wait.

Refused before the cluster is asked, with 429 `RateLimited` and the seconds after which to ask again; a request with too
many objects is refused for good. Each replica counts the requests that it gets itself; jobs that wait are counted in
the database, once a second at the most, and each replica adds what it let in since.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

from api.problems import Problem, invalid
from t9ksched.model.errors import FieldError
from t9ksched.store.jobs import Jobs

_MOST_KEPT: Final = 10_000
"""Users whose requests are counted; of more, those who asked for little lately are forgotten."""
_COUNTED_SECONDS: Final = 1.0
"""How long a count of waiting jobs is believed."""
_WAIT_SECONDS: Final = 60
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class Limits:
    """What a replica lets each user do; None is no limit."""

    objects: int | None = None
    """Of one request."""
    requests: int | None = None
    """A minute."""
    waiting: int | None = None
    """Jobs of a user."""
    queued: int | None = None
    """Jobs in a queue."""


NO_LIMITS: Final = Limits()


@dataclass(slots=True)
class _Bucket:
    """Requests that a user may make now, as of `at`."""

    left: float
    at: float


class Allowances:
    """Counts what users ask for. `clock` gives seconds that only grow."""

    def __init__(self, limits: Limits, jobs: Jobs, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._jobs = jobs
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}

    def request(self, user: str) -> None:
        """Count a request of a user: a minute's worth at once at the most, then one after the other.

        Raises:
            Problem: RateLimited, with the seconds until the next one.
        """
        most = self._limits.requests
        if most is None:
            return
        now = self._clock()
        bucket = self._buckets.get(user)
        if bucket is None:
            if len(self._buckets) >= _MOST_KEPT:
                self._forget(now, most)
            bucket = self._buckets[user] = _Bucket(float(most), now)
        bucket.left = min(float(most), bucket.left + (now - bucket.at) * most / 60)
        bucket.at = now
        if bucket.left < 1 - _ROUNDING:
            seconds = max(1, math.ceil((1 - bucket.left) * 60 / most - _ROUNDING))
            raise _limited(f"{user!r} may make {most} requests a minute", seconds, "ask less often")
        bucket.left -= 1

    def objects(self, count: int) -> None:
        """See that a request has not too many objects.

        Raises:
            Problem: InvalidField.
        """
        most = self._limits.objects
        if most is not None and count > most:
            text = f"the request has {count} objects, and at most {most} are taken in one"
            raise invalid([FieldError("", text)], remedy="split it into several requests")

    async def waiting(self, user: str, queues: Mapping[str, int]) -> None:
        """See that jobs may be added: so many in each of `queues`, by the user.

        Raises:
            Problem: RateLimited: too many wait already.
        """
        more = sum(queues.values())
        if not more:
            return
        await self._room("submitter", user, more, self._limits.waiting, f"of {user!r}")
        for name, count in queues.items():
            await self._room("queue", name, count, self._limits.queued, f"in the queue {name!r}")
        for key, count in (("submitter", user), more), *((("queue", name), count) for name, count in queues.items()):
            if key in self._counts:
                at, known = self._counts[key]
                self._counts[key] = at, known + count

    async def _room(self, what: str, name: str, more: int, most: int | None, whose: str) -> None:
        if most is None:
            return
        now = self._clock()
        at, count = self._counts.get((what, name), (-math.inf, 0))
        if now - at >= _COUNTED_SECONDS:
            count = await self._jobs.waiting(what, name, most)
            if len(self._counts) >= _MOST_KEPT:
                self._counts.clear()
            self._counts[what, name] = now, count
        if count + more > most:
            text = f"{count} jobs {whose} wait already, and at most {most} may"
            raise _limited(text, _WAIT_SECONDS, "wait until some have started, or cancel some")

    def _forget(self, now: float, most: int) -> None:
        full = [user for user, one in self._buckets.items() if one.left + (now - one.at) * most / 60 >= most]
        for user in full or list(self._buckets)[: _MOST_KEPT // 2]:
            del self._buckets[user]


def _limited(text: str, seconds: int, remedy: str) -> Problem:
    return Problem("RateLimited", text, remedy=remedy, headers={"Retry-After": str(seconds)})
