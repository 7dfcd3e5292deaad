"""Time limits from outside: jobs end at them through their owners, across restarts, and say so."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from t9ksched.engine.policy import Policy
from t9ksched.kube.resources import DEPLOYMENTS, EVENTS, JOBS, PODS
from t9ksched.model import names
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.state.clocks import Clock
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.store import history
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_failures import happened
from tests.integration.world import Object, World

LIMIT = names.TIME_LIMIT_ANNOTATION


def template(world: World, queue: str, **annotations: str) -> Object:
    pod = world.pod("x", 1, queue=queue)
    meta = {"labels": pod["metadata"]["labels"] | {"app": "x"}, "annotations": annotations}
    return {"metadata": meta, "spec": pod["spec"]}


def batch_job(world: World, queue: str, name: str, limit: str, **spec: Any) -> Object:
    pods = template(world, queue)
    pods["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": world.namespace, "annotations": {LIMIT: limit}},
        "spec": {"template": pods, **spec},
    }


async def explained(service: Any, kind: str, name: str, namespace: str) -> dict[str, Any]:
    view = await service._jobs.find(namespace, kind, name)
    assert view is not None
    return await explanation(view, service.state)


async def running_clocks(service: Any) -> list[Clock]:
    """The clocks of jobs that run, once there is one."""
    async with asyncio.timeout(90):
        while not (found := [clock for clock in service.state.clocks.by_job.values() if clock.run.ran_at]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def test_a_job_is_suspended_at_its_limit_and_resumes_only_with_another(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(batch_job(world, queue, "sweep", "1s"))
        event = await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "sweep")
        assert "time limit of 1s" in event["message"]
        await world.until(JOBS, "sweep", lambda item: item["spec"].get("suspend") is True)
        await world.until(JOBS, "sweep", lambda item: not item["status"].get("active"))
        assert "1s" in (await happened(store, history.TIME_LIMIT_EXCEEDED, "sweep")).detail["message"]
        told = await explained(service, "job", "sweep", world.namespace)
        assert (told["verdict"], [reason["code"] for reason in told["reasons"]]) == ("Waiting", ["TimeLimitExceeded"])
        assert told["job"]["timeLimit"] == {"seconds": 1, "source": "job", "enforced": True}
        first = told["job"]["startedAt"]
        await world.client.patch(JOBS, "sweep", world.namespace, {"spec": {"suspend": False}})
        await world.event(names.EVENT_WAITING, "sweep")
        assert not await world.bound()
        annotations = {"annotations": {LIMIT: "1h"}}
        await world.client.patch(JOBS, "sweep", world.namespace, {"metadata": annotations})
        await world.until(JOBS, "sweep", lambda item: item["status"].get("ready"))
        told = await explained(service, "job", "sweep", world.namespace)
        assert (told["verdict"], told["job"]["timeLimit"]["seconds"]) == ("Placed", 3600)
        (clock,) = await running_clocks(service)
        told = await explained(service, "job", "sweep", world.namespace)
        assert first < told["job"]["startedAt"] == timestamp(clock.run.ran_at), (
            "of the run that its limit is counted for"
        )


async def test_an_updated_limit_ends_a_job_and_stands_until_it_is_updated_again(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    job = (await world.create(batch_job(world, queue, "sweep", "1h")))["metadata"]["uid"]
    await store.controls.limit(history.Event(event=history.JOB_LIMITED, uid=job, actor="ann"), 1)
    async with start() as service:
        event = await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "sweep")
        assert "time limit of 1s" in event["message"]
        await world.until(JOBS, "sweep", lambda item: item["spec"].get("suspend") is True)
        await world.until(JOBS, "sweep", lambda item: not item["status"].get("active"))
        await world.client.patch(JOBS, "sweep", world.namespace, {"spec": {"suspend": False}})
        await world.event(names.EVENT_WAITING, "sweep")
        assert not await world.bound()
        told = await explained(service, "job", "sweep", world.namespace)
        assert told["job"]["timeLimit"]["seconds"] == 1


async def test_a_group_by_hand_ends_as_failed_and_a_pod_is_deleted(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 4)
    group = world.group("hand", 2, queue)
    group["metadata"]["annotations"] = {LIMIT: "1s"}
    async with start() as service:
        await world.create(world.pod("alone", 1, queue=queue, annotations={LIMIT: "1s"}), group)
        await world.create(*(world.pod(f"hand-{index}", 1, group="hand") for index in range(2)))
        await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "hand")
        await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "alone")
        for name in ("alone", "hand-0", "hand-1"):
            await world.gone(PODS, name)
        told = await explained(service, "podgroup", "hand", world.namespace)
        assert (told["verdict"], told["job"]["phase"]) == ("Finished", "Failed")
        assert told["job"]["reason"]["code"] == "TimeLimitExceeded"
        assert (told["job"]["members"]["min"], told["job"]["members"]["total"]) == (2, 2)
        assert (told["job"]["gpus"], bool(told["job"]["startedAt"]), bool(told["job"]["finishedAt"])) == (2, True, True)
        await world.condition("hand", "Evicted", "True", "TimeLimitExceeded")
        finished = await happened(store, history.FINISHED, "alone")
        assert finished.detail["phase"] == "Failed"


async def test_a_deployment_is_scaled_to_nothing_at_the_limit_of_its_pods(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 2)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "x"}},
            "template": template(world, queue, **{LIMIT: "1s"}),
        },
    }
    async with start():
        await world.create(deployment)
        await world.until(DEPLOYMENTS, "web", lambda item: item["spec"]["replicas"] == 0)


async def test_the_clock_goes_on_across_a_restart(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 2)
    clock = [0]

    def now() -> int:
        return time.time_ns() + clock[0]

    async with start(clock=now):
        await world.create(world.pod("long", 1, queue=queue, annotations={LIMIT: "20m"}))
        await world.running("long")
        async with asyncio.timeout(90):
            while not [run for run in await store.runs.all() if run.ran_at]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    clock[0] = 11 * 60 * 10**9
    async with start(clock=now):
        await world.event(names.EVENT_TIME_LIMIT_NEAR, "long")
        async with asyncio.timeout(90):
            while not [run for run in await store.runs.all() if run.near]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    async with start(clock=now):
        clock[0] = 20 * 60 * 10**9
        await world.event(names.EVENT_TIME_LIMIT_EXCEEDED, "long")
        await world.gone(PODS, "long")
    told = (await world.client.list(EVENTS, world.namespace)).items
    near = [event for event in told if event["reason"] == names.EVENT_TIME_LIMIT_NEAR]
    assert [(event["involvedObject"]["name"], event.get("count", 1)) for event in near] == [("long", 1)], "told once"


async def test_a_limit_that_cannot_be_read_is_told_and_one_edited_later_does_not_count(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 2)
    async with start() as service:
        await world.create(
            world.pod("half", 1, queue=queue, annotations={LIMIT: "1.5h"}),
            world.pod("edited", 1, queue=queue, annotations={LIMIT: "2h"}),
        )
        assert "'1.5h' is not a duration" in (await world.event(names.EVENT_TIME_LIMIT_IGNORED, "half"))["message"]
        await world.running("half", "edited")
        told = await explained(service, "pod", "half", world.namespace)
        assert [warning["path"] for warning in told["warnings"]] == [f"metadata.annotations[{LIMIT}]"]
        await world.client.patch(PODS, "edited", world.namespace, {"metadata": {"annotations": {LIMIT: "9h"}}})
        event = await world.event(names.EVENT_TIME_LIMIT_IGNORED, "edited")
        assert "asks for a time limit of 9h" in event["message"]
        told = await explained(service, "pod", "edited", world.namespace)
        assert told["job"]["timeLimit"]["seconds"] == 7200


async def test_a_group_whose_minimum_does_not_run_in_time_is_evicted_whole_and_says_why(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 2)
    assert world.agents is not None
    await world.agents.stop()  # no kubelet is simulated: what is bound does not run
    async with start(policy=Policy(start_timeout_seconds=1)) as service:
        await world.gang("stuck", 2, 1, queue)
        event = await world.event(names.EVENT_START_TIMED_OUT, "stuck")
        assert "did not run within 1s after it was bound (pod stuck-0 is Pending" in event["message"]
        for name in ("stuck-0", "stuck-1"):
            pod = await world.until(PODS, name, lambda pod: pod["metadata"].get("deletionTimestamp"))
            (mark,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
            assert mark["reason"] == "StartTimedOut"
        await world.condition("stuck", "Evicted", "True", "StartTimedOut")
        assert "tried again at" in (await happened(store, history.START_TIMED_OUT, "stuck")).detail["message"]
        (clock,) = service.state.clocks.by_job.values()
        assert (clock.run.missed, clock.run.ran_at, clock.run.bound_at) == (1, 0, 0)


async def test_after_three_late_starts_a_group_waits_for_its_release_whatever_restarts_between(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """Each time it is bound by one scheduler, and does not run in time under the next; it has no limit of its own."""
    await world.play(1, 2)
    assert world.agents is not None
    await world.agents.stop()
    ahead, policy = [0], Policy(start_timeout_seconds=60)

    def now() -> int:
        return time.time_ns() + ahead[0] * 10**9

    async def bound(names: list[str]) -> None:
        async with asyncio.timeout(90):
            while not set(names) <= set(await world.bound()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def reasons(service: Any) -> list[str]:
        told = await explained(service, "podgroup", "stuck", world.namespace)
        return [reason["code"] for reason in told["reasons"]]

    await world.create(world.group("stuck", 2, queue))
    for missed, pause in ((1, 60), (2, 120), (3, 3600)):
        pods = [f"try{missed}-{index}" for index in range(2)]
        async with start(policy=policy, clock=now):
            await world.create(*(world.pod(name, 1, group="stuck") for name in pods))
            await bound(pods)
        async with start(policy=policy, clock=now) as service:
            async with asyncio.timeout(90):
                while not any(clock.run.bound_at for clock in service.state.clocks.by_job.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            ahead[0] += 61
            for name in pods:
                await world.until(PODS, name, lambda pod: pod["metadata"].get("deletionTimestamp"))
                await world.client.delete(PODS, name, world.namespace, grace=0)
                await world.gone(PODS, name)
            async with asyncio.timeout(90):
                while not (runs := [run for run in await store.runs.all() if run.missed == missed]):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            if missed < 3:
                assert runs[0].retry_at - runs[0].missed_at == pause * 10**9
        async with start(policy=policy, clock=now) as service:
            await world.create(world.pod("waits-0", 1, group="stuck"), world.pod("waits-1", 1, group="stuck"))
            async with asyncio.timeout(90):
                while await reasons(service) != ["StartTimedOut"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            for name in ("waits-0", "waits-1"):
                await world.client.delete(PODS, name, world.namespace, grace=0)
                await world.gone(PODS, name)
        ahead[0] += pause
    async with start(policy=policy, clock=now) as service:
        pods = ["last-0", "last-1"]
        await world.create(*(world.pod(name, 1, group="stuck") for name in pods))
        async with asyncio.timeout(90):
            while await reasons(service) != ["StartTimedOut"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        uid = service.state.gangs[world.namespace, "stuck"].uid
        at = datetime.fromtimestamp(now() / 1e9, UTC)
        await store.controls.release(history.Event(event=history.JOB_RELEASED, uid=uid, actor="ann", at=at))
        await bound(pods)


async def test_what_max_duration_ended_says_so_in_history_and_when_asked(
    world: World, start: Start, store: Store
) -> None:
    await world.play(1, 2)
    name = f"{world.run}-short"
    await store.queues.create(name, {}, world.queue_spec | {"maxDuration": "1s"}, {"everyone": True})
    async with start() as service:
        job = batch_job(world, name, "sweep", "")
        await world.create(job)
        await world.until(JOBS, "sweep", lambda item: item["spec"].get("suspend") is True)
        await world.until(JOBS, "sweep", lambda item: not item["status"].get("active"))
        assert "maxDuration of 1s" in (await happened(store, history.MAX_DURATION_EXCEEDED, "sweep")).detail["message"]
        told = await explained(service, "job", "sweep", world.namespace)
        assert [reason["code"] for reason in told["reasons"]] == ["MaxDurationExceeded"]
        assert "counted from its start at" in told["reasons"][0]["message"]
        assert told["job"]["timeLimit"] == {"seconds": 1, "source": "queue", "enforced": True}


async def test_the_signal_comes_before_a_limit_that_is_set_elsewhere(
    world: World, start: Start, queue: str, store: Store
) -> None:
    """By the queue, or by the kind's own deadline; what is longer than that limit is told, and the limit counts."""
    await world.play(1, 3)
    name = f"{world.run}-hour"
    await store.queues.create(name, {}, world.queue_spec | {"maxDuration": "1h"}, {"everyone": True})
    early = {names.SIGNAL_BEFORE_ANNOTATION: "59m57s"}
    by_queue, by_deadline = batch_job(world, name, "queued", ""), batch_job(world, queue, "dead", "")
    vain = batch_job(world, name, "vain", "")
    by_deadline["spec"]["activeDeadlineSeconds"] = 3600
    for job, asks in ((by_queue, early), (by_deadline, early), (vain, {names.SIGNAL_BEFORE_ANNOTATION: "2h"})):
        job["metadata"]["annotations"] = asks
    async with start() as service:
        await world.create(by_queue, by_deadline, vain)
        for job, reason, limit in (
            ("queued", names.EVENT_MAX_DURATION_EXCEEDED, f"maxDuration of 1h of the queue {name!r}"),
            ("dead", names.EVENT_TIME_LIMIT_EXCEEDED, "activeDeadlineSeconds of 3600"),
        ):
            event = await world.event(reason, job)
            assert f"it reaches its {limit} at " in event["message"]
            assert "told to stop 59m57s before" in event["message"]
            await world.until(JOBS, job, lambda item: item["spec"].get("suspend") is True)
        event = await world.event(names.EVENT_TIME_LIMIT_IGNORED, "vain")
        assert f"2h is not shorter than the maxDuration of 1h of the queue {name!r}" in event["message"]
        await world.until(JOBS, "queued", lambda item: not item["status"].get("active"))
        told = await explained(service, "job", "queued", world.namespace)
        assert [reason["code"] for reason in told["reasons"]] == ["MaxDurationExceeded"]
        told = await explained(service, "job", "vain", world.namespace)
        assert told["verdict"] == "Placed"
