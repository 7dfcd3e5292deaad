"""What a job is told to have: its phase, numbers, start and reason agree with its pods, and outlive those."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import JOBS
from t9ksched.model.pod import OwnerReference
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.run_times import Likeness, RunTimes
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import ObservedJob, observed_job
from t9ksched.scheduler.report.planned_shape import planned_start
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.objects import JobObject, nanoseconds
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.acceptances import Acceptance
from tests.unit.scheduler.state.test_lastgate import with_deployment
from tests.unit.scheduler.state.test_state import NOW, group, pod, state_with

FIRST, LATER = "2023-11-14T22:13:20Z", "2023-11-14T23:00:00Z"
assert nanoseconds(FIRST) == NOW


def of(
    kind: str, uid: str, name: str, *, phase: str = "Running", start: str = FIRST, gpus: int = 1, **more: Any
) -> Any:
    """A pod that a controller made."""
    made = pod(name, gpus, queue="q", node="n1" if phase != "Pending" else "", phase=phase, **more)
    made.metadata.owner_references = [OwnerReference("apps/v1", kind, uid, uid, True)]
    made.status.start_time = start
    return made


def settle(state: ClusterState, now: int = NOW) -> dict[str, tuple[str, ...]]:
    """A cycle; the codes of the reasons of what stays, by group."""
    found = plan(state.view(now), Policy(), now)
    for entry in found.waiting:
        gang = state.gangs_by_uid[entry.gang]
        gang.reasons, gang.position = entry.reasons, entry.position
    return {entry.gang: tuple(str(one.code) for one in entry.reasons) for entry in found.waiting}


def observed(state: ClusterState, uid: str) -> ObservedJob:
    view = observed_job(state, uid)
    assert view is not None
    return view


def shown(state: ClusterState, uid: str) -> dict[str, Any]:
    return job_shape(observed(state, uid), state)


def verdict(state: ClusterState, uid: str) -> tuple[str, list[str]]:
    told = asyncio.run(explanation(observed(state, uid), state))
    return told["verdict"], [one["code"] for one in told["reasons"]]


def positions(state: ClusterState, uid: str) -> tuple[int | None, int | None]:
    """As lists and explanations show it."""
    told = asyncio.run(explanation(observed(state, uid), state))
    return shown(state, uid)["position"], told["position"]


def batch_job(status: dict[str, Any]) -> JobObject:
    limits = {"nvidia.com/gpu": "2"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    template = {"spec": {"schedulerName": "t9k-scheduler", "restartPolicy": "Never", "containers": [container]}}
    meta = {"name": "batch", "namespace": "ns", "uid": "batch"}
    spec = {"parallelism": 2, "completions": 6, "template": template}
    return decoder(JobObject)({"metadata": meta, "spec": spec, "status": status})


def test_a_job_whose_first_pods_were_replaced_keeps_its_start() -> None:
    state = state_with()
    with_deployment(state, 2)
    for name in ("a", "b"):
        state.upsert_pod(of("ReplicaSet", "web-1", name))
    settle(state)
    assert shown(state, "web-1")["startedAt"] == FIRST
    for name in ("a", "b"):
        state.remove_pod(f"pod-{name}")
        state.upsert_pod(of("ReplicaSet", "web-1", f"{name}2", start=LATER))
    assert shown(state, "web-1")["startedAt"] == FIRST


def test_a_group_by_hand_whose_first_pods_were_replaced_keeps_its_start() -> None:
    state = state_with()
    state.upsert_group(group("g", 1))
    first, second = pod("a", group="g", node="n1", phase="Running"), pod("b", group="g", node="n1", phase="Running")
    first.status.start_time, second.status.start_time = FIRST, LATER
    state.upsert_pod(first)
    settle(state)
    state.remove_pod("pod-a")
    state.upsert_pod(second)
    assert shown(state, "group-g")["startedAt"] == FIRST


def test_a_job_that_is_over_has_no_position_though_a_pod_of_it_waits_still() -> None:
    state = state_with()
    state.upsert_job(job_record(batch_job({}), JOBS))
    state.upsert_pod(of("Job", "batch", "a", phase="Pending", gpus=9))
    settle(state)
    assert positions(state, "batch") == (1, 1)
    done = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    state.upsert_job(job_record(batch_job({"conditions": [done]}), JOBS))
    settle(state)
    assert shown(state, "batch")["phase"] == "Failed"
    assert positions(state, "batch") == (None, None)


def test_a_gang_that_runs_on_without_a_failed_member_has_no_position() -> None:
    """Its room is kept for a minute, for which it has a turn in each cycle."""
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.settle()
    state.upsert_pod(pod("b", group="g", node="n1", phase="Failed"))
    state.follow_losses(NOW)
    assert "group-g" in settle(state)
    assert positions(state, "group-g") == (None, None)


def test_what_a_running_batch_job_has_does_not_grow_with_what_has_ended() -> None:
    state = state_with()
    state.upsert_job(job_record(batch_job({"active": 2, "ready": 2}), JOBS))
    for name in ("a", "b", "c"):
        state.upsert_pod(of("Job", "batch", name, phase="Succeeded", gpus=2))
    for name in ("d", "e"):
        state.upsert_pod(of("Job", "batch", name, gpus=2, start=LATER))
    job = shown(state, "batch")
    assert (job["phase"], job["gpus"]) == ("Running", 4)
    assert {key: job["members"][key] for key in ("min", "total", "running", "succeeded")} == {
        "min": 2,
        "total": 2,
        "running": 2,
        "succeeded": 3,
    }
    ended = {"succeeded": 6, "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": LATER}]}
    state.upsert_job(job_record(batch_job(ended), JOBS))
    for name in ("d", "e", "f"):
        state.upsert_pod(of("Job", "batch", name, phase="Succeeded", gpus=2, start=LATER))
    before = shown(state, "batch")
    assert (before["gpus"], before["members"]["total"], before["members"]["succeeded"]) == (4, 2, 6)
    for name in "abcdef":
        state.remove_pod(f"pod-{name}")
    after = shown(state, "batch")
    assert (after["gpus"], after["members"]) == (before["gpus"], before["members"])


@pytest.mark.parametrize(
    ("phases", "phase", "codes"),
    [
        (["Running"] * 4, "Running", []),
        (["Running"] * 3, "Pending", ["GangIncomplete"]),
        (["Running"] * 3 + ["Failed"], "Running", []),
        (["Running"] * 3 + ["Succeeded"], "Running", []),
        (["Running"] * 2 + ["Failed"], "Pending", ["GangIncomplete"]),
        (["Running"] * 3 + ["Failed", "Pending"], "Pending", ["InsufficientResources"]),
        (["Running"] * 3 + ["Pending"], "Pending", ["InsufficientResources"]),
    ],
)
def test_phase_numbers_and_reason_of_a_group_by_hand_agree(phases: list[str], phase: str, codes: list[str]) -> None:
    state = state_with()
    state.upsert_group(group("g", 4))
    for at in range(4):
        state.upsert_pod(pod(f"m{at}", 2, group="g", node="n1", phase="Running"))
    settle(state)
    for at in range(4):
        if at >= len(phases) or phases[at] != "Running":
            state.remove_pod(f"pod-m{at}")
    for at, now in enumerate(phases):
        if now in ("Failed", "Succeeded"):
            state.upsert_pod(pod(f"m{at}", 2, group="g", node="n1", phase=now, uid=f"again-{at}"))
        elif now == "Pending":
            state.upsert_pod(pod("large", 7, group="g"))
    settle(state)
    job = shown(state, "group-g")
    told, reasons = verdict(state, "group-g")
    running = phases.count("Running")
    assert (job["phase"], job["members"]["running"], job["members"]["total"]) == (phase, running, len(phases))
    assert reasons == codes or reasons[:1] == codes == ["GangIncomplete"]
    assert ((job["reason"] or {}).get("code"), told) == (
        codes[0] if codes else None,
        "Waiting" if codes else "Placed",
    )


@pytest.mark.parametrize(("others", "seen"), [("ann", "ann"), ("bob", None), (None, None)])
async def test_who_submitted_all_pods_of_a_group_that_is_gone_sees_them(others: str | None, seen: str | None) -> None:
    state = state_with()
    state.upsert_group(group("g", 2))
    for name, user in (("a", "ann"), ("b", others)):
        of_pod = {"uid": f"pod-{name}", "kind": "Pod", "namespace": "ns", "name": name, "group_name": "g"}
        state.accept(Acceptance(**of_pod, submitter=user))
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.remove_group(group("g", 2))
    assert shown(state, "ns/g")["submitter"] == seen
    assert await JobIndex(state).of(submitters=["ann"]), "a user whose pods run on sees them"


def test_what_no_cycle_judges_says_why_it_waits() -> None:
    """A group that lost members and has none that waits, and one of which all pods are gone."""
    state = state_with()
    state.upsert_group(group("g", 2))
    for name in ("a", "b"):
        state.upsert_pod(pod(name, group="g", node="n1", phase="Running"))
    state.settle()
    state.accept_running(NOW)
    assert shown(state, "group-g")["reason"] is None
    for left, said in ((1, "1 of 2 members have a place"), (0, "no pod of it exists")):
        state.remove_pod("pod-a" if left else "pod-b")
        state.settle()
        told, explained = shown(state, "group-g"), asyncio.run(explanation(observed(state, "group-g"), state))
        assert (told["phase"], told["reason"]["code"]) == ("Pending", "GangIncomplete")
        assert said in told["reason"]["message"]
        assert told["reason"]["message"] == explained["reasons"][0]["message"]


# ---- what is learned from jobs like it

SECOND = 1_000_000_000


def learned_from(state: ClusterState, *seconds: float, user: str = "ann") -> None:
    """Jobs of one card by this user ran so long in the queue `q`."""
    state.forecasts.times = RunTimes((Likeness(user, "q", "Pod", (1, 1)), one) for one in seconds)


def one_runs_and_one_waits(limit: timedelta | None = None) -> ClusterState:
    state = state_with()
    for name in ("runs", "waits"):
        of_pod = {"uid": f"pod-{name}", "kind": "Pod", "namespace": "ns", "name": name}
        state.accept(Acceptance(**of_pod, submitter="ann", queue="q", time_limit=limit))
    runs, waits = pod("runs", queue="q", node="n1", phase="Running"), pod("waits", 8, queue="q")
    runs.status.start_time = FIRST
    for one in (runs, waits):
        state.upsert_pod(one)
    settle(state)
    state.forecasts.now = NOW
    return state


def test_a_job_without_a_limit_tells_how_long_jobs_like_it_ran() -> None:
    state = one_runs_and_one_waits()
    nothing = {"seconds": None, "source": "none", "enforced": False}
    assert shown(state, "pod-runs")["timeLimit"] == shown(state, "pod-waits")["timeLimit"] == nothing
    learned_from(state, *(60 * minutes + 0.5 for minutes in range(1, 11)))
    learned = {"seconds": 541, "source": "learned", "enforced": False}
    assert shown(state, "pod-waits")["timeLimit"] == learned, "nine of ten ran no longer than nine minutes"
    assert shown(state, "pod-runs")["timeLimit"] == learned
    state.forecasts.now = NOW + 5 * 60 * SECOND
    assert shown(state, "pod-runs")["timeLimit"]["seconds"] == 601, "of those that ran longer than five minutes"
    assert shown(state, "pod-waits")["timeLimit"] == learned
    state.forecasts.now = NOW + 7 * 60 * SECOND
    assert shown(state, "pod-runs")["timeLimit"] == nothing, "too few ran so long"
    learned_from(state, 1, 2, 3, 4)
    assert shown(state, "pod-waits")["timeLimit"] == nothing, "too few ran"
    learned_from(state, 1, 2, 3, 4, 5, user="bob")
    assert shown(state, "pod-waits")["timeLimit"] == nothing, "others' jobs say nothing"


def test_a_limit_that_is_enforced_counts_and_what_has_ended_expects_nothing() -> None:
    state = one_runs_and_one_waits(timedelta(hours=4))
    learned_from(state, 1, 2, 3, 4, 5)
    assert shown(state, "pod-waits")["timeLimit"] == {"seconds": 14400, "source": "job", "enforced": True}
    state = one_runs_and_one_waits()
    learned_from(state, 1, 2, 3, 4, 5)
    state.upsert_pod(pod("runs", queue="q", node="n1", phase="Succeeded"))
    assert shown(state, "pod-runs")["timeLimit"]["source"] == "none"


def test_a_start_that_relies_on_what_is_learned_is_told_as_tentative() -> None:
    state = one_runs_and_one_waits()
    before = shown(state, "pod-waits")
    assert before["plannedStart"] is None
    at = nanoseconds("2023-11-14T23:41:00Z")
    state.forecasts.walk_found({}, {"pod-waits": (NOW, at)}, NOW, {"pod-waits": (("n1", 1, 8),)})
    job = shown(state, "pod-waits")
    assert job["plannedStart"] == {"at": "2023-11-14T23:41:00Z", "firm": False, "nodes": ("n1",)}
    assert job["plannedStart"]["at"] == job["expectedStart"]["latest"]
    expected = "expected to start at 2023-11-14T23:41:00Z (tentative)"
    assert job["reason"]["message"] == f"{before['reason']['message']}; {expected}"
    assert job["reason"]["code"] == before["reason"]["code"]
    gang = state.gangs_by_uid["pod-waits"]
    assert planned_start([gang], state) is None, "no condition is written of it"
    (of_class,) = {one.pod_class for one in gang.members.values()}
    assert of_class is not None
    plan = Reservation("pod-waits", "n1", of_class, ReservationKind.PLANNED, since=at, firm=True)
    state.reservations.planned = {"pod-waits": (plan,)}
    assert shown(state, "pod-waits")["plannedStart"]["firm"] is True, "the firm plan replaces it"
    assert shown(state, "pod-waits")["reason"] == before["reason"]
