"""Single pods without a limit that have no clock: what happens, and when, is what happens when each of them has one."""

from random import Random
from typing import Any
from unittest.mock import AsyncMock

import pytest

from t9ksched.scheduler.keep.late_starts import Timeouts
from t9ksched.scheduler.state.clocks import SECOND
from tests.unit.scheduler.keep.test_timekeeper import NOW, Played
from tests.unit.scheduler.state.test_state import decide, node, pod, state_with

NAMES = ("a", "b", "c")


class Singles:
    """Three pods on a state in memory. `told` is what the keeper did, and when; `rows` what it wrote."""

    def __init__(self, timeout: int) -> None:
        self.timeout = timeout
        self.played = Played(state=state_with(node("n1")))
        self.keeper: Any = self.played.keeper
        timeouts = Timeouts(lambda: self.timeout, lambda: 30)
        for one in (self.keeper._rests, self.keeper._rests.plain):
            one._timeouts = timeouts
        self.keeper._start_timeout = self.keeper._late._start_timeout = timeouts.start
        shown: Any = lambda _, name, __: {"metadata": {"uid": f"uid-{name}", "resourceVersion": "1"}}  # noqa: E731
        self.played.client.get = AsyncMock(side_effect=shown)
        self.rows: list[Any] = []
        self.keeper._runs.put = AsyncMock(side_effect=self.rows.extend)
        self.told: list[Any] = []

    def looks_at_each(self) -> "Singles":
        """The same, with a clock for each pod."""
        self.keeper._rests.plain.needs_no_clock = lambda *_: False
        return self

    async def happen(self, step: str) -> None:
        state = self.played.state
        match step.split(" "):
            case ["make", name]:
                state.upsert_pod(pod(name, uid=f"uid-{name}"))
                state.settle()
                for assignment in decide(state):
                    made = pod(assignment.pod.removeprefix("uid-"), uid=assignment.pod, node="n1")
                    state.upsert_pod(made)
            case ["deadline", name]:
                made = pod(name, uid=f"uid-{name}", node="n1")
                made.spec.active_deadline_seconds = 900
                state.upsert_pod(made)
            case [("Running" | "Pending" | "Failed") as phase, name]:
                if f"uid-{name}" in state.pods:
                    state.upsert_pod(pod(name, uid=f"uid-{name}", node="n1", phase=phase))
            case ["gone", name]:
                state.remove_pod(f"uid-{name}")
            case ["timeout", seconds]:
                self.timeout = int(seconds)
            case ["wait", seconds]:
                for _ in range(int(seconds)):
                    await self.second()
            case _:
                raise AssertionError(step)
        await self.second()

    async def second(self) -> None:
        played = self.played
        played.now += SECOND
        await played.look()
        ended = [call.args[1] for call in played.recorder.ended.mock_calls]
        self.told.append((played.now - NOW, ended, sorted(played.state.clocks.ran), sorted(map(repr, self.rows))))


STEPS = (
    *(f"{what} {name}" for what in ("make", "Running", "Pending", "Failed", "gone") for name in NAMES),
    "timeout 0",
    "timeout 40",
    "timeout 300",
    "wait 5",
    "wait 61",
)


@pytest.mark.parametrize("seed", range(6))
async def test_pods_without_a_clock_are_late_when_they_would_be_with_one(seed: int) -> None:
    random = Random(seed)
    made = [f"make {name}" for name in NAMES]
    story = [*made, *(random.choice(STEPS) for _ in range(20)), *made, "timeout 40", "wait 70"]
    plain, each = Singles(300), Singles(300).looks_at_each()
    for step in story:
        await plain.happen(step)
        await each.happen(step)
        assert plain.told == each.told, story
    assert plain.told[-1][1], "some were late"


def looks(world: Singles, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The UIDs of pods that are looked at from now on."""
    looked: list[str] = []
    plain: Any = world.keeper._rests.plain
    look = plain.needs_no_clock
    monkeypatch.setattr(plain, "needs_no_clock", lambda gang, now: looked.append(gang.uid) or look(gang, now))
    return looked


async def test_a_pod_that_starts_is_looked_at_when_it_is_late_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Singles(40)
    await world.happen("make a")
    looked = looks(world, monkeypatch)
    await world.happen("wait 35")
    assert (looked, world.played.state.clocks.by_job) == ([], {})
    await world.happen("wait 10")
    assert looked
    assert world.told[-1][1] == ["start-timed-out"]


async def test_a_pod_that_begins_to_run_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two readers tell of it: of its group, and of its job."""
    world = Singles(40)
    await world.happen("make a")
    looked = looks(world, monkeypatch)
    await world.happen("Running a")
    assert looked == ["uid-a"]


async def test_a_pod_with_a_deadline_of_its_own_has_a_clock() -> None:
    world = Singles(300)
    await world.happen("make a")
    await world.happen("deadline a")
    assert list(world.played.state.clocks.by_job) == ["uid-a"]
