"""A job whose members ended and are made anew says how they ended, when they are back, and whether room is kept."""

from typing import Any

import msgspec
import pytest

from t9ksched.kube.resources import JOBS
from t9ksched.model.pod import ContainerStatus, OwnerReference
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.observe.job_objects import job_record
from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.state.objects import JobObject
from t9ksched.scheduler.state.state import ClusterState
from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.scheduler.state.test_state import NOW, group, node, pod, state_with

ENDED = "2026-01-01T00:00:10Z"
BLOCK = {"t9kScheduler": {"queue": "q"}}


def job(status: dict[str, Any], *, batch: bool = False, **spec: Any) -> Any:
    given = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "job", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"template": {"spec": {"schedulerName": "t9k-scheduler"}}} | spec
        if batch
        else {"scheduler": BLOCK} | spec,
        "status": status,
    }
    return job_record(decoder(JobObject)(given), JOBS if batch else PYTORCHTRAININGJOBS)


def replicas(**restarts: int) -> dict[str, Any]:
    tasks = [
        {"type": "worker", "replicas": [{"name": name, "restartCount": count} for name, count in restarts.items()]}
    ]
    return {"phase": "Pending", "tasks": tasks, "backoffCount": sum(restarts.values())}


def member(name: str, *, batch: bool = False, code: int | None = None, **more: Any) -> Any:
    made = pod(
        name, group="" if batch else "g", queue="q" if batch else "", phase="Failed" if code else "Pending", **more
    )
    kind = "Job" if batch else "PyTorchTrainingJob"
    made.metadata.owner_references = [OwnerReference(kind=kind, name="j", uid="job", controller=True)]
    if code:
        ended = {"terminated": {"exitCode": code, "finishedAt": ENDED, "reason": "Error"}}
        made.status.container_statuses = [type_of_status(ended)]
    return made


def type_of_status(state: dict[str, Any]) -> Any:
    return msgspec.convert({"name": "main", "state": state}, ContainerStatus)


async def told(state: ClusterState) -> str:
    """What list and explanation say, which is the same."""
    view = observed_job(state, "job")
    assert view is not None
    explained = await explanation(view, state)
    assert explained["verdict"] == "Waiting"
    listed = job_shape(view, state)["reason"]
    first = explained["reasons"][0]
    assert (listed["code"], listed["message"]) == (first["code"], first["message"])
    assert first["code"] == "GangIncomplete"
    return str(first["message"])


def cluster() -> ClusterState:
    state = state_with(node())
    made = group("g", 2)
    made.metadata.owner_references = [OwnerReference(kind="PyTorchTrainingJob", name="j", uid="job", controller=True)]
    state.upsert_group(made)
    return state


async def test_members_that_failed_and_are_made_anew_after_a_pause() -> None:
    state = cluster()
    for name in ("a", "b"):
        state.upsert_pod(member(name, node="n1", code=3))
    state.upsert_job(job(replicas(a=3, b=1), runPolicy={"backoffLimit": 6}))
    text = await told(state)
    assert "pod a" in text
    assert "code 3" in text
    assert "4 restarts used of 6" in text
    assert "at 2026-01-01T00:00:10Z" in text, "b comes back at once"
    assert "no room is kept" in text


async def test_when_the_pause_is_long() -> None:
    state = cluster()
    state.upsert_pod(member("a", node="n1", code=1))
    state.upsert_job(job(replicas(a=3), runPolicy={"backoffLimit": 6}))
    assert "another at 2026-01-01T00:00:14Z, after a pause that doubles" in await told(state)


async def test_between_the_end_of_one_pod_and_the_next() -> None:
    state = cluster()
    state.upsert_job(job(replicas(a=1)))
    assert "members of it ended, and are made anew (1 restart used of 3)" in await told(state)


async def test_room_that_is_kept() -> None:
    state = cluster()
    for name in ("a", "b"):
        state.upsert_pod(member(name, node="n1", uid=name))
        running = member(name, node="n1", uid=name)
        running.status.phase = "Running"
        state.upsert_pod(running)
    state.upsert_job(job({"phase": "Running"}))
    state.settle()
    failed = member("b", node="n1", uid="b", code=137)
    state.upsert_pod(failed)
    state.upsert_job(job(replicas(b=1)))
    state.follow_losses(NOW)
    text = await told(state)
    assert "pod b" in text
    assert "makes another at once" in text
    assert "room is kept for it on n1 until" in text


async def test_room_is_kept_while_no_member_of_the_gang_is_there() -> None:
    """Its controller has deleted all its pods and has made no other: what is kept is said once, and not denied."""
    state = cluster()
    for name in ("a", "b"):
        state.upsert_pod(member(name, node="n1", uid=name))
        running = member(name, node="n1", uid=name)
        running.status.phase = "Running"
        state.upsert_pod(running)
    state.upsert_job(job({"phase": "Running"}))
    state.settle()
    for name in ("a", "b"):
        state.remove_pod(name)
    state.upsert_job(job(replicas(b=1)))
    state.follow_losses(NOW)
    assert "room is kept for it on n1 until" in await told(state)


async def test_a_batch_job() -> None:
    state = state_with(node())
    state.upsert_pod(member("j-1", batch=True, node="n1", code=1))
    state.upsert_job(job({"failed": 1}, batch=True, backoffLimit=4))
    text = await told(state)
    view = observed_job(state, "job")
    assert view is not None
    assert job_shape(view, state)["phase"] == "Pending", "its controller has not given up"
    assert "1 restart used of 4" in text
    assert f"a while after {ENDED}" in text


@pytest.mark.parametrize("ready", [{}, {"active": 1}, {"active": 1, "ready": 1}])
async def test_a_batch_job_that_runs_again_does_not_wait(ready: dict[str, Any]) -> None:
    state = state_with(node())
    state.upsert_pod(member("j-1", batch=True, node="n1", uid="first", code=1))
    running = member("j-2", batch=True, node="n1", uid="second")
    running.status.phase = "Running"
    state.upsert_pod(running)
    state.upsert_job(job({"failed": 1} | ready, batch=True, backoffLimit=5))
    view = observed_job(state, "job")
    assert view is not None
    explained = await explanation(view, state)
    assert (explained["verdict"], explained["reasons"]) == ("Placed", [])
    assert (explained["job"]["phase"], explained["job"]["reason"]) == ("Running", None)


@pytest.mark.parametrize("status", [{"phase": "Pending"}, {"phase": "Paused"}])
async def test_a_job_that_never_lost_a_member_says_nothing_of_it(status: dict[str, Any]) -> None:
    state = cluster()
    state.upsert_job(job(status))
    view = observed_job(state, "job")
    assert view is not None
    assert "anew" not in str(await explanation(view, state))
