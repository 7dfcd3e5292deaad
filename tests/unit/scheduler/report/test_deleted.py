"""The phase of a job whose object is being deleted, or is gone, in any order of events."""

from typing import Any

import pytest

from t9ksched.kube.resources import JOBS
from t9ksched.model.pod import OwnerReference
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.report.job_phase import phase_now
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState
from tests.unit.scheduler.state.test_state import node, pod, state_with

OWNER = OwnerReference("batch/v1", "Job", "j", "j", True)


def member(owner: OwnerReference | None = OWNER, **more: Any) -> Any:
    made = pod("a", 0, queue="q", node="n1", **{"phase": "Running", **more})
    made.metadata.owner_references = [owner] if owner else None
    return made


def job(state: ClusterState, **status: Any) -> None:
    template = {"spec": {"schedulerName": "t9k-scheduler", "containers": []}}
    meta = {"name": "j", "namespace": "ns", "uid": "j"}
    made = decoder(JobObject)({"metadata": meta, "spec": {"template": template}, "status": status})
    state.upsert_job(job_record(made, JOBS))
    state.owners.upsert(made, JOBS, ours=True)


@pytest.mark.parametrize("seen", [True, False], ids=["seen going", "gone before the scheduler started"])
def test_the_object_is_gone_and_its_pods_end(seen: bool) -> None:
    state = state_with(node(), queues={"q": {}})
    if seen:
        job(state)
    state.upsert_pod(member())
    assert phase_now(state, "j") == "Running"
    state.remove_job("j")
    if seen:
        assert phase_now(state, "j") == "Terminating"
    state.upsert_pod(member(deleting=True))
    assert phase_now(state, "j") == "Terminating"
    if seen:
        state.upsert_pod(member(deleting=True, phase="Failed"))
        assert phase_now(state, "j") == "Terminating", "it was deleted, and did not fail"
    state.remove_pod("pod-a")
    assert phase_now(state, "j") is None
    assert not state.deleted


def test_pods_that_a_deletion_leaves_behind_run_on() -> None:
    state = state_with(node(), queues={"q": {}})
    job(state)
    state.upsert_pod(member())
    state.upsert_pod(member(None))
    state.remove_job("j")
    assert phase_now(state, "j") == "Running"


def test_pods_that_are_replaced_do_not_end_their_job() -> None:
    state = state_with(node(), queues={"q": {}})
    job(state, ready=1)
    state.upsert_pod(member(deleting=True))
    assert phase_now(state, "j") == "Running"


def test_a_job_that_had_ended_stays_as_it_ended() -> None:
    state = state_with(node(), queues={"q": {}})
    job(state, conditions=[{"type": "Complete", "status": "True"}])
    state.upsert_pod(member(phase="Succeeded"))
    state.remove_job("j")
    assert phase_now(state, "j") == "Succeeded"
