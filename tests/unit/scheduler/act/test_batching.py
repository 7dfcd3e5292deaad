"""The loop that gathers what comes: it pauses only while it is told to, and never before work that is ready."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from t9ksched.scheduler.act import batching
from t9ksched.scheduler.act.batching import PacedLoop, pace


class Pauses:
    """Stands in for the module's clock: pauses take no time, and are counted."""

    def __init__(self) -> None:
        self.now = 100.0
        self.taken: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        self.now += seconds


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    clock = Pauses()
    monkeypatch.setattr(batching, "time", clock)
    return clock


async def wait(times: int) -> None:
    """Wait for a timer, so often."""
    loop = asyncio.get_running_loop()
    for _ in range(times):
        heard = asyncio.Event()
        timer = loop.call_later(0.02, heard.set)
        await heard.wait()
        timer.cancel()


@pytest.mark.parametrize(("answer_seconds", "longest"), [(0.0, 0.0), (0.016, 0.002), (10.0, batching.LONGEST_SECONDS)])
def test_it_pauses_between_looks_for_a_share_of_an_answers_time(
    pauses: Pauses, answer_seconds: float, longest: float
) -> None:
    async def main() -> None:
        pace(answer_seconds)
        await wait(5)
        pace(0.0)
        before = len(pauses.taken)
        await wait(5)
        assert len(pauses.taken) == before

    batching.run(main())
    assert (len(pauses.taken) >= 4) is (longest > 0)
    assert all(0 < taken < longest + 1e-6 for taken in pauses.taken)


def test_work_that_is_ready_never_waits(pauses: Pauses) -> None:
    async def main() -> None:
        pace(1.0)
        for _ in range(100):
            await asyncio.sleep(0)

    batching.run(main())
    assert pauses.taken == []


def test_what_came_meanwhile_is_found_in_one_look() -> None:
    """Answers on many sockets that come within a pause."""
    looks = 0

    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PacedLoop)

        ended = asyncio.Semaphore(0)

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while word := await reader.read(1):
                writer.write(word)
            writer.close()
            await writer.wait_closed()
            ended.release()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        pairs = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(30)]
        nonlocal looks
        select = loop._paced_selector.select

        def counted(timeout: float | None = None) -> Any:
            nonlocal looks
            looks += timeout != 0
            return select(timeout)

        loop._paced_selector.select = counted  # type: ignore[method-assign]
        pace(1.0)
        for _, writer in pairs:
            writer.write(b"x")
        words: list[Coroutine[Any, Any, bytes]] = [reader.read(1) for reader, _ in pairs]
        found = await asyncio.gather(*words)
        pace(0.0)
        for _, writer in pairs:
            writer.close()
            await writer.wait_closed()
            await ended.acquire()
        server.close()
        return len(found)

    assert batching.run(main()) == 30
    assert looks <= 10


async def test_other_loops_go_on_as_they_do() -> None:
    pace(1.0)
    await wait(2)
