"""What is told of the annotation that asks for a time limit, also when pods that carried it are gone."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from t9ksched.model import names
from t9ksched.model.pod import OwnerReference, Pod, decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code
from t9ksched.model.timelimit import TimeLimit
from t9ksched.scheduler.state.limits import limit_of, limit_warning, never_limited, own_limit
from t9ksched.scheduler.state.records import GangRecord, job_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl
from tests.unit.scheduler.state.test_state import pod, state_with

NOW = 1_700_000_000_000_000_000


def member(name: str, limit: str = "") -> Pod:
    """A pod of the PodGroup `g`."""
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": {names.GROUP_LABEL: "g"}}
    note = {"annotations": {names.TIME_LIMIT_ANNOTATION: limit}} if limit else {}
    made = decode_pod({"metadata": meta | note, "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": []}})
    made.metadata.owner_references = [OwnerReference("batch/v1", "Job", "sweep", "sweep", True)]
    return made


@pytest.fixture
def state() -> ClusterState:
    found = ClusterState()
    for name in ("asks", "says-nothing"):
        found.upsert_pod(member(name, "22s" if name == "asks" else ""))
    return found


def gang(state: ClusterState) -> GangRecord:
    (found,) = state.gangs.values()
    found.acceptance = Acceptance(uid="g", kind="Job", namespace="ns", name="g", time_limit=timedelta(seconds=22))
    return found


def test_nothing_is_told_of_a_job_whose_pods_are_gone(state: ClusterState) -> None:
    group = gang(state)
    assert limit_warning(state, group) == ""
    state.note_end(group, Code.TIME_LIMIT_EXCEEDED, "it reached its time limit", NOW, 22)
    state.remove_pod("asks")
    assert limit_warning(state, group) == "", "its pods are leaving, the one with the annotation first"
    state.remove_pod("says-nothing")
    assert limit_warning(state, group) == ""


def test_nor_of_one_that_ended_by_itself(state: ClusterState) -> None:
    group = gang(state)
    for name in ("asks", "says-nothing"):
        state.remove_pod(name)
    assert limit_warning(state, group) == ""


def test_nor_of_one_that_got_the_rest_of_a_reservation(state: ClusterState) -> None:
    group = gang(state)
    assert group.acceptance is not None
    group.acceptance = structs.replace(group.acceptance, time_limit=None)
    for name in ("asks", "says-nothing"):
        pod = member(name)
        pod.spec.node_name = "n1"
        state.upsert_pod(pod)
    state.clocks.reserve(job_of(group), NOW + 3600 * 10**9)
    group.first_bound = NOW
    rest = own_limit(state, group)
    assert rest is not None
    assert limit_warning(state, group) == ""
    assert limit_of(state, [group], job_of(group)) == TimeLimit(rest, "reservation")
    state.note_end(group, Code.TIME_LIMIT_EXCEEDED, "the reservation ends", NOW + 3000 * 10**9, rest)
    assert limit_of(state, [group], job_of(group)) == TimeLimit(rest, "reservation"), "it is what ended it"
    for name in ("asks", "says-nothing"):
        state.remove_pod(name)
    assert limit_of(state, [], job_of(group)) == TimeLimit(rest, "reservation"), "its pods are gone"
    later = datetime.fromtimestamp(NOW / 1e9 + 4000, UTC)
    for seconds, shown in ((0, TimeLimit()), (60, TimeLimit(60, "job"))):
        state.controls[job_of(group)] = JobControl("g", time_limit_seconds=seconds, limited_at=later)
        assert limit_of(state, [group], job_of(group)) == shown, "it was given another one since"


@pytest.mark.parametrize(("text", "told"), [("", "none"), ("9h", "9h")])
def test_an_edit_is_told(state: ClusterState, text: str, told: str) -> None:
    group = gang(state)
    state.upsert_pod(member("asks", text))
    assert f"asks for a time limit of {told}" in limit_warning(state, group)


@pytest.mark.parametrize(
    ("length", "agreed", "source"),
    [("10s", 10, "queue"), ("22s", 22, "job"), ("1m", 22, "job"), ("10s", 8, "job")],
)
def test_a_limit_that_the_queue_shortened_is_the_queues(
    state: ClusterState, length: str, agreed: int, source: str
) -> None:
    """The annotation asks for 22 s."""
    state.set_queues([Queue("default", parse_queue_spec({"maxDuration": length}))])
    group = gang(state)
    group.acceptance = structs.replace(group.acceptance, time_limit=timedelta(seconds=agreed))  # type: ignore[type-var]
    assert group.queue == "default"
    assert limit_of(state, [group], job_of(group)) == TimeLimit(agreed, source)  # type: ignore[arg-type]


def test_a_limit_that_was_given_since_is_the_jobs(state: ClusterState) -> None:
    state.set_queues([Queue("default", parse_queue_spec({"maxDuration": "10s"}))])
    group = gang(state)
    group.acceptance = structs.replace(group.acceptance, time_limit=timedelta(seconds=10))  # type: ignore[type-var]
    given = JobControl(job_of(group), time_limit_seconds=10, limited_at=datetime.now(UTC))
    state.direct({job_of(group): given})
    assert limit_of(state, [group], job_of(group)) == TimeLimit(10, "job")


def test_a_pod_that_asks_for_nothing_is_told_nothing() -> None:
    state = state_with()
    state.upsert_pod(pod("p", queue="q"))
    (single,) = state.gangs.values()
    assert never_limited(single)
    single.acceptance = Acceptance(uid="p", kind="Pod", namespace="ns", name="p")
    assert (never_limited(single), limit_warning(state, single)) == (True, "")
    single.acceptance = Acceptance(uid="p", kind="Pod", namespace="ns", name="p", time_limit=timedelta(seconds=22))
    assert not never_limited(single)
    assert "what was agreed when the job was accepted counts" in limit_warning(state, single)
