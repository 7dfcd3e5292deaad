"""Clocks of jobs over several runs, as `TimeKeeper` keeps them: when a run begins, and what is told of it."""

import warnings
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from t9ksched.model.reasons import Code
from t9ksched.scheduler.keep.late_starts import Timeouts
from t9ksched.scheduler.keep.timekeeper import TimeKeeper
from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.state.clocks import SECOND
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with

TIMEOUTS = Timeouts(lambda: 1800, lambda: 30)
HOUR = 3600 * SECOND


class Played:
    """A PodGroup of two pods on a state in memory, and the keeper of its clock."""

    def __init__(self, limit: str = "", state: ClusterState | None = None) -> None:
        self.now, self.limit, self.runs = NOW, limit, 0
        self.state = state or state_with(node("n1"))
        self.stopper, self.events, self.client = Mock(), Mock(), AsyncMock()
        self.stopper.annotation = AsyncMock(return_value="")
        self.stopper.highest = AsyncMock(side_effect=lambda one: (None, {"metadata": {"uid": one.uid}}))
        self.stopper.stop = AsyncMock()
        self.recorder, store = Mock(), AsyncMock()
        clock = lambda: self.now  # noqa: E731
        self.keeper = TimeKeeper(
            self.client, self.state, self.stopper, self.recorder, self.events, store, clock, TIMEOUTS
        )
        if state is None:
            self.state.upsert_group(group("g", 2))
            seconds = {"30m": timedelta(minutes=30), "2h": timedelta(hours=2)}.get(limit)
            head: dict[str, Any] = {"uid": "group-g", "kind": "PodGroup", "namespace": "ns", "name": "g"}
            self.state.accept(Acceptance(**head, queue="q", replicas=2, time_limit=seconds))

    async def run(self) -> None:
        """The group starts: its pods are made, get places and run."""
        self.runs += 1
        for name in ("a", "b"):
            self.state.upsert_pod(pod(name, group="g", uid=f"{name}-{self.runs}"))
        self.state.settle()
        for assignment in decide(self.state):
            name = assignment.pod.partition("-")[0]
            made = pod(name, group="g", uid=assignment.pod, node="n1", phase="Running")
            made.status.start_time = timestamp(self.now)
            self.state.upsert_pod(made)
        await self.look()

    async def look(self) -> None:
        self.state.settle()
        self.state.accept_running(self.now)
        await self.keeper.sweep()

    def leave(self) -> None:
        """All pods are gone."""
        for uid in list(self.state.pods):
            self.state.remove_pod(uid)
        self.state.settle()

    def shown(self) -> dict[str, Any]:
        view = observed_job(self.state, "group-g")
        assert view is not None
        return job_shape(view, self.state)


@pytest.mark.parametrize("limit", ["", "2h"])
async def test_the_start_that_is_shown_is_that_of_the_present_run(limit: str) -> None:
    played = Played(limit)
    await played.run()
    first = timestamp(NOW)
    assert played.shown()["startedAt"] == first
    played.now += HOUR
    played.state.start_again(played.state.gangs["ns", "g"], "Preempted", "for another")
    assert played.shown()["startedAt"] == first, "it waits: that of its last run"
    played.leave()
    played.now += HOUR
    await played.run()
    second = timestamp(NOW + 2 * HOUR)
    assert played.shown()["startedAt"] == second
    clock = played.state.clocks.by_job.get("group-g")
    assert (clock is not None) is bool(limit)
    if clock is not None:
        assert timestamp(clock.run.ran_at) == second, "the clock of its limit counts from it"
    recorded = played.state.acceptances["group-g"].started_at
    assert recorded is not None
    assert timestamp(int(recorded.timestamp() * SECOND)) == second, "it outlives pods and clock"


async def test_a_sweep_that_is_cancelled_leaves_nothing_half_begun() -> None:
    """As a service that ends does: what was found due by then has not begun, and is found again by the next sweep."""
    played = Played("2h")
    await played.run()
    played.state.feed.gangs.note(played.state.gangs["ns", "g"])
    clock = played.state.clocks.by_job["group-g"]
    clock.signal = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        sweep = played.keeper.sweep()
        sweep.send(None)
        sweep.close()
    assert not warned
    await played.keeper.sweep()
    assert clock.signal == 0


def says(uid: str, ago: int, restarts: int = 0) -> dict[str, Any]:
    """What a node tells of a pod whose container began so many seconds before `NOW`; the pod ten before that."""
    began, placed = timestamp(NOW - ago * SECOND), timestamp(NOW - (ago + 10) * SECOND)
    state: dict[str, Any] = {"state": {"running": {"startedAt": began}}}
    if restarts:
        again = {"state": {"running": {"startedAt": timestamp(NOW - 5 * SECOND)}}}
        state = again | {"restartCount": restarts, "lastState": {"terminated": {"startedAt": began}}}
    return {"metadata": {"uid": uid}, "status": {"startTime": placed, "containerStatuses": [state]}}


