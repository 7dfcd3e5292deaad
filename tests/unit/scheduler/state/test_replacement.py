"""Room of lost members is kept while something may replace them: not for a job that is over or is being deleted."""

from typing import Any

import pytest

from t9ksched.kube.resources import REPLICASETS
from t9ksched.model.pod import OwnerReference
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.report.test_job_shape import settle, shown
from tests.unit.scheduler.state.test_lastgate import owned, replicated
from tests.unit.scheduler.state.test_state import CREATED, NOW, group, node, pod, state_with

THING = OwnerReference("x.example.com/v1", "Thing", "thing", "thing", True)
"""Of a kind that is not followed."""


def member(name: str, *, of: str = "g", kind: str = "", phase: str = "Running", **more: Any) -> Any:
    made = pod(name, group=of, node="n1", phase=phase, **more)
    return owned(made, kind, f"{kind}-1".lower()) if kind else made


def running(state: ClusterState, name: str = "g", *, pods: int = 2, kind: str = "", owner: Any = None) -> None:
    made = group(name, pods)
    if owner is not None:
        made.metadata.owner_references = [owner]
    state.upsert_group(made)
    for index in range(pods):
        state.upsert_pod(member(f"{name}-{index}", of=name, kind=kind))
    state.settle()


def kept(state: ClusterState) -> int:
    state.follow_losses(NOW)
    return len(state.refills.keeping())


@pytest.mark.parametrize("owner", [None, THING], ids=["by hand", "of an object that is not followed"])
@pytest.mark.parametrize("last", ["Failed", "Succeeded", ""], ids=["fails", "succeeds", "is deleted"])
def test_no_room_is_kept_once_all_pods_of_a_job_have_ended(last: str, owner: Any) -> None:
    state = state_with(node("n1"))
    running(state, pods=3, owner=owner)
    state.upsert_pod(member("g-1", phase="Failed"))
    assert kept(state) == 1
    state.upsert_pod(member("g-0", phase="Failed"))
    state.remove_pod("pod-g-0")
    assert kept(state) == 1
    settle(state)
    state.upsert_pod(member("g-2", phase=last)) if last else state.remove_pod("pod-g-2")
    assert kept(state) == 0
    assert not state.reservations.in_force()
    assert settle(state) == {}
    told = shown(state, THING.uid if owner else "group-g")
    assert (told["phase"], told["position"]) == ("Failed", None)


def test_a_gang_of_a_job_whose_other_gangs_run_keeps_its_room_until_their_last_pod_ends() -> None:
    state = state_with(node("n1"))
    for name in ("a", "b"):
        running(state, name, owner=THING)
    for name in ("a-0", "a-1", "b-0"):
        state.upsert_pod(member(name, of=name[0], phase="Failed"))
    assert kept(state) == 2
    state.upsert_pod(member("b-1", of="b", phase="Succeeded"))
    assert kept(state) == 0


def test_failed_pods_of_a_replica_set_keep_their_room_while_it_wants_pods() -> None:
    state = state_with(node("n1"))
    state.owners.upsert_replicated(replicated("ReplicaSet", "replicaset-1", 2), REPLICASETS)
    running(state, kind="ReplicaSet")
    for name in ("g-0", "g-1"):
        state.upsert_pod(member(name, kind="ReplicaSet", phase="Failed"))
    assert kept(state) == 1
    state.owners.upsert_replicated(replicated("ReplicaSet", "replicaset-1", 0), REPLICASETS)
    assert kept(state) == 0
    assert not state.gangs["ns", "g"].lost


def test_no_member_at_all_says_nothing_of_the_end_of_a_job() -> None:
    state = state_with(node("n1"))
    running(state)
    for name in ("g-0", "g-1"):
        state.remove_pod(f"pod-{name}")
    assert kept(state) == 1


def test_no_room_is_kept_for_a_pod_group_that_is_being_deleted() -> None:
    """A finalizer may hold it for long."""
    state = state_with(node("n1"))
    running(state)
    state.remove_pod("pod-g-1")
    assert kept(state) == 1
    made = group("g", 2)
    made.metadata.deletion_timestamp = CREATED
    state.upsert_group(made)
    assert kept(state) == 0
