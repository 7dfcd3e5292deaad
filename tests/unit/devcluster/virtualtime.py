"""Event loops whose time jumps to the next timer as soon as nothing else is to be done: hours pass in milliseconds."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _Jumping(selectors.DefaultSelector):
    """Never waits: what would be a wait is added to the loop's time."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        # With the loop's own pipe alone nothing can become ready but by its threads, which it hears of otherwise.
        ready = super().select(0) if len(self.get_map()) > 1 else []
        if not ready and timeout:
            self.loop.now += timeout
        elif not ready and timeout is None:
            raise RuntimeError("everything waits and nothing will ever happen")
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on virtual time, which starts at 0."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a virtual loop."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
