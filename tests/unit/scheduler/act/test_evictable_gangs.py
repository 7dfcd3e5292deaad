"""Who may have to yield, as the engine is told: looked at anew only where something changed."""

from typing import Any

import pytest

from t9ksched.scheduler.act.evictable_gangs import EvictableGangs
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.budgets import Budgets, DisruptionBudget
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.state.test_state import NOW, decide, group, node, pod, state_with

DAY = 86_400 * 1_000_000_000


def busy() -> tuple[ClusterState, set[str], EvictableGangs]:
    """Two gangs run on one node."""
    state = state_with(node(gpus=8))
    for name in ("g", "h"):
        state.upsert_group(group(name, 2))
        for at in range(2):
            state.upsert_pod(pod(f"{name}{at}", group=name, node="n1", phase="Running"))
    state.view(NOW)
    leaving: set[str] = set()
    return state, leaving, EvictableGangs(state, leaving)


def test_the_same_tuple_while_nothing_changed() -> None:
    state, _, evictable = busy()
    first = evictable.running(NOW)
    assert [(one.uid, len(one.pods)) for one in first] == [("group-g", 2), ("group-h", 2)]
    assert evictable.running(NOW + 1) is first
    state.upsert_pod(pod("waits", queue="q"))
    assert evictable.running(NOW) is first, "a waiting gang is no victim"


def test_only_the_group_that_changed_is_new() -> None:
    state, leaving, evictable = busy()
    g, h = evictable.running(NOW)
    state.upsert_pod(pod("h1", group="h", node="n1", phase="Running", deleting=True))
    again = evictable.running(NOW)
    assert again[0] is g
    assert [one.leaving for one in again[1].pods] == [False, True]
    state.remove_pod("pod-h1")
    assert len(evictable.running(NOW)[1].pods) == 1
    state.remove_group(group("h", 2))
    assert [one.uid for one in evictable.running(NOW)] == ["group-g"]
    leaving.add("pod-g0")
    state.progress.victims_changed(state.gangs_by_uid["group-g"])
    assert [one.leaving for one in evictable.running(NOW)[0].pods] == [True, False]
    assert h.uid == "group-h"


def test_a_victim_is_certain_to_go_once_the_server_was_asked() -> None:
    state, leaving, _ = busy()
    asked: set[str] = set()
    evictable = EvictableGangs(state, leaving, asked)
    gang = state.gangs_by_uid["group-g"]
    seen = []
    for container in (leaving, asked):
        container.add("pod-g0")
        state.progress.victims_changed(gang)
        pod_ = evictable.running(NOW)[0].pods[0]
        seen.append((pod_.leaving, pod_.asked))
    assert seen == [(True, False), (True, True)]


def test_a_member_whose_room_is_kept_does_not_run() -> None:
    state, _, evictable = busy()
    state.upsert_pod(pod("h0", group="h", node="n1", phase="Running", deleting=True))
    state.follow_losses(NOW)
    assert [(one.name, one.leaving, one.kept) for one in evictable.running(NOW)[1].pods] == [
        ("ns/h0", False, True),
        ("ns/h1", False, False),
    ]
    state.remove_pod("pod-h0")
    state.follow_losses(NOW + 1)
    found = {one.name: (one.leaving, one.kept) for one in evictable.running(NOW + 1)[1].pods}
    assert found == {"ns/h0": (False, True), "ns/h1": (False, False)}


def test_evictions_of_a_day_are_counted_and_forgotten() -> None:
    _, _, evictable = busy()
    assert [one.evictions for one in evictable.running(NOW)] == [0, 0]
    assert evictable.next_forgotten() is None
    evictable.note("group-g", "somebody", NOW)
    evictable.note("group-g", "another", NOW + 5)
    first = evictable.running(NOW + 5)
    assert [one.evictions for one in first] == [2, 0]
    assert evictable.next_forgotten() == NOW + DAY + 1
    assert evictable.running(NOW + DAY) is first
    assert [one.evictions for one in evictable.running(NOW + DAY + 1)] == [1, 0]
    assert evictable.next_forgotten() == NOW + DAY + 6
    evictable.rest()
    assert evictable.next_forgotten() is None, "nobody asks"
    assert [one.evictions for one in evictable.running(NOW + DAY + 6)] == [0, 0]
    assert evictable.next_forgotten() is None


def test_a_group_runs_since_its_first_pod_says_so_and_till_then_since_it_was_bound() -> None:
    state = state_with(node(gpus=8), queues={"q": {}})
    state.upsert_group(group("g", 2))
    for name in "ab":
        state.upsert_pod(pod(name, group="g"))
    decide(state)
    evictable, seen = EvictableGangs(state, set()), []
    for name, more in (("a", {}), ("b", {}), ("b", {"startTime": "2026-01-01T00:00:09Z"})):
        told = pod(name, group="g", node="n1", cards="0", phase="Running" if more else "Pending")
        told.status.start_time = more.get("startTime", "")
        state.upsert_pod(told)
        seen += [one.started for one in evictable.running(NOW)]
    assert seen == [NOW, nanoseconds("2026-01-01T00:00:09Z")], "not while a member is being bound"


@pytest.mark.parametrize("between", [True, False])
def test_a_priority_that_a_manager_changes_while_members_wait_is_told(between: bool) -> None:
    state, _, evictable = busy()
    state.upsert_pod(pod("h2", group="h"))
    assert [one.priority for one in evictable.running(NOW)] == [0, 0]
    for priority in (7, 3):
        state.direct({"group-h": JobControl("group-h", priority=priority)})
        if between:
            evictable.running(NOW)
        state.view(NOW)
        assert [one.priority for one in evictable.running(NOW)] == [0, priority]


async def test_what_budgets_would_lose_is_found_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_with(*(node(f"n{at}", gpus=8) for at in range(40)), queues={"q": {}})
    for at in range(300):
        state.upsert_pod(pod(f"p{at}", queue="q", node=f"n{at // 8}", phase="Running"))
    while state.accept_running(NOW):
        pass
    budget = {"metadata": {"name": "all", "namespace": "ns"}, "spec": {"selector": {}}, "status": {}}
    state.budgets.upsert(decoder(DisruptionBudget)(budget))
    looked: list[str] = []
    going = Budgets.going

    def look(self: Budgets, group: Any, pods: Any) -> Any:
        looked.append(group.uid)
        return going(self, group, pods)

    monkeypatch.setattr(Budgets, "going", look)
    evictable = EvictableGangs(state, ())
    steps, most = evictable.take_in(NOW).__await__(), 0
    before = 0
    for _ in steps:
        most, before = max(most, len(looked) - before), len(looked)
    assert most <= 100
    assert len(looked) == 300
    assert all(one.guarded for one in evictable.running(NOW))
    assert len(looked) == 300
