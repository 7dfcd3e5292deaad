"""Who asks gets an answer in time, also while the database hangs and its driver takes long to give a question up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from t9ksched.api import patience, readiness
from t9ksched.api.patience import within
from t9ksched.api.routers import metrics
from t9ksched.api.routers.metrics import page_of
from t9ksched.store.errors import DatabaseUnreachable
from tests.unit.api.world import World


class _Hanging:
    """What never answers, and is given up only when it is let go; then it fails."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self, *_: object) -> Any:
        while not self.let_go.is_set():
            with suppress(asyncio.CancelledError):
                await self.let_go.wait()
        raise DatabaseUnreachable("connection timeout expired")


async def _refused(*_: object) -> Any:
    raise DatabaseUnreachable("refused")


async def _over() -> None:
    async with asyncio.timeout(60):
        while patience._GIVEN_UP:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_an_answer_and_an_error_are_those_of_the_question() -> None:
    assert await within(60, asyncio.sleep(0, "found")) == "found"
    with pytest.raises(DatabaseUnreachable):
        await within(60, _refused())


async def test_what_is_given_up_is_not_waited_for_and_its_error_is_nobodys() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    hanging = _Hanging()
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            await within(0.01, hanging())
        leaving = asyncio.create_task(within(60, hanging()))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    assert len(patience._GIVEN_UP) == 2
    hanging.let_go.set()
    await _over()
    assert told == []


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("away", [_refused, None])
async def test_metrics_are_those_of_the_process_while_the_database_is_away(
    world: World,
    away: Callable[..., Awaitable[Any]] | None,
    openmetrics: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hanging = _Hanging()
    monkeypatch.setattr(world.leader, "metrics", away or hanging)
    monkeypatch.setattr(metrics, "_PATIENCE_SECONDS", 0.01)
    try:
        async with asyncio.timeout(30):
            page = (await page_of(world.app.state.services, openmetrics)).decode()
    finally:
        hanging.let_go.set()
    await _over()
    assert "# TYPE t9ksched_api_requests" in page
    assert page.endswith("# EOF\n") is openmetrics


async def test_readiness_names_a_database_that_hangs_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its driver takes to give the question up; those who ask meanwhile are told too."""
    hanging = _Hanging()
    monkeypatch.setattr(world.store, "check_writable", hanging)
    monkeypatch.setattr(readiness, "TIMEOUT_SECONDS", 0.5)
    try:
        for _ in range(2):
            async with asyncio.timeout(30):
                found = await world.nobody("GET", "/readyz")
            assert (found.status, found.paths) == (503, ["database"])
            assert "no answer within 0.5 s" in str(found.body)
    finally:
        hanging.let_go.set()
    await _over()
