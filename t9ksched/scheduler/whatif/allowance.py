"""How many questions that take a process of their own are answered: few at once, few a minute for each user."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from t9ksched.model.errors import FieldError

Json = dict[str, Any]
MOST_AT_ONCE: Final = 2
MOST_A_MINUTE: Final = 10
"""Questions of one user."""
_MINUTE: Final = 60.0
_MOST_USERS: Final = 10_000


class NotAnswered(Exception):
    """No answer: `status` as in HTTP, with a stable code and the seconds after which to ask again."""

    def __init__(
        self, status: int, code: str, detail: str, *, again: int = 0, errors: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.again, self.errors = status, code, detail, again, tuple(errors)

    def to_json(self) -> Json:
        """For the replica that asked."""
        errors = [{"path": one.path, "message": one.message} for one in self.errors]
        return {"code": self.code, "detail": self.detail, "again": self.again, "errors": errors}


class Allowance:
    """Counts questions of one sort, which `what` names in the plural."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._asked: dict[str, deque[float]] = {}
        """When each user asked within the last minute, by the event loop's clock."""
        self._running = 0

    @contextmanager
    def used(self, user: str, at_once: int, a_minute: int) -> Iterator[None]:
        """A question of that user is being answered.

        Raises:
            NotAnswered: the user asked too often, or too many are being answered.
        """
        self._count(user, at_once, a_minute)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def _count(self, user: str, at_once: int, a_minute: int) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._asked) > _MOST_USERS:
            self._asked = {name: times for name, times in self._asked.items() if times[-1] > now - _MINUTE}
        times = self._asked.get(user, deque())
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        if len(times) >= a_minute:
            again = max(1, round(times[0] + _MINUTE - now))
            text = f"{user!r} may ask for {a_minute} {self._what} a minute"
            raise NotAnswered(429, "RateLimited", text, again=again)
        if self._running >= at_once:
            text = f"{self._running} {self._what} run already, and no more than {at_once} run at once"
            raise NotAnswered(429, "RateLimited", text, again=5)
        times.append(now)
        self._asked[user] = times