@pytest.mark.parametrize(
    ("restarts", "ago"),
    [
        pytest.param(0, 1200, id="the second of both members"),
        pytest.param(1, 1200, id="restarted once: its first start"),
        pytest.param(3, 1210, id="restarted again: the start of the pod"),
    ],
)
async def test_a_scheduler_that_is_started_finds_since_when_a_job_runs(restarts: int, ago: int) -> None:
    """The one before was killed before it wrote that."""
    before = Played("30m")
    await before.run()
    state = state_with(node("n1"))
    state.accept(before.state.acceptances["group-g"])
    made = group("g", 2)
    made.metadata.creation_timestamp = timestamp(NOW - HOUR)
    state.upsert_group(made)
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g", uid=f"{name}-1", node="n1", phase="Running"))
    played = Played("30m", state)
    found = {"a": says("a-1", 1500), "b": says("b-1", 1200, restarts)}
    played.client.get = AsyncMock(side_effect=lambda _, name, __: found[name])
    await played.look()
    clock = state.clocks.by_job["group-g"]
    since = NOW - ago * SECOND
    assert (clock.run.ran_at, clock.unsure) == (since, False)
    assert played.shown()["startedAt"] == timestamp(since)
    played.now = since + 1799 * SECOND
    await played.look()
    assert not clock.run.ended_code
    played.now = since + 1800 * SECOND
    await played.look()
    assert clock.run.ended_code == Code.TIME_LIMIT_EXCEEDED


async def test_nodes_are_not_asked_about_what_this_scheduler_placed() -> None:
    played = Played("30m")
    await played.run()
    assert played.client.get.await_count == 0


async def test_a_member_that_is_replaced_begins_no_run() -> None:
    played = Played()
    await played.run()
    for name in ("a", "b"):
        played.now += HOUR
        played.state.remove_pod(f"{name}-1")
        made = pod(name, group="g", uid=f"{name}-2", node="n1", phase="Running")
        made.status.start_time = timestamp(played.now)
        played.state.upsert_pod(made)
        await played.look()
    assert played.shown()["startedAt"] == timestamp(NOW)


async def test_the_start_of_what_a_limit_ended_stays() -> None:
    played = Played("30m")
    await played.run()
    played.now += HOUR
    await played.look()
    assert played.state.clocks.by_job["group-g"].run.ended_code == Code.TIME_LIMIT_EXCEEDED
    played.leave()
    await played.look()
    shown = played.shown()
    assert (shown["startedAt"], shown["finishedAt"]) == (timestamp(NOW), timestamp(NOW + HOUR))


@pytest.mark.parametrize("limit", ["", "2h"])
async def test_a_member_that_is_replaced_and_does_not_run_yet_is_no_late_start(limit: str) -> None:
    """The job ran for an hour: the time in which it had to start is over."""
    played = Played(limit)
    await played.run()
    played.now += HOUR
    played.state.remove_pod("b-1")
    await played.look()
    played.state.upsert_pod(pod("b", group="g", uid="b-2", node="n1", phase="Pending"))
    await played.look()
    played.now += HOUR // 4
    await played.look()
    assert played.state.gangs["ns", "g"].ran
    assert played.recorder.ended.call_count == 0


def started_anew(played: Played, **phases: str) -> Played:
    """Another scheduler on the same cluster, with pods of these phases that were made and placed just before."""
    state = state_with(node("n1"))
    state.accept(played.state.acceptances["group-g"])
    state.upsert_group(group("g", 2))
    for name, phase in phases.items():
        made = pod(name, group="g", uid=f"{name}-1", node="n1", phase=phase)
        made.status.start_time = timestamp(NOW)
        made.metadata.creation_timestamp = timestamp(NOW - 60 * SECOND)
        state.upsert_pod(made)
    found = Played(played.limit, state)
    found.client.get = AsyncMock(return_value={"metadata": {}, "status": {"phase": "Pending"}})
    return found


@pytest.mark.parametrize("limit", ["", "2h"])
@pytest.mark.parametrize("first", ["Pending", "Running"])
async def test_a_job_that_did_not_start_before_a_restart_is_evicted_in_time(limit: str, first: str) -> None:
    played = started_anew(Played(limit), a=first, b="Pending")
    played.now = NOW + 60 * SECOND
    await played.look()
    assert played.recorder.ended.call_count == 0
    played.now = NOW + 1800 * SECOND
    await played.look()
    (call,) = played.recorder.ended.call_args_list
    assert call.args[1] == "start-timed-out"
    assert played.state.clocks.by_job["group-g"].run.missed == 1


@pytest.mark.parametrize("limit", ["", "2h"])
async def test_a_member_that_was_lost_before_a_restart_is_no_late_start(limit: str) -> None:
    played = started_anew(Played(limit), a="Running")
    made = pod("b", group="g", uid="b-2", node="n1", phase="Pending")
    made.metadata.creation_timestamp = timestamp(NOW + 60 * SECOND)
    played.state.upsert_pod(made)
    for minutes in (2, 40, 80):
        played.now = NOW + minutes * 60 * SECOND
        await played.look()
    assert played.recorder.ended.call_count == 0


async def test_nor_is_one_that_is_replaced_after_the_restart() -> None:
    played = started_anew(Played(), a="Running")
    await played.look()
    for node_name in ("", "n1"):
        made = pod("b", group="g", uid="b-2", node=node_name)
        made.metadata.creation_timestamp = timestamp(NOW + 60 * SECOND)
        played.state.upsert_pod(made)
        played.state.settle()
        decide(played.state)
    for minutes in (2, 40, 80):
        played.now = NOW + minutes * 60 * SECOND
        await played.look()
    assert played.state.gangs["ns", "g"].first_bound
    assert played.recorder.ended.call_count == 0
