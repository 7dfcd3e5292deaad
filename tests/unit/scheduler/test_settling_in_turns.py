"""Whoever needs thousands of changed groups settled lets others have their turn meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from t9ksched.scheduler.keep.forecast_keeper import ForecastKeeper
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.changes import _SETTLED_AT_ONCE, Changes
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import NOW, pod, state_with

MANY = 3 * _SETTLED_AT_ONCE


def recorder(state: ClusterState) -> Callable[[], Awaitable[object]]:
    return HistoryRecorder(state, None, None, lambda: NOW).accept_running  # type: ignore[arg-type]


def forecasts(state: ClusterState) -> Callable[[], Awaitable[object]]:
    return ForecastKeeper(None, state, lambda: NOW).sweep


@pytest.mark.parametrize("who", [recorder, forecasts])
async def test_thousands_are_settled_in_several_turns(
    who: Callable[[ClusterState], Callable[[], Awaitable[object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_with(queues={"q": {}})
    for at in range(MANY):
        state.upsert_pod(pod(f"p{at}", queue="q"))
    settle, each_turn = Changes._settle, [0]

    def counted(changes: Changes, gang: GangRecord) -> None:
        each_turn[-1] += 1
        settle(changes, gang)

    async def turns() -> None:
        while True:
            await asyncio.sleep(0)
            each_turn.append(0)

    monkeypatch.setattr(Changes, "_settle", counted)
    others = asyncio.create_task(turns())
    await asyncio.sleep(0)
    await who(state)()
    others.cancel()
    with suppress(asyncio.CancelledError):
        await others
    assert sum(each_turn) == MANY
    assert max(each_turn) <= _SETTLED_AT_ONCE
