"""The work queue on virtual time."""

import asyncio
import heapq
import itertools
from collections.abc import Callable

import pytest

from t9ksched.controller.workqueue import WorkQueue


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualTime:
    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._serial = itertools.count()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (self.now + seconds, next(self._serial), timer))
        return timer

    def pass_by(self, seconds: float) -> None:
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self.now = until


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def queue(time: VirtualTime) -> WorkQueue[str]:
    return WorkQueue(rest=1.0, first=2.0, most=10.0, call_later=time.call_later)


async def test_a_key_stands_in_it_once(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_a_key_that_comes_while_it_is_looked_at_comes_again_after_its_rest(
    queue: WorkQueue[str], time: VirtualTime
) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    assert len(queue) == 0, "one worker a key"
    queue.done("a")
    queue.add("a")
    time.pass_by(0.9)
    assert len(queue) == 0
    time.pass_by(0.2)
    assert len(queue) == 1
    await queue.get()
    queue.done("a")
    time.pass_by(5)
    assert queue.idle


async def test_failures_wait_longer_until_success(queue: WorkQueue[str], time: VirtualTime) -> None:
    assert [queue.add_failed("a") for _ in range(5)] == [2, 4, 8, 10, 10]
    queue.succeeded("a")
    assert queue.add_failed("a") == 2
    time.pass_by(1.9)
    assert len(queue) == 0
    time.pass_by(0.2)
    assert len(queue) == 1


async def test_the_last_timer_counts(queue: WorkQueue[str], time: VirtualTime) -> None:
    queue.add_after("a", 5)
    queue.add_after("a", 1)
    time.pass_by(1)
    assert await queue.get() == "a"
    queue.done("a")
    time.pass_by(10)
    assert len(queue) == 0
    queue.add_after("a", 1)
    queue.forget("a")
    time.pass_by(10)
    assert len(queue) == 0


async def test_get_waits_for_work(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("a")
    assert await waiting == "a"
