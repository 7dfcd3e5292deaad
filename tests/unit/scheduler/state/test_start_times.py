"""The moment before which a job does not start: whose annotation counts, who waits for it, and what goes on."""

from typing import Any

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import DEPLOYMENTS, REPLICASETS
from t9ksched.model import names
from t9ksched.model.pod import OwnerReference
from t9ksched.model.reasons import Code
from t9ksched.scheduler.state.asks import Asks
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.objects import nanoseconds
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.start_times import start_asked
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import CREATED, NOW, group, pod, state_with
from tests.unit.scheduler.state.test_waking import Cluster, replica_set

HOUR = 3600 * 1_000_000_000
PAST, SOON, LATER = "2023-11-14T00:00:00Z", "2023-11-15T00:00:00Z", "2023-11-16T08:00:00+08:00"
"""Before and after `NOW`, which is on the evening of the first of these days."""


def asking(obj: Any, text: str) -> Any:
    obj.metadata.annotations = (obj.metadata.annotations or {}) | {names.START_AFTER_ANNOTATION: text}
    return obj


def job(kind: str, text: str = "") -> JobRecord:
    return JobRecord("job", "batch/v1", kind, "ns", "job", 0, "q", 0, "Pending", asks=Asks(start=text))


def owned(made: Any, uid: str, kind: str = "Job") -> Any:
    made.metadata.owner_references = [OwnerReference("batch/v1", kind, uid, uid, controller=True)]
    return made


def gang_of(state: ClusterState, name: str = "a") -> GangRecord:
    found = state.pods[f"pod-{name}"].gang
    assert found is not None
    return found


def placed(state: ClusterState, now: int = NOW) -> list[str]:
    """The gangs that the engine is asked for."""
    return [gang.name for gang in state.view(now).gangs]


# ---- who waits


@pytest.mark.parametrize("text", ["", PAST, "tomorrow", "2023-11-15T00:00:00", "2023-11-15"])
def test_without_a_moment_to_come_a_job_starts_at_once(text: str) -> None:
    state = state_with()
    state.upsert_pod(asking(pod("a", queue="q"), text))
    assert placed(state) == ["ns/a"]


def test_before_its_moment_a_job_is_not_seen_by_the_engine_and_has_no_position() -> None:
    state = state_with()
    state.upsert_pod(asking(pod("a", queue="q"), SOON))
    state.upsert_pod(pod("b", queue="q"))
    assert placed(state) == ["ns/b"]
    gang = gang_of(state)
    (reason,) = gang.reasons
    assert (reason.code, gang.position) == (Code.START_TIME_NOT_REACHED, None)
    assert reason.message == f"it is not to start before {SOON}"
    assert not reason.refused
    assert gang.acceptance is not None, "it is in the queue, though it waits"
    assert state.next_retry() == nanoseconds(SOON)
    assert placed(state, nanoseconds(SOON)) == ["ns/a", "ns/b"]
    assert state.next_retry() is None


def test_a_closed_queue_keeps_what_waits_for_its_moment() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_pod(asking(pod("a", queue="q"), SOON))
    state.view(NOW)
    state.set_queues([state_with(queues={"q": {"closed": True}}).queues["q"]])
    assert [gang.accepted for gang in state.view(nanoseconds(SOON)).gangs] == [True]


def test_its_age_counts_from_then() -> None:
    state = state_with()
    state.upsert_pod(asking(pod("a", queue="q"), "2026-01-02T00:00:00Z"))
    state.upsert_pod(asking(pod("b", queue="q"), PAST))
    state.upsert_pod(pod("c", queue="q"))
    moment = nanoseconds("2026-01-02T00:00:00Z")
    created = {gang.name: gang.created for gang in state.view(moment).gangs}
    came = nanoseconds(CREATED)
    assert created == {"ns/a": moment, "ns/b": came, "ns/c": came}


# ---- whose annotation counts


def test_of_a_group_and_its_members_the_latest_counts() -> None:
    state = state_with()
    state.upsert_group(asking(group("g", 2), SOON))
    state.upsert_pod(asking(pod("a", group="g"), LATER))
    state.upsert_pod(asking(pod("b", group="g"), "soon"))
    assert placed(state, nanoseconds(SOON)) == []
    asked = start_asked(state, gang_of(state))
    assert asked.at == nanoseconds(LATER)
    assert "'soon' is not a time" in asked.fault
    assert placed(state, nanoseconds(LATER)) == ["ns/g"]


@pytest.mark.parametrize(("kind", "counts"), [("Job", LATER), ("PyTorchTrainingJob", SOON)])
def test_a_job_that_is_made_into_pods_here_has_its_own_and_others_the_latest(kind: str, counts: str) -> None:
    state = state_with()
    state.upsert_job(job(kind, SOON))
    state.upsert_pod(asking(owned(pod("a", queue="q"), "job", kind), LATER))
    assert start_asked(state, gang_of(state)).at == nanoseconds(counts)


