"""Answers that have no end: events, and logs that are followed. They are sent part by part as they come, and a proxy
must neither keep nor hold them back.
"""

from collections import Counter
from collections.abc import Awaitable
from typing import Final, Protocol

from starlette.types import Message

from t9ksched.api.http.problems import Problem

HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""What says so."""
_MARK: Final = (b"x-accel-buffering", b"no")


def is_stream(start: Message) -> bool:
    """Whether the answer that begins with this message is one."""
    return _MARK in start["headers"]


class Closable(Protocol):
    """A stream that can be ended."""

    def aclose(self) -> Awaitable[None]: ...


class OpenStreams:
    """The open streams of one sort, counted by user.

    Args:
        what: they are, for people.
        most_a_user: how many a user may have.
        most: how many there may be in all.
    """

    def __init__(self, what: str, most_a_user: int, most: int) -> None:
        self._what = what
        self._most_a_user = most_a_user
        self._most = most
        self._of_users: Counter[str] = Counter()
        self._open: dict[int, Closable] = {}

    @property
    def open(self) -> int:
        """How many are open."""
        return len(self._open)

    def check(self, user: str) -> None:
        """Check that there may be one more.

        Raises:
            Problem: there are too many.
        """
        mine = self._of_users[user] >= self._most_a_user
        if mine or len(self._open) >= self._most:
            text = f"{self._most_a_user} {self._what} of yours are" if mine else f"{self._most} {self._what} are"
            remedy = "close some of them, or come again later"
            raise Problem("RateLimited", f"{text} open already", remedy=remedy, headers={"Retry-After": "30"})

    def join(self, user: str, stream: Closable) -> None:
        """One more is open."""
        self._open[id(stream)] = stream
        self._of_users[user] += 1

    def leave(self, user: str, stream: Closable) -> None:
        """It has ended."""
        if self._open.pop(id(stream), None) is not None:
            self._of_users[user] -= 1
            self._of_users += Counter()

    async def close(self) -> None:
        """End all of them."""
        for stream in list(self._open.values()):
            await stream.aclose()
