"""Jobs that run are paused, resumed and scaled, and submitted again, by those who may."""

from typing import Any

import pytest

from tests.kinds import PYTORCHTRAININGJOBS
from tests.unit.api.world import Json, World, pod, pytorch

JOB = "/apis/v1/workloads/default/pytorchtrainingjob/resnet"
ELASTIC = {"enabled": True, "minReplicas": 2, "maxReplicas": 6, "expectedReplicas": 2}


@pytest.fixture(autouse=True)
async def submitted(world: World) -> Json:
    await world.store.queues.create("a100", {}, {}, {"everyone": True})
    job = pytorch()
    job["spec"] |= {"elastic": ELASTIC, "torchrunConfig": {"enabled": True}}
    return (await world.user("POST", "/apis/v1/workloads", job)).job


def spec(world: World) -> Json:
    return dict(world.kube.objects[str(PYTORCHTRAININGJOBS), "default", "resnet"]["spec"])


async def told(world: World) -> list[tuple[str, Json]]:
    found = (await world.user("GET", f"{JOB}/history")).body["items"]
    return [(one["event"], one["detail"]) for one in found if one["event"].startswith("job-")]


async def test_a_job_is_paused_and_resumed_once_and_it_is_on_record(world: World) -> None:
    for _ in range(2):
        found = await world.user("POST", f"{JOB}/actions/pause")
        assert (found.status, found.body["phase"]) == (200, "Paused")
    assert spec(world)["runMode"]["pause"]["enabled"] is True
    for _ in range(2):
        assert (await world.user("POST", f"{JOB}/actions/resume")).status == 200
    assert spec(world)["runMode"]["pause"]["enabled"] is False
    assert [event for event, _ in await told(world)] == ["job-paused", "job-resumed"]


async def test_a_job_that_a_limit_ended_is_resumed_with_a_warning(world: World, submitted: Json) -> None:
    reason = {"code": "TimeLimitExceeded", "message": "ran for 4h"}
    world.leader.job_list = [submitted | {"phase": "Paused", "reason": reason, "submitter": "ann"}]
    (warning,) = (await world.user("POST", f"{JOB}/actions/resume")).body["warnings"]
    assert "ran for 4h" in warning["message"]


async def test_sizes(world: World) -> None:
    assert (await world.user("POST", f"{JOB}/actions/scale", {"replicas": 5})).status == 200
    assert spec(world)["elastic"] == ELASTIC | {"expectedReplicas": 5}
    assert await told(world) == [("job-scaled", {"from": 2, "to": 5})]
    for body, words in (
        ({"replicas": 7}, "from 2 to 6"),
        ({"replicas": "3"}, "use a whole number"),
        ({"replicas": True}, "use a whole number"),
        ({}, "replicas"),
        ({"replicas": 3, "x": 1}, "the field is replicas"),
    ):
        refused = await world.user("POST", f"{JOB}/actions/scale", body)
        assert (refused.status, words in refused.body["detail"]) == (422, True), refused.body


async def test_what_has_ended_or_cannot_is_told(world: World, submitted: Json) -> None:
    await world.user("POST", "/apis/v1/workloads", pod("p", queue="a100"))
    for action in ("pause", "resume"):
        found = await world.user("POST", f"/apis/v1/workloads/default/pod/p/actions/{action}")
        assert (found.status, "cannot be paused" in found.body["detail"]) == (409, True)
    scaled = await world.user("POST", "/apis/v1/workloads/default/pod/p/actions/scale", {"replicas": 2})
    assert (scaled.status, "cannot be scaled" in scaled.body["detail"]) == (409, True)
    world.leader.job_list = [submitted | {"phase": "Succeeded"}]
    for action, body in (("pause", None), ("resume", None), ("scale", {"replicas": 3})):
        found = await world.user("POST", f"{JOB}/actions/{action}", body)
        assert (found.status, "Succeeded" in found.body["detail"]) == (409, True)


async def test_others_need_the_right_in_the_cluster(world: World) -> None:
    boss = await world.store.tokens.create("boss", "manager", queues=["a100"])
    rival = await world.store.tokens.create("rival", "manager", queues=["other"])
    world.kube.namespace_meta["default"] = {"annotations": {}}
    world.kube.answers["SubjectAccessReview"] = {"status": {"allowed": False}}
    paused = await world.user("POST", f"{JOB}/actions/pause", Authorization=f"Bearer {boss}")
    assert paused.status == 200
    assert (await world.user("POST", f"{JOB}/actions/pause", Authorization=f"Bearer {rival}")).status == 404


async def test_a_job_is_submitted_again_under_another_name(world: World) -> None:
    await world.user("POST", f"{JOB}/actions/pause")
    tried = await world.user("POST", f"{JOB}/actions/resubmit?dryRun=true")
    assert (tried.status, len(world.kube.objects)) == (200, 1)
    found = await world.user("POST", f"{JOB}/actions/resubmit?newName=again&priority=7&timeLimit=2h")
    assert (found.status, found.job["name"], found.job["priority"]) == (201, "again", 7)
    made = world.kube.objects[str(PYTORCHTRAININGJOBS), "default", "again"]
    assert made["metadata"]["annotations"]["scheduler.tensorstack.dev/time-limit"] == "2h"
    assert "runMode" not in made["spec"]
    assert made["spec"]["elastic"] == ELASTIC
    named = await world.user("POST", f"{JOB}/actions/resubmit")
    assert (named.status, named.job["name"][:7]) == (201, "resnet-")
    assert (await world.user("POST", f"{JOB}/actions/resubmit?newName=again")).status == 409
    assert (await world.user("POST", f"{JOB}/actions/resubmit?newName=A_B")).status == 422
    assert (await world.user("POST", f"{JOB}/actions/resubmit?queue=nope")).body["code"] == "QueueNotFound"


async def test_the_cluster_may_refuse(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from t9ksched.kube.errors import Conflict, Unreachable

    errors: list[Any] = [Conflict(409, "Conflict", "another"), Unreachable("away")]
    for error, status in zip(errors, (409, 503), strict=True):
        world.kube.faults = lambda verb, *_, error=error: error if verb == "patch" else None
        assert (await world.user("POST", f"{JOB}/actions/pause")).status == status
    assert await told(world) == []
