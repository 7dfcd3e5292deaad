"""Answers within a time, also from what takes long to be given up.

A question to a database that hangs is not over when it is cancelled: its driver first asks the server to leave off, for
seconds. Whoever asked is told in time all the same.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

T = TypeVar("T")
_GIVEN_UP: Final[set[asyncio.Future[Any]]] = set()
"""Questions that are cancelled and not over yet: the event loop itself does not keep them from being collected."""


async def within(seconds: float, question: Awaitable[T]) -> T:
    """The answer, or the error.

    Raises:
        TimeoutError: there is none by then; the question is cancelled, and not waited for.
    """
    asking = asyncio.ensure_future(question)
    try:
        await asyncio.wait({asking}, timeout=seconds)
    finally:
        if not asking.done():
            asking.cancel()
            _GIVEN_UP.add(asking)
            asking.add_done_callback(_over)
    if not asking.done():
        raise TimeoutError
    return asking.result()


def _over(asking: "asyncio.Future[Any]") -> None:
    _GIVEN_UP.discard(asking)
    if not asking.cancelled():
        asking.exception()  # retrieved: nobody waits for it
