"""Why gangs wait is recorded at once, other numbers of it every two seconds, and nothing twice."""

import asyncio
from unittest.mock import Mock

import pytest

from t9ksched.engine.plan import Waiting
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.decide import telling
from t9ksched.scheduler.decide.telling import Telling
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.decide.test_loop_steps import loop_over

MANY = 1000


def waiting(gang: int, free: int, code: Code = Code.INSUFFICIENT_RESOURCES) -> Waiting:
    return Waiting(f"g{gang}", (Reason(code, f"best has {free} free"),), gang + 1)


def plan(free: int) -> tuple[Waiting, ...]:
    return tuple(waiting(at, free) for at in range(MANY))


class Told:
    """A teller, and of how many gangs it recorded something in each call."""

    def __init__(self) -> None:
        self.state, self.recorder = ClusterState(), Mock()
        self.telling = Telling(self.state, self.recorder)

    async def recorded(self, told: tuple[Waiting, ...]) -> list[str]:
        self.recorder.reset_mock()
        await self.telling.tell(told, 1)
        return [call.args[0] for call in self.recorder.waits.call_args_list]


async def test_other_numbers_are_recorded_from_time_to_time_and_never_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    assert len(await told.recorded(plan(0))) == MANY
    for free in (1, 0, 1):
        assert not await told.recorded(plan(free))
        assert (told.telling.due is not None) is bool(free)
    monkeypatch.setattr(telling, "NUMBERS_SECONDS", 0.0)
    assert len(await told.recorded(plan(1))) == MANY
    assert told.telling.due is None
    assert not await told.recorded(plan(1))


async def test_all_else_is_recorded_at_once() -> None:
    told = Told()
    await told.recorded(plan(0))
    other = list(plan(1))
    other[7] = waiting(7, 0, Code.QUOTA_EXCEEDED)
    assert await told.recorded(tuple(other)) == ["g7"]
    assert not await told.recorded(tuple(other[: MANY - 100]))
    assert len(await told.recorded((*other[:500], waiting(MANY, 0), *other[500 : MANY - 1]))) >= 400
    told.state.waiting_gangs.told_elsewhere += 1
    assert len(await told.recorded(tuple(other))) == MANY


async def test_a_loop_with_nothing_else_to_do_records_what_was_put_off() -> None:
    loop = loop_over(ClusterState(), Mock())
    assert loop._pause() is None
    for free in range(2):
        await loop._telling.tell(plan(free), 1)
    pause = loop._pause()
    assert pause is not None
    assert pause <= telling.NUMBERS_SECONDS
    assert loop._telling.due is not None
    assert loop._telling.due <= asyncio.get_running_loop().time() + telling.NUMBERS_SECONDS
