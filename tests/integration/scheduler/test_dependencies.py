"""Jobs that wait for others, on a cluster: in order, across restarts, and ended where they can never start."""

import asyncio
from typing import Any

from t9ksched.kube.resources import JOBS, PODS
from t9ksched.model import names
from t9ksched.store import history
from t9ksched.store.store import Store
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_endings import EXIT, RUN, ask, shown
from tests.integration.world import World

Object = dict[str, Any]


def batch_job(
    world: World, name: str, queue: str, after: str = "", run: str = "0.2", code: int = 0, **more: str
) -> Object:
    """A batch Job whose pod runs for so many seconds and ends with that code."""
    notes = {names.AFTER_ANNOTATION: after} if after else {}
    meta = {"labels": {names.QUEUE_LABEL: queue}, "annotations": {RUN: run, EXIT: str(code)} | notes}
    spec = world.pod("x", 1)["spec"] | {"restartPolicy": "Never", "schedulerName": names.SCHEDULER_NAME}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": world.namespace, "annotations": notes | more},
        "spec": {"template": {"metadata": meta, "spec": spec}, "backoffLimit": 0},
    }


def done(job: Object) -> bool:
    return any(one["type"] == "Complete" for one in (job.get("status") or {}).get("conditions") or ())


def waits(job: Object) -> bool:
    return (job["reason"] or {}).get("code") == "DependencyNotMet"


async def test_jobs_run_one_after_the_other(world: World, start: Start, queue: str, store: Store) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(batch_job(world, "b", queue, "Job/a"))
        told = await shown(service, world, "Job/b", lambda job: waits(job) and "none yet" in job["reason"]["message"])
        assert (told["phase"], told["position"]) == ("Pending", None)
        await world.create(batch_job(world, "a", queue))
        await world.until(JOBS, "b", done)
        a, b = [(await world.client.get(JOBS, name, world.namespace))["status"] for name in "ab"]
        assert a["completionTime"] <= b["completionTime"]
        assert (await ask(service, world, "Job/b/explanation"))["verdict"] == "Finished"
    rows = await store.dependencies.all()
    assert [(row.target, bool(row.target_uid), row.met_at > 0) for row in rows] == [("Job/a", True, True)]


async def test_what_was_met_and_what_was_deleted_survive_a_restart(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(batch_job(world, "a", queue), batch_job(world, "lost", queue, run="600"))
        await world.until(JOBS, "a", done)
        await world.running(*[pod for pod in await world.bound() if pod.startswith("lost")])
        await world.create(batch_job(world, "b", queue, "Job/a, Job/lost"))
        await world.create(batch_job(world, "c", queue, "Job/a, Job/lost:any"))
        for name in "bc":
            await shown(
                service, world, f"Job/{name}", lambda job: waits(job) and "Job/lost" in job["reason"]["message"]
            )
        while sum(row.met_at > 0 for row in await store.dependencies.all()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await world.client.delete(JOBS, "lost", world.namespace, propagation="Background")
    await world.gone(JOBS, "lost")
    await world.client.delete(JOBS, "a", world.namespace, propagation="Background")
    await world.create(batch_job(world, "lost", queue))
    async with start() as service:
        await world.until(JOBS, "lost", done)
        await world.until(JOBS, "c", done)
        told = await shown(service, world, "Job/b", waits)
        assert told["reason"]["message"].endswith("Job/lost was deleted before it succeeded")
        explained = await ask(service, world, "Job/b/explanation")
        assert "it is cancelled: t9ksched cancel Job/b -n " + world.namespace in explained["unblocks"]


async def test_a_job_that_can_never_start_is_ended_where_it_asks_for_that(
    world: World, start: Start, queue: str, store: Store
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(batch_job(world, "a", queue, code=3))
        await world.create(batch_job(world, "b", queue, "Job/a", **{names.AFTER_CANCEL_ANNOTATION: "true"}))
        await world.create(batch_job(world, "c", queue, "Job/b:any"))
        event = await world.event(names.EVENT_DEPENDENCY_NOT_MET, "b")
        assert "it waits for others to succeed, and Job/a failed; it is ended" in event["message"]
        told = await shown(service, world, "Job/b", lambda job: job["phase"] == "Failed")
        assert told["reason"]["code"] == "DependencyNotMet"
        assert (await world.client.get(JOBS, "b", world.namespace))["spec"]["suspend"] is True
        await world.until(JOBS, "c", done)
    async with start() as service:
        told = await shown(service, world, "Job/b", lambda job: job["phase"] == "Failed")
        assert told["reason"]["code"] == "DependencyNotMet", "also after a restart"
    assert [one.name for one in await store.history.list(event=history.DEPENDENCY_NOT_MET)] == ["b"]


async def test_jobs_that_wait_for_one_another_are_told_and_an_edit_frees_them(
    world: World, start: Start, queue: str
) -> None:
    await world.play(1, 8)
    async with start() as service:
        await world.create(batch_job(world, "a", queue, "Job/b"), batch_job(world, "b", queue, "Job/a"))
        for name in "ab":
            told = await shown(
                service, world, f"Job/{name}", lambda job: waits(job) and "itself" in job["reason"]["message"]
            )
            assert told["reason"]["message"].startswith("it can never start: it waits for itself (Job/")
        await world.client.patch(
            JOBS, "a", world.namespace, {"metadata": {"annotations": {names.AFTER_ANNOTATION: None}}}
        )
        await world.until(JOBS, "b", done)


async def test_a_group_of_pods_waits_whole(world: World, start: Start, queue: str) -> None:
    await world.play(1, 8)
    group = world.group("g", 2, queue)
    group["metadata"]["annotations"] = {names.AFTER_ANNOTATION: "Pod/first"}
    async with start() as service:
        await world.create(world.pod("first", 1, queue=queue, annotations={RUN: "2"}, restartPolicy="Never"))
        await world.create(group, *(world.pod(f"g-{at}", 1, group="g") for at in range(2)))
        await shown(service, world, "PodGroup/g", waits)
        assert set(await world.bound()) <= {"first"}
        await world.running("g-0", "g-1")
        first = await world.client.get(PODS, "first", world.namespace)
        assert first["status"]["phase"] == "Succeeded"
