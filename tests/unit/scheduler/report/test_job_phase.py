"""The phase of a job that its limit ended: it stays ended until it has another limit, whatever its kind."""

from typing import Any

import pytest

from t9ksched.model.api_resource import Resource
from t9ksched.model.reasons import Code
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.report.job_phase import phase_now
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.store.runs import Run
from tests.kinds import MPIJOBS, NOTEBOOKS, PYTORCHTRAININGJOBS
from tests.unit.scheduler.state.test_state import state_with


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
