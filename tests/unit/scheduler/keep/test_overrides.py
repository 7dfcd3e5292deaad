"""What is decided about a job costs the same however many decisions there are, and thousands are taken in in pieces."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from t9ksched.scheduler.keep.overrides import Overrides
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.changes import Change
from t9ksched.store.job_overrides import JobControl
from tests.counting import Lines
from tests.unit.scheduler.state.test_state import NOW, pod, state_with

AT = datetime(2027, 1, 1, tzinfo=UTC)


class Controls:
    """The decisions in SQL."""

    def __init__(self) -> None:
        self.known: dict[str, JobControl] = {}

    async def of(self, uids: Iterable[str]) -> dict[str, JobControl]:
        return {uid: self.known[uid] for uid in uids if uid in self.known}

    def hold(self, *uids: str) -> list[Change]:
        self.known |= {uid: JobControl(uid, held=True, at=AT) for uid in uids}
        return changes(*uids)


def changes(*uids: str) -> list[Change]:
    return [Change(at, "job_control", uid, AT) for at, uid in enumerate(uids)]


def followed(jobs: int) -> tuple[ClusterState, Controls, Overrides]:
    state, controls = state_with(), Controls()
    for at in range(jobs):
        state.upsert_pod(pod(f"p{at}", queue="q"))
    store: Any = SimpleNamespace(controls=controls)
    return state, controls, Overrides(store, state, Mock(), lambda: NOW)


def uids(jobs: int) -> list[str]:
    return [f"pod-p{at}" for at in range(jobs)]


def test_one_decision_costs_the_same_however_many_there_are() -> None:
    def work(jobs: int) -> list[int]:
        state, controls, overrides = followed(jobs)
        asyncio.run(overrides.take(controls.hold(*uids(jobs))))
        assert len(state.controls) == jobs
        controls.known["pod-p0"] = JobControl("pod-p0", priority=7, at=AT)
        found = []
        for one in (changes("pod-p0"), changes("pod-unknown")):
            with Lines() as lines:
                (reading := overrides.take(one).__await__()).send(None)
            found.append(lines.count)
            assert next(reading, None) is None
        overrides._check = Mock()
        with Lines() as lines:
            overrides.suppose("pod-p1", 60, "ann")
        assert state.controls["pod-p1"].time_limit_seconds == 60
        assert state.controls["pod-p1"].held
        assert state.controls["pod-p0"].priority == 7
        return [*found, lines.count]

    assert work(2000) == work(20)


def test_thousands_are_taken_in_in_pieces_and_only_what_differs_is_judged_again() -> None:
    state, controls, overrides = followed(3000)
    decided = controls.hold(*uids(3000))

    def pieces() -> list[int]:
        found, reading = [], overrides.take(decided).__await__()
        while True:
            with Lines() as lines:
                over = next(reading, "over")
            found.append(lines.count)
            if over == "over":
                return found

    first = pieces()
    assert (len(first), len(state.controls)) == (7, 3000)
    changing = state.feed.holding.follow()
    again = pieces()
    assert max(again) < max(first)
    assert changing.take() == []
    del controls.known["pod-p7"]
    pieces()
    assert [gang.name for gang in changing.take()] == ["p7"]
    assert "pod-p7" not in state.controls
