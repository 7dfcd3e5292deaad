"""Why gangs wait is recorded at once, other numbers of it every two seconds, and nothing twice."""

import asyncio
import random
from typing import Any
from unittest.mock import Mock, patch

import pytest

from t9ksched.engine.plan import Waiting
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.decide import telling
from t9ksched.scheduler.decide.telling import Telling
from t9ksched.scheduler.state.progress import of_a_kind
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
        at_once = [call.args[0] for call in self.recorder.waits.call_args_list]
        numbers = [one.gang for call in self.recorder.other_numbers.call_args_list for one in call.args[0]]
        assert not (at_once and numbers)
        return at_once + numbers


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
    found = await told.recorded((*other[:500], waiting(MANY, 0), *other[500 : MANY - 1]))
    new = [f"g{at}" for at in (MANY, *range(MANY - 100, MANY - 1))]
    assert found == new, "those behind another are told what they were"
    assert not await told.recorded(tuple(other[3 : MANY - 1])), "three have started"
    assert await told.recorded(tuple(other[: MANY - 1])) == ["g0", "g1", "g2"], "they wait again"
    assert await told.recorded(tuple(other)[:500]) == []
    told.state.feed.told_elsewhere.note("g9")
    told.state.feed.told_elsewhere.note("gone")
    assert await told.recorded(tuple(other)[:500]) == ["g9"], "alone, and though the plan tells it what it did"
    assert await told.recorded(tuple(other)[:500]) == []
    told.telling.forget()
    assert len(await told.recorded(tuple(other))) == MANY


async def test_numbers_that_are_as_they_were_cost_no_look_at_each_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    told, looked = Told(), 0

    def count(*reasons: Any) -> bool:
        nonlocal looked
        looked += 1
        return of_a_kind(*reasons)

    monkeypatch.setattr(telling, "of_a_kind", count)
    plans = [plan(free) for free in range(3)]
    for one in (*plans, *plans):
        await told.recorded(one)
    looked = 0
    for one in (*plans, *plans):
        assert await told.recorded(one) == []
    assert not looked
    monkeypatch.setattr(telling, "NUMBERS_SECONDS", 0.0)
    assert len(await told.recorded(plans[2])) == MANY
    monkeypatch.setattr(telling, "NUMBERS_SECONDS", 2.0)
    looked = 0
    for one in plans:
        assert await told.recorded(one) == []
        assert (told.telling.due is None) is (one is plans[2])
    assert not looked, "also by what was recorded before"
    compared = Mock(return_value=False)
    with patch.object(Reason, "__eq__", compared):
        for one in (*plans, *plans):
            assert await told.recorded(one) == []
    compared.assert_not_called()
    other = (*plans[0][:7], waiting(7, 0, Code.QUOTA_EXCEEDED), *plans[0][8:])
    assert await told.recorded(other) == ["g7"]
    assert await told.recorded(plans[0]) == ["g7"], "what was like it is so no longer"


@pytest.mark.parametrize("seed", range(10))
async def test_what_is_recorded_is_what_plans_say_but_for_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any plans, told in any order, while others give reasons, too."""
    monkeypatch.setattr(telling, "_A_SLICE", 4)
    rng, told = random.Random(seed), Told()
    codes = [Code.INSUFFICIENT_RESOURCES, Code.QUOTA_EXCEEDED]
    plans = [
        tuple(waiting(at, rng.randrange(2), rng.choice(codes)) for at in range(12) if rng.random() < 0.9)
        for _ in range(3)
    ]
    recorded: dict[str, tuple[Reason, ...]] = {}
    told.recorder.waits.side_effect = lambda uid, reasons, *_: recorded.update({uid: reasons})
    told.recorder.other_numbers.side_effect = lambda those, _: recorded.update({w.gang: w.reasons for w in those})
    for _ in range(60):
        monkeypatch.setattr(telling, "NUMBERS_SECONDS", rng.choice([0.0, 1e9, 1e9]))
        if rng.random() < 0.3:
            uid = f"g{rng.randrange(12)}"
            recorded[uid] = ()
            told.state.feed.told_elsewhere.note(uid)
        now = rng.choice(plans)
        told.recorder.waits.reset_mock()
        await told.telling.tell(now, 1)
        exact = all(recorded[one.gang] == one.reasons for one in now)
        assert exact or told.telling.due is not None
        assert all(of_a_kind(recorded[one.gang], one.reasons) for one in now)


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
