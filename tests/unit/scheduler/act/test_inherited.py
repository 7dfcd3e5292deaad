"""A PodGroup made anew while pods of the one before run: nothing that it asks for stops them."""

from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from t9ksched.scheduler.act.gang_timeouts import GangTimeouts
from t9ksched.scheduler.keep.late_starts import Timeouts
from t9ksched.scheduler.keep.timekeeper import TimeKeeper
from t9ksched.scheduler.report.history_recorder import HistoryRecorder
from t9ksched.scheduler.state.card_rows import row_of
from t9ksched.scheduler.state.clocks import SECOND
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from tests.feeds import taken
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with

ANEW = "group-anew"
TIMEOUTS = Timeouts(lambda: 1800, lambda: 30)


def run(state: ClusterState, *names: str) -> None:
    """Members of g get their places and run."""
    for name in names:
        state.upsert_pod(pod(name, group="g"))
    for assignment in decide(state):
        state.upsert_pod(pod(assignment.pod.removeprefix("pod-"), group="g", node="n1", phase="Running"))


def remade(minimum: int, *, restarted: bool = False) -> ClusterState:
    """Two pods run, their PodGroup is deleted, and another of its name is made; a scheduler may start after that."""
    state = state_with(node("n1"))
    state.upsert_group(group("g", 2))
    run(state, "a", "b")
    rows = {uid: row_of(one, charge, NOW) for uid, one in state.pods.items() if (charge := state.charges.get(uid))}
    if restarted:
        state = state_with(node("n1"))
        state.places.restore(rows)
    else:
        state.remove_group(group("g", 2))
    state.upsert_group(group("g", minimum, uid=ANEW))
    for name in ("a", "b") if restarted else ():
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.settle()
    return state


@pytest.mark.parametrize("restarted", [False, True])
def test_a_larger_minimum_takes_back_nothing_that_ran_before(restarted: bool) -> None:
    state = remade(50, restarted=restarted)
    gang = state.gangs["ns", "g"]
    assert gang.ran, "they run"
    now = [NOW]
    timeouts = GangTimeouts(Mock(), state, Mock(), Mock(), lambda: now[0])
    state.upsert_pod(pod("more", 9, group="g"))
    for _ in range(3):
        assert timeouts.overdue() == []
        now[0] += 3600 * SECOND


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_limit_ends_only_what_came_with_the_group_that_has_it(restarted: bool) -> None:
    state = remade(2, restarted=restarted)
    run(state, "own")
    gang = state.gangs["ns", "g"]
    head: dict[str, Any] = {"uid": ANEW, "kind": "PodGroup", "namespace": "ns", "name": "g", "queue": "q"}
    gang.acceptance = Acceptance(**head, priority=0, time_limit=timedelta(minutes=1))
    now, stopper = [NOW], Mock()
    stopper.annotation = AsyncMock(return_value="")
    stopper.highest = AsyncMock(side_effect=lambda one: (None, {"metadata": {"uid": one.uid}}))
    stopper.stop = AsyncMock()
    keeper = TimeKeeper(Mock(), state, stopper, Mock(), Mock(), AsyncMock(), lambda: now[0], TIMEOUTS)
    for _ in range(4):
        await keeper.sweep()
        now[0] += 61 * SECOND
    assert {call.args[1]["metadata"]["uid"] for call in stopper.stop.await_args_list} == {"pod-own"}


class SqlWriter:
    """Remembers events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.jobs_waiting = 0

    def event(self, event: Event) -> None:
        self.told.append((event.event, str(event.uid), event.detail))

    def accepted(self, _: object) -> None: ...

    def job(self, _: object) -> None: ...

    def gone(self, *_: object) -> None: ...


@pytest.mark.parametrize("again", [False, True])
async def test_cards_are_charged_to_the_group_that_its_pods_were_placed_in(again: bool) -> None:
    state, sql_writer = state_with(node("n1")), SqlWriter()
    recorder = HistoryRecorder(state, sql_writer, Mock(), lambda: NOW)  # type: ignore[arg-type]
    state.upsert_group(group("g", 2))
    recorder.jobs.tell("group-g", due=True)
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g"))
    decide(state)
    state.upsert_pod(pod("a", group="g", node="n1", phase="Running"))
    state.remove_group(group("g", 2))
    if again:
        state.upsert_group(group("g", 2, uid=ANEW))
    gang = state.gangs["ns", "g"]
    for name in ("a", "b"):
        recorder.bound(gang, gang.members[f"pod-{name}"], "n1", {"main": [0]}, NOW)
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    recorder.jobs.tell("group-g", due=True)
    for name in ("a", "b"):
        state.remove_pod(f"pod-{name}")
    for released in taken(state, "ended"):
        recorder.released(*released)
    told = [(event, uid) for event, uid, _ in sql_writer.told if event in ("bound", "started", "deleted", "released")]
    assert told == [
        ("bound", "group-g"),
        ("bound", "group-g"),
        ("started", "group-g"),
        ("deleted", "group-g"),
        ("released", "group-g"),
        ("released", "group-g"),
    ]
    assert [detail["podsLeft"] for event, _, detail in sql_writer.told if event == "deleted"] == [2]
