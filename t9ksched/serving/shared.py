"""Answers that are made once for all who ask at the same time: pages that anybody may ask for cost what one costs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Asks `ask` when nobody waits for its answer yet; who calls meanwhile is given the same answer, or error.

    What was begun is finished though all callers have gone, so that calling and going away begins no second one.
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
            task.exception()  # looked at: all callers may have gone
