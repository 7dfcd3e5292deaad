"""How much one user may ask for: objects in a request, requests in a minute, jobs that wait.

Refused before the cluster is asked, with 429 `RateLimited` and the seconds after which to ask again; a request with
more objects than one may have, or with more jobs than may wait at all, is refused for good, with 422. Each replica
counts the requests that it gets itself; jobs that wait are counted in the database, once a second at the most, and each
replica adds what it let in since.
"""

import math
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

import msgspec

from t9ksched.admission import Request
from t9ksched.admission.entry import jobs_could_wait, jobs_may_wait
from t9ksched.admission.request import WaitCount
from t9ksched.api.http.problems import Problem, invalid, refused
from t9ksched.model.errors import FieldError
from t9ksched.store.jobs import Jobs

_MOST_KEPT: Final = 10_000
"""Users whose requests are counted; beyond that number the users with the fewest recent requests are forgotten."""
_COUNTED_SECONDS: Final = 1.0
"""How long a count of waiting jobs is used before the database is asked again."""
_WAIT_SECONDS: Final = 60
_ROUNDING: Final = 1e-6


class Limits(msgspec.Struct, frozen=True):
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


class _Bucket(msgspec.Struct):
    """Requests that a user may make now, as of `at`."""

    left: float
    at: float

    def told(self, most: int) -> dict[str, str]:
        """The headers: the limit, what is left of it, and the seconds until nothing of it is used."""
        return {
            "RateLimit-Policy": f"{most};w=60",
            "RateLimit-Limit": str(most),
            "RateLimit-Remaining": str(max(0, int(self.left + _ROUNDING))),
            "RateLimit-Reset": str(math.ceil((most - self.left) * 60 / most - _ROUNDING)),
        }


class _Wanted(msgspec.Struct, frozen=True):
    """So many jobs more that shall wait, of a user or in a queue, and how many may; None is no limit."""

    what: str
    """`submitter` or `queue`."""
    name: str
    more: int
    most: int | None

    @property
    def key(self) -> tuple[str, str]:
        """Under which it is counted."""
        return self.what, self.name

    def beside(self, count: int) -> WaitCount:
        """As the rules read it, beside so many that wait already."""
        whose = f"of {self.name!r}" if self.what == "submitter" else f"in the queue {self.name!r}"
        return WaitCount(whose, count, self.most, self.more)


class Allowances:
    """Counts what users ask for. `clock` gives seconds that only grow."""

    def __init__(self, limits: Limits, jobs: Jobs, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._jobs = jobs
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}

    def request(self, user: str) -> dict[str, str]:
        """Count a request of a user: a minute's worth at once at the most, then one after the other. The headers that
        tell how many are left; none without a limit.

        Raises:
            Problem: RateLimited, with the seconds until the next one.
        """
        most = self._limits.requests
        if most is None:
            return {}
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
            detail = f"{user!r} may make {most} requests a minute"
            raise _limited(detail, seconds, "ask less often", bucket.told(most))
        bucket.left -= 1
        return bucket.told(most)

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
            Problem: InvalidField: the jobs are more than may ever wait; RateLimited: too many wait already.
        """
        more = sum(queues.values())
        if not more:
            return
        wanted = [_Wanted("submitter", user, more, self._limits.waiting)]
        wanted += [_Wanted("queue", name, count, self._limits.queued) for name, count in queues.items()]
        could = Request("", waiting=[one.beside(0) for one in wanted])
        if not (verdict := jobs_could_wait(could)).allowed:  # the refusal that waiting does not lift comes first
            raise refused(verdict)
        for one in wanted:
            await self._room(one)
        for one in wanted:
            if one.key in self._counts:
                at, known = self._counts[one.key]
                self._counts[one.key] = at, known + one.more

    async def _room(self, wanted: _Wanted) -> None:
        most, key = wanted.most, wanted.key
        if most is None:
            return
        now = self._clock()
        at, count = self._counts.get(key, (-math.inf, 0))
        if now - at >= _COUNTED_SECONDS:
            count = await self._jobs.waiting(wanted.what, wanted.name, most)
            if len(self._counts) >= _MOST_KEPT:
                self._counts.clear()
            self._counts[key] = now, count
        if not (verdict := jobs_may_wait(Request("", waiting=[wanted.beside(count)]))).allowed:
            raise refused(verdict, {"Retry-After": str(_WAIT_SECONDS)})

    def _forget(self, now: float, most: int) -> None:
        full = [user for user, one in self._buckets.items() if one.left + (now - one.at) * most / 60 >= most]
        for user in full or list(self._buckets)[: _MOST_KEPT // 2]:
            del self._buckets[user]


def _limited(text: str, seconds: int, remedy: str, told: dict[str, str]) -> Problem:
    return Problem("RateLimited", text, remedy=remedy, headers={"Retry-After": str(seconds)} | told)