def deployment(text: str) -> Any:
    made = replica_set("web", 1)
    return asking(made, text)


def test_the_root_owner_counts_and_so_does_its_edit() -> None:
    cluster = Cluster()
    state = cluster.state
    state.owners.upsert_replicated(deployment(SOON), DEPLOYMENTS)
    state.owners.upsert_replicated(replica_set("rs", 1, above="web"), REPLICASETS)
    state.upsert_pod(owned(pod("a", queue="q"), "rs", "ReplicaSet"))
    state.view(NOW)
    assert [reason.code for reason in gang_of(state).reasons] == [Code.START_TIME_NOT_REACHED]
    cluster.woken = 0
    state.owners.upsert_replicated(deployment(PAST), DEPLOYMENTS)
    assert cluster.woken
    assert placed(state) == ["ns/a"]


# ---- edits, and jobs that are seen late


@pytest.mark.parametrize("text", ["", PAST])
def test_an_edit_counts_at_once(text: str) -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_pod(asking(pod("a", queue="q"), SOON))
    assert placed(state) == []
    cluster.woken = 0
    state.upsert_pod(asking(pod("a", queue="q"), text))
    assert cluster.woken
    assert placed(state) == ["ns/a"]
    state.upsert_pod(asking(pod("a", queue="q"), LATER))
    assert placed(state) == []


def test_an_edit_of_a_group_counts_at_once() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_group(asking(group("g", 1), SOON))
    state.upsert_pod(pod("a", group="g"))
    assert placed(state) == []
    cluster.woken = 0
    state.upsert_group(group("g", 1))
    assert cluster.woken
    assert placed(state) == ["ns/g"]


def test_a_job_that_is_seen_after_its_pods_counts_and_so_does_its_edit() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_pod(owned(pod("a", queue="q"), "job"))
    state.view(NOW)
    state.upsert_job(job("Job", SOON))
    assert placed(state) == []
    cluster.woken = 0
    state.upsert_job(job("Job"))
    assert cluster.woken
    assert placed(state) == ["ns/a"]


def test_the_copies_that_an_own_job_has_made_count_until_it_is_seen() -> None:
    state = state_with()
    state.upsert_pod(asking(owned(pod("a", queue="q"), "job", "Notebook"), SOON))
    assert placed(state) == []
    state.upsert_job(job("Notebook"))
    assert placed(state) == ["ns/a"]


# ---- what has begun


def test_what_has_begun_is_not_held_up() -> None:
    state = state_with()
    state.upsert_group(asking(group("g", 2), SOON))
    state.upsert_pod(pod("a", group="g", node="n1", phase="Running"))
    state.upsert_pod(pod("b", group="g"))
    assert placed(state) == ["ns/g"]


def test_lost_members_are_replaced() -> None:
    state = state_with()
    state.upsert_group(asking(group("g", 1), PAST))
    state.upsert_pod(owned(pod("a", group="g", node="n1", phase="Running"), "job"))
    state.settle()
    state.upsert_group(asking(group("g", 1), SOON))
    state.remove_pod("pod-a")
    state.upsert_pod(owned(pod("b", group="g"), "job"))
    assert placed(state) == ["ns/g"]


def test_another_pod_of_a_job_that_runs_is_placed() -> None:
    state = state_with()
    state.upsert_job(job("Job", SOON))
    state.upsert_pod(owned(pod("a", queue="q", node="n1", phase="Running"), "job"))
    state.upsert_pod(owned(pod("b", queue="q"), "job"))
    assert placed(state) == ["ns/b"]


def test_what_may_start_with_its_job_waits_again_once_nothing_of_that_runs() -> None:
    state = state_with()
    state.upsert_pod(owned(pod("a", queue="q", node="n1", phase="Running"), "job", "GenericJob"))
    state.upsert_pod(owned(asking(pod("b", queue="q"), SOON), "job", "GenericJob"))
    assert placed(state) == ["ns/b"]
    state.remove_pod("pod-a")
    assert placed(state) == []
    assert [reason.code for reason in gang_of(state, "b").reasons] == [Code.START_TIME_NOT_REACHED]


def test_a_job_that_begins_wakes_the_loop_for_its_pods_that_were_to_start_later() -> None:
    cluster = Cluster()
    state = cluster.state
    state.upsert_pod(owned(pod("a", queue="q"), "job", "GenericJob"))
    state.upsert_pod(owned(asking(pod("b", queue="q"), SOON), "job", "GenericJob"))
    (decision,) = plan(state.view(NOW), Policy(), NOW).assignments
    woken = cluster.woken
    assert state.assume(decision.gang, [decision], NOW) == [decision]
    assert cluster.woken > woken
    assert placed(state) == ["ns/b"]
