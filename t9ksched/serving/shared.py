"""Answers that are computed once for all simultaneous requests: any number of clients costs what one costs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Calls `ask` unless a call is under way; calls made meanwhile get the same answer, or error. A call that has begun
    is finished even if all callers have gone, so that a client that disconnects and repeats starts no second one.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._asking: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The answer that is being made, or a new one."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._answer())
            self._asking.add_done_callback(self._over)
        return await asyncio.shield(self._asking)

    async def _answer(self) -> T:
        return await self._ask()

    def _over(self, task: asyncio.Task[T]) -> None:
        if self._asking is task:
            self._asking = None
        if not task.cancelled():
            task.exception()  # retrieved: all callers may have gone
