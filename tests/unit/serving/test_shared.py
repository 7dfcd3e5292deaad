"""An answer that is being made is given to all who ask meanwhile."""

import asyncio
from unittest.mock import Mock

import pytest

from t9ksched.scheduler.serve import internal
from t9ksched.scheduler.serve.internal import InternalServer
from t9ksched.serving.shared import Shared


class Question:
    def __init__(self) -> None:
        self.asked, self.go = 0, asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.asked


async def test_one_answer_for_all_waiting_callers_and_another_afterwards() -> None:
    question = Question()
    shared = Shared(question)
    asking = [asyncio.create_task(shared()) for _ in range(5)]
    await asyncio.sleep(0)
    question.go.set()
    assert await asyncio.gather(*asking) == [1] * 5
    assert await shared() == 2


async def test_a_caller_that_goes_away_ends_it_for_no_other_and_begins_no_second_one() -> None:
    question = Question()
    shared = Shared(question)
    for _ in range(3):
        gone = asyncio.create_task(shared())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
    stays = asyncio.create_task(shared())
    await asyncio.sleep(0)
    question.go.set()
    assert (await stays, question.asked) == (1, 1)


async def test_an_error_is_told_to_all() -> None:
    question = Question()
    question.error = ValueError("no")
    question.go.set()
    shared = Shared(question)
    told = await asyncio.gather(*(shared() for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in told] == ["no"] * 3
    assert question.asked == 1


async def test_the_metrics_page_of_the_leader_is_written_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no secret, and is long on a large cluster."""
    question = Question()

    async def page(*_: object, openmetrics: bool = False) -> bytes:
        return b"%d" % await question()

    monkeypatch.setattr(internal.MetricsPage, "exposition", page)
    server = InternalServer(Mock(), "secret", ("127.0.0.1", 0), asyncio.Event())
    asking = [asyncio.create_task(server.metrics(openmetrics=bool(each % 2))) for each in range(10)]
    await asyncio.sleep(0.01)
    question.go.set()
    await asyncio.gather(*asking)
    assert question.asked == 2, "a text and an OpenMetrics page"
