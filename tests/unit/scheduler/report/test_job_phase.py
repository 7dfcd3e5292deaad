"""The phase of a job that its limit ended: it stays ended until it has another limit, whatever its kind."""

from typing import Any
from unittest.mock import patch

import pytest

from t9ksched.model.api_resource import Resource
from t9ksched.model.pod import OwnerReference
from t9ksched.model.reasons import Code
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.report import job_phase
from t9ksched.scheduler.report.job_phase import phase_now
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.store.runs import Run
from t9ksched.workloads.registry import KINDS
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS
from tests.unit.scheduler.state.test_state import decide, node, pod, state_with


def object_of(kind: Resource, phase: str) -> JobObject:
    meta: dict[str, Any] = {"name": "j", "namespace": "ns", "uid": "j"}
    return decoder(JobObject)({"metadata": meta, "spec": {}, "status": {"phase": phase}})


@pytest.mark.parametrize("kind", [NOTEBOOKS, PYTORCHTRAININGJOBS, MPIJOBS], ids=str)
def test_resumed_as_it_was_it_stays_paused(kind: Resource) -> None:
    state = state_with()
    clock = Clock(Run(uid="j"))
    state.clocks.by_job["j"] = clock
    for code, phase, shown in (
        ("", "Pending", "Pending"),
        (Code.TIME_LIMIT_EXCEEDED, "Pending", "Paused"),
        (Code.TIME_LIMIT_EXCEEDED, "Resuming", "Paused"),
        (Code.TIME_LIMIT_EXCEEDED, "Failed", "Failed"),
        (Code.TIME_LIMIT_EXCEEDED, "Running", "Running"),
        (Code.MAX_DURATION_EXCEEDED, "Pending", "Pending"),
    ):
        clock.set(ended_code=str(code), ended_at=1, ended_limit=60)
        state.upsert_job(job_record(object_of(kind, phase), kind))
        assert phase_now(state, "j") == shown, (code, phase)


@pytest.mark.parametrize(
    ("told", "pods", "shown"),
    [
        ("", [], "Pending"),
        ("", ["Running", "Succeeded"], "Running"),
        ("", ["Succeeded"], "Pending"),
        ("", ["Failed"], "Pending"),
        ("Running", ["Succeeded"], "Running"),
        ("Succeeded", ["Succeeded"], "Succeeded"),
        ("Failed", ["Succeeded"], "Failed"),
    ],
)
def test_a_step_that_ended_does_not_end_the_workflow(told: str, pods: list[str], shown: str) -> None:
    state, kind = state_with(), KINDS["WorkflowRun"].resource
    state.upsert_job(job_record(object_of(kind, told), kind))
    for nth, phase in enumerate(pods):
        made = pod(f"p{nth}", queue="q", node="n1", phase=phase)
        made.metadata.owner_references = [OwnerReference(kind.api_version, "WorkflowRun", "j", "j", True)]
        state.upsert_pod(made)
    assert phase_now(state, "j") == shown


@pytest.mark.parametrize("ended", ["", str(Code.TIME_LIMIT_EXCEEDED)])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("deleting", [False, True])
@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_what_a_single_pod_says_by_itself_is_what_all_rules_say(
    phase: str, deleting: bool, deleted: bool, ended: str
) -> None:
    state = state_with()
    state.upsert_pod(pod("p", queue="q", node="n1" if phase != "Pending" else "", phase=phase, deleting=deleting))
    (gang,) = state.gangs_by_uid.values()
    if deleted:
        state.deleted.add(gang.uid)
    if ended:
        state.clocks.by_job[gang.uid] = Clock(Run(uid=gang.uid, ended_code=ended, ended_at=1))
    assert phase_now(state, gang.uid) == job_phase._phase(state, gang.uid, None, [gang], list(gang.members.values()))


def test_of_a_pod_that_waits_or_is_being_bound_the_rules_are_not_asked() -> None:
    state = state_with(node(gpus=8))
    for number in range(4):
        state.upsert_pod(pod(f"p{number}", queue="q"))
    with patch.object(job_phase, "_phase") as asked:
        decide(state)
        assert {phase_now(state, uid) for uid in state.gangs_by_uid} == {"Pending"}
        assert all(gang.members[gang.uid].assumed for gang in state.gangs_by_uid.values())
    assert not asked.called
