"""What a start finds is read piece by piece: no reader of changes holds the event loop for all of a large cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from t9ksched.scheduler.act.cardkeeper import CardKeeper
from t9ksched.scheduler.keep.dependency_keeper import DependencyKeeper
from t9ksched.scheduler.keep.timekeeper import TimeKeeper
from t9ksched.scheduler.report.departed import Departed
from t9ksched.scheduler.report.job_recorder import JobRecorder
from t9ksched.scheduler.report.status import StatusWriter
from t9ksched.scheduler.report.warnings import Warnings
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.card_audit import CardAudit
from t9ksched.scheduler.state.change_feed import Topic
from t9ksched.scheduler.state.places import Places
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.keep.test_timekeeper import TIMEOUTS
from tests.unit.scheduler.state.test_state import NOW, node, pod, state_with

PODS, AT_ONCE = 1300, 1000


class _Work:
    """What is read between two turns of the event loop, in things."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.turns = [0]
        take, look, place = Topic.since, CardAudit._look, Places.take_missing

        def since(topic: Topic[Any], *of: Any) -> list[Any]:
            found = take(topic, *of)
            self.turns[-1] += len(found)
            return found

        def audit(self_: CardAudit, name: str) -> None:
            self.turns[-1] += 1
            look(self_, name)

        def missing(self_: Places) -> Any:
            for record in place(self_):
                self.turns[-1] += 1
                yield record

        patch.setattr(Topic, "since", since)
        patch.setattr(CardAudit, "_look", audit)
        patch.setattr(Places, "take_missing", missing)

    async def of(self, work: Awaitable[object]) -> None:
        self.turns = [0]
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            self.turns.append(0)
        await task


def _status(state: ClusterState) -> Callable[[], Awaitable[object]]:
    return StatusWriter(Mock(), state, AsyncMock(), lambda: "t")._collect


def _jobs(state: ClusterState) -> Callable[[], Awaitable[object]]:
    return JobRecorder(state, Mock(jobs_waiting=0), Mock(), lambda: NOW).write


def _times(state: ClusterState) -> Callable[[], Awaitable[object]]:
    sink = AsyncMock()
    return TimeKeeper(sink, state, sink, Mock(), Mock(), sink, lambda: NOW, TIMEOUTS).sweep


def _cards(state: ClusterState) -> Callable[[], Awaitable[object]]:
    keeper = CardKeeper(AsyncMock(), state)
    return lambda: keeper._note_missing(NOW)


READERS: dict[str, tuple[Callable[[ClusterState], Callable[[], Awaitable[object]]], int]] = {
    "statuses": (_status, PODS),
    "rows of jobs": (_jobs, PODS),
    "the index": (lambda state: JobIndex(state).refresh, PODS),
    "dependencies": (lambda state: DependencyKeeper(state, AsyncMock(), None, lambda: NOW).sweep, PODS),
    "clocks": (_times, 2 * PODS),
    "rows of places": (_cards, PODS),
    "cards that cannot be": (lambda state: Warnings(state, Mock()).tell, PODS),
}


@pytest.fixture(scope="module")
def sweeps() -> dict[str, Callable[[], Awaitable[object]]]:
    """The readers of one state in which much was found since they began."""
    state = state_with()
    begun = {name: begin(state) for name, (begin, _) in READERS.items()}
    for count in range(PODS):
        state.upsert_node(node(f"n{count}"))
        state.upsert_pod(pod(f"p{count}", node=f"n{count}", phase="Running"))
    return begun


def test_what_left_before_it_was_written_is_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_with()
    written: dict[str, None] = {}
    departed = Departed(state, written)
    for count in range(PODS):
        state.upsert_pod(pod(f"p{count}"))
    for count in range(PODS):
        state.remove_pod(f"pod-p{count}")
    seen = [0]
    for _ in departed.note():
        seen.append(len(departed._gangs))
    assert max(later - before for before, later in pairwise(seen)) <= AT_ONCE // 2
    assert len(departed._gangs) == PODS
    written.update(dict.fromkeys(departed._gangs))
    steps = list(departed.note())
    assert not departed._gangs
    assert len(steps) >= PODS // 500


@pytest.mark.parametrize("reader", READERS)
async def test_all_is_read_and_no_more_than_some_at_once(
    reader: str, sweeps: dict[str, Callable[[], Awaitable[object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = _Work(monkeypatch)
    await work.of(sweeps[reader]())
    assert sum(work.turns) >= READERS[reader][1]
    assert max(work.turns) <= AT_ONCE


def test_a_row_is_made_of_each_pod_once() -> None:
    """Also of those whose accelerators became known and that have no row of a place."""
    state = state_with(node("n1"))
    for name in "abc":
        state.upsert_pod(pod(name, node="n1", phase="Running"))
    assert [one.name for one in state.places.take_missing()] == [*"abc"]
    assert [one.name for one in state.cards.take_unsaid()] == [*"abc"]
    assert not [*state.places.take_missing(), *state.cards.take_unsaid()]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_of_a_pod_that_is_new_its_group_is_told_once(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state, told = state_with(node("n1")), list[str]()
    of = type(state.changes)
    change = of.gang_changed
    monkeypatch.setattr(of, "gang_changed", lambda self, gang: told.append(gang.name) or change(self, gang))
    state.upsert_pod(pod("a", node="" if phase == "Pending" else "n1", phase=phase))
    assert told == ["a"]
    state.upsert_pod(pod("a", node="n1", phase="Failed"))
    assert told == ["a", "a"]
