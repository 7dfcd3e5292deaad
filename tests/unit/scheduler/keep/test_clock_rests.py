"""Clocks that rest: what happens, and when, is what happens when every clock is looked at every second."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.keep import clock_rests
from t9ksched.scheduler.state.clocks import SECOND
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.keep.test_timekeeper import NOW, TIMEOUTS, Played

GROUP = ("ns", "g")


@dataclass
class World:
    """One run of the story; `told` is what the keeper did, and when."""

    played: Played
    told: list[Any] = field(default_factory=list)

    async def second(self) -> None:
        self.played.now += SECOND
        await self.played.look()
        played = self.played
        calls = [*played.events.gang.mock_calls, *played.stopper.stop.mock_calls, *played.recorder.ended.mock_calls]
        clock = played.state.clocks.by_job.get("group-g")
        run = clock.run if clock is not None else None
        self.told.append((played.now - NOW, len(calls), run, clock is not None and clock.unwritten))


def worlds(monkeypatch: pytest.MonkeyPatch, limit: str) -> list[World]:
    """One that rests, and one that does not."""
    both = [World(Played(limit)), World(Played(limit))]
    monkeypatch.setattr(both[1].played.keeper._rests, "note", lambda *_: None)
    for world in both:
        world.played.stopper.annotation.return_value = "5m"
        world.played.client.get.return_value = {"status": {}}
    return both


def control(limit: int, at: int) -> dict[str, JobControl]:
    when = datetime.fromtimestamp(at / 1e9, UTC)
    given = JobControl(uid="group-g", by="boss", at=when, time_limit_seconds=limit, limited_at=when)
    return {"group-g": given}


async def happen(world: World, step: str) -> None:
    """One event of the story."""
    played, state = world.played, world.played.state
    match step.partition(" "):
        case ("run", _, _):
            played.leave()
            await played.run()
        case ("leave", _, _):
            played.leave()
        case ("evict", _, _):
            state.start_again(state.gangs[GROUP], "Preempted", "for another")
        case ("limit", _, seconds):
            state.direct(control(int(seconds), played.now))
        case ("queue", _, length):
            state.set_queues([Queue("q", parse_queue_spec(json.loads(length)))])
        case ("wait", _, seconds):
            for _ in range(int(seconds)):
                await world.second()
        case _:
            raise AssertionError(step)


STEPS = (
    "run",
    "leave",
    "evict",
    "limit 60",
    "limit 1300",
    "limit 4000",
    'queue {"maxDuration": "25m"}',
    "queue {}",
    "wait 3",
    "wait 130",
    "wait 900",
)


@pytest.mark.parametrize("limit", ["", "30m", "2h"])
@pytest.mark.parametrize("seed", range(4))
async def test_a_clock_that_rests_tells_the_same_times(monkeypatch: pytest.MonkeyPatch, limit: str, seed: int) -> None:
    random = Random(seed)
    story = ["run", *(random.choice(STEPS) for _ in range(14)), "run", "leave", "wait 1500"]
    rests, looks = worlds(monkeypatch, limit)
    for step in story:
        await happen(rests, step)
        await happen(looks, step)
        assert rests.told == looks.told, story


@pytest.mark.parametrize("starting", [True, False])
async def test_clocks_far_from_their_ends_are_not_looked_at(monkeypatch: pytest.MonkeyPatch, starting: bool) -> None:
    played = Played("2h")
    await played.run()
    if starting:
        played.state.clocks.by_job["group-g"].set(ran_at=0)
    looked: list[str] = []
    look = played.keeper._look
    monkeypatch.setattr(played.keeper, "_look", lambda uid, now: looked.append(uid) or look(uid, now))
    for _ in range(3):  # the first look asks for an annotation, the second finds that nothing is due
        await played.look()
    looked.clear()
    for _ in range(50):
        played.now += SECOND
        await played.look()
    assert looked == []
    played.now += timedelta(minutes=1).seconds * SECOND
    await played.look()
    assert looked == ["group-g"]


async def test_a_shorter_timeout_of_the_policy_ends_rests() -> None:
    played = Played("2h")
    await played.run()
    played.state.clocks.by_job["group-g"].set(ran_at=0)
    rests = played.keeper._rests
    await played.look()
    await played.look()
    played.now += 60 * SECOND
    await played.look()
    assert "group-g" not in rests.due(played.now)
    rests._timeouts = replace(TIMEOUTS, start=lambda: 30)
    assert "group-g" in rests.due(played.now)


async def test_ends_of_rests_that_count_no_more_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_rests, "_MANY", 3)
    played = Played("2h")
    await played.run()
    rests = played.keeper._rests
    for _ in range(40):
        played.now += SECOND
        played.state.changes.gang_changed(played.state.gangs[GROUP])
        await played.look()
    assert len(rests._next) <= 6
