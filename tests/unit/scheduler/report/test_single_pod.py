"""A single pod that is to start is told as it is where nothing is made of that it is one."""

import sys
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from t9ksched.model import names
from t9ksched.model.ending import ContainerStatus
from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.run_times import Likeness, RunTimes
from t9ksched.model.timelimit import TimeLimit
from t9ksched.scheduler.report import job_phase, job_shape, single_pod
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve import jobindex
from t9ksched.scheduler.state import limits
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl
from t9ksched.store.runs import Run
from tests.unit.scheduler.state.test_state import NOW, decide, node, pod, state_with

UID = "pod-a"
AT = datetime.fromtimestamp(NOW / 1e9, UTC)


def asks(made: Any) -> None:
    made.metadata.annotations = {names.TIME_LIMIT_ANNOTATION: "1h"}


def owned(made: Any) -> None:
    made.spec.active_deadline_seconds = 900


def gone(made: Any) -> None:
    made.metadata.deletion_timestamp = "2023-11-14T22:15:00Z"


def stuck(made: Any) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    made.status.container_statuses = [msgspec.convert({"state": {"waiting": waiting}}, ContainerStatus)]


def began(made: Any) -> None:
    made.status.start_time = "2023-11-14T22:14:00Z"


def accepted(state: ClusterState, **more: Any) -> None:
    state.accept(Acceptance(uid=UID, kind="Pod", namespace="ns", name="a", queue="q", replicas=1, **more))


def waits(state: ClusterState) -> None:
    gang = state.gangs_by_uid[UID]
    gang.reasons, gang.position = (Reason(Code.INSUFFICIENT_RESOURCES, "no room"),), 3


def planned(state: ClusterState) -> None:
    made = Reservation(owner=UID, kind=ReservationKind.PLANNED, node="n1", pod_class=PodClass((("cpu", 1),)), since=NOW)
    state.plan_starts([made], 1)


def lengths(state: ClusterState) -> None:
    state.forecasts.times = RunTimes([(Likeness("ann", "q", "Pod", (1, 1)), 600.0)] * 50)


OF_THE_POD = {"asks": asks, "deadline": owned, "deleting": gone, "stuck": stuck, "began": began}
OF_THE_STATE = {
    "accepted": accepted,
    "by ann": lambda state: accepted(state, submitter="ann", priority=7),
    "with a limit": lambda state: accepted(state, submitter="ann", time_limit=timedelta(minutes=5)),
    "ran once": lambda state: accepted(state, started_at=AT),
    "waits": waits,
    "waits and is planned": lambda state: (waits(state), planned(state)),
    "lengths": lengths,
    "update": lambda state: state.direct({UID: JobControl(UID, time_limit_seconds=60, limited_at=AT, at=AT)}),
    "priority": lambda state: state.direct({UID: JobControl(UID, priority=9, at=AT)}),
    "clock": lambda state: state.clocks.begin(Clock(Run(uid=UID, bound_at=NOW))),
    "ended": lambda state: state.clocks.begin(
        Clock(Run(uid=UID, ended_code="TimeLimitExceeded", ended_at=NOW, ended_limit=60, message="over"))
    ),
    "deleted": lambda state: state.deleted.add(UID),
    "assumed": decide,
}


def told(state: ClusterState) -> Any:
    view = observed_job(state, UID)
    assert view is not None
    index: Any = jobindex.JobIndex(state)
    return (
        job_shape.job_view(view, state),
        job_shape.job_of(state, UID),
        job_phase.phase_now(state, UID),
        job_phase.on_its_way(state, UID),
        index._entry(UID),
        limits.limit_of(state, view.gangs, UID),
    )


def scene(random: Random) -> ClusterState:
    queues = random.choice([{"q": {}}, {"q": {"maxDuration": "2h"}}])
    state = state_with(node("n1"), queues={**queues, "default": {}})
    made = pod(
        "a",
        random.choice([0, 1, 2]),
        queue="q",
        node=random.choice(["", "", "n1"]),
        phase=random.choice(["Pending"] * 5 + ["Running", "Failed", "Succeeded"]),
    )
    for change in random.sample(list(OF_THE_POD), random.choice([0, 0, 1, 2])):
        OF_THE_POD[change](made)
    state.upsert_pod(made)
    state.settle()
    for change in random.sample(list(OF_THE_STATE), random.randrange(7)):
        OF_THE_STATE[change](state)
    return state


def test_it_is_told_as_any_job(monkeypatch: pytest.MonkeyPatch) -> None:
    random, quick = Random(4), 0
    for _ in range(900):
        state = scene(random)
        quick += single_pod.to_start(state, UID) is not None
        found = told(state)
        with monkeypatch.context() as patched:
            for module in (job_phase, job_shape, jobindex):
                patched.setattr(module, "to_start", lambda *_: None)
            patched.setattr(limits, "_plain_limit", lambda *_: None)
            assert found == told(state)
    assert 150 < quick < 750


def test_how_long_it_is_expected_to_run_is_told_while_it_waits() -> None:
    state = state_with(node("n1"))
    state.upsert_pod(pod("a", queue="q"))
    for change in ("by ann", "lengths", "waits"):
        OF_THE_STATE[change](state)
    assert single_pod.to_start(state, UID) is not None
    assert told(state)[0].time_limit == TimeLimit(600, "learned")


@pytest.mark.parametrize("what", ["deleting", "clock", "deleted", "Running"])
def test_what_does_not_only_start_is_no_such_pod(what: str) -> None:
    state, made = state_with(node("n1")), pod("a", queue="q", phase="Running" if what == "Running" else "Pending")
    if change := OF_THE_POD.get(what):
        change(made)
    state.upsert_pod(made)
    if act := OF_THE_STATE.get(what):
        act(state)
    assert single_pod.to_start(state, UID) is None


@pytest.mark.parametrize(("phase", "most"), [("Pending", 34), ("Running", 57)])
def test_a_list_calls_few_functions_for_each_pod(phase: str, most: int) -> None:
    """Those of Python alone: thousands of jobs are listed at once."""
    state = state_with(node("n1"), queues={"q": {"maxDuration": "2h"}, "default": {}})
    state.upsert_pod(pod("a", queue="q", node="n1" if phase == "Running" else "", phase=phase))
    state.settle()
    if phase == "Pending":
        waits(state)
    assert job_shape.job_of(state, UID) is not None  # what is kept after the first look is there
    called: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        view = job_shape.job_of(state, UID)
    finally:
        sys.setprofile(before)
    assert view is not None
    assert view.phase == phase
    assert len(called) <= most, " ".join(called)
